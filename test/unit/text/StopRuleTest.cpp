#include "text/StopRule.h"

#include <gtest/gtest.h>
#include <string>

using namespace adapt::rt;

namespace {

// Generates token 7 until the rule ends it: how many, and the reason.
std::pair<int64_t, std::string> run(StopRule rule) {
  std::optional<FinishReason> reason = rule.start();
  while (!reason && rule.generated() < 1000)
    reason = rule.next(7);
  return {rule.generated(), reason ? toString(*reason) : "none"};
}

using Result = std::pair<int64_t, std::string>;

// Case F04 of the fault list: a context of 16.
TEST(StopRuleTest, ContextLimit) {
  EXPECT_EQ(run(*StopRule::create({2}, 10, 16)), Result(6, "length"));
  EXPECT_EQ(run(*StopRule::create({2}, 15, 16)), Result(1, "length"));
  EXPECT_EQ(run(*StopRule::create({2}, 16, 16)), Result(0, "length"));
  absl::Status status = StopRule::create({2}, 17, 16).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(std::string(status.message()), "the prompt has 17 tokens, the context holds 16");
}

TEST(StopRuleTest, MaxTokens) {
  EXPECT_EQ(run(*StopRule::create({}, 10, 16, 3)), Result(3, "length"));
  EXPECT_EQ(run(*StopRule::create({}, 10, 16, 0)), Result(0, "length"));
  EXPECT_EQ(run(*StopRule::create({}, 10, 16, 100)), Result(6, "length"));
  EXPECT_EQ(StopRule::create({}, 10, 16, 100)->maxNewTokens(), 6);
}

TEST(StopRuleTest, EndTokens) {
  StopRule rule = *StopRule::create({2, 5}, 1, 100);
  EXPECT_EQ(rule.next(1), std::nullopt);
  EXPECT_EQ(rule.next(5), FinishReason::kStop);
  EXPECT_EQ(rule.generated(), 2);
  EXPECT_EQ(run(*StopRule::create({7}, 1, 100)), Result(1, "stop"));
  // The last token that fits may end the sequence: then that is the reason.
  EXPECT_EQ(run(*StopRule::create({7}, 15, 16)), Result(1, "stop"));
  // The prompt's own tokens are no concern of the rule, nor an end token that may not be generated.
  EXPECT_EQ(run(*StopRule::create({7}, 16, 16)), Result(0, "length"));
}

TEST(StopRuleTest, RefusesNoPromptAndNegativeNumbers) {
  for (auto [prompt, context, max] : {std::tuple<int64_t, int64_t, int64_t>{0, 16, 1},
                                      {-1, 16, 1},
                                      {1, 16, -1},
                                      {1, -16, 1},
                                      {1, 0, 1}})
    EXPECT_FALSE(StopRule::create({}, prompt, context, max).ok());
}

} // namespace
