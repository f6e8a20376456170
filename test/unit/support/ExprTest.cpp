#include "adapt/Support/Expr.h"
#include "gmock/gmock.h"

using adapt::Expr;
using llvm::json::Value;

namespace {

std::optional<Value> lookup(llvm::StringRef name) {
  static const llvm::json::Object values{
      {"hidden", 576},
      {"heads", 9},
      {"absent", nullptr},
      {"theta", 1e4},
      {"flag", true},
      {"name", "silu"},
      {"types", Value(llvm::json::Array{"full", "sliding"})},
      {"rope",
       Value(llvm::json::Object{{"factor", 2.5}, {"inner", Value(llvm::json::Object{{"x", 1}})}})}};
  const Value *value = values.get(name);
  return value ? std::optional<Value>(*value) : std::nullopt;
}

/// The value as JSON text, or the error.
std::string run(llvm::StringRef text) {
  llvm::Expected<Expr> expr = Expr::parse(text);
  if (!expr)
    return "error: " + llvm::toString(expr.takeError());
  llvm::Expected<Value> value = expr->evaluate(lookup);
  if (!value)
    return "error: " + llvm::toString(value.takeError());
  return adapt::toString(*value);
}

TEST(Expr, Values) {
  const std::pair<const char *, const char *> cases[] = {
      {"1 + 2 * 3", "7"},
      {"(1 + 2) * 3", "9"},
      {"7 - 2 - 1", "4"},
      {"hidden / heads", "64"},
      {"7 // 2", "3"},
      {"-7 // 2", "-4"},
      {"-7 % 3", "2"},
      {"1 / 0.4", "2.5"},
      {"1.5e1", "15"},
      {"absent ?? hidden / heads", "64"},
      {"absent ?? absent ?? 3", "3"},
      {"heads ?? 1 / 0", "9"}, // the right side is not looked at
      {"rope.factor ?? 1.0", "2.5"},
      {"rope.none ?? 1.0", "1"},
      {"absent.factor ?? 4", "4"},
      {"rope.inner.x", "1"},
      {"types[1]", "\"sliding\""},
      {"absent[0] == null", "true"},
      {"types[heads - 8] == 'sliding'", "true"},
      {"name in ['gelu', \"silu\"]", "true"},
      {"not name in ['gelu']", "true"},
      {"not flag or flag", "true"},
      {"not (flag or flag)", "false"},
      {"heads > 3 and heads <= 9", "true"},
      {"1 == 1.0", "true"},
      {"flag ? 1 : 2", "1"},
      {"not flag ? 1 : heads == 9 ? 2 : 3", "2"},
      {"true or 1 / 0 == 1", "true"},
      {"min(3, 1.5, 2)", "1.5"},
      {"max(3, heads)", "9"},
      {"len(types)", "2"},
      {"2 + 3 == 5 and 1 < 2", "true"},
      {"absent ?? 1 + 1", "2"},
  };
  for (auto [text, expected] : cases)
    EXPECT_EQ(run(text), expected) << text;
}

TEST(Expr, Errors) {
  const std::pair<const char *, const char *> cases[] = {
      {"", "expected a value, found the end"},
      {"1 +", "at column 4: expected a value, found the end"},
      {"1 2", "at column 3: expected the end, found '2'"},
      {"(1", "expected ')'"},
      {"'abc", "expected a closing quote"},
      {"flag ? 1", "expected ':'"},
      {"0x10", "expected a number"},
      {"9223372036854775808", "expected a number"},
      {"sqrt(2)", "there is no function 'sqrt'"},
      {"nothing + 1", "there is no 'nothing'"},
      {"hidden / 7", "576 / 7 is not a whole number"},
      {"hidden / 0", "division by zero: 576 / 0"},
      {"1 % 0", "division by zero"},
      {"9223372036854775807 + 1", "too large"},
      {"3037000500 * 3037000500", "too large"},
      {"(-9223372036854775807 - 1) / -1", "too large"},
      {"1e308 * 1e308", "not finite"},
      {"name + 1", "'+' needs numbers, not \"silu\" and 1"},
      {"absent + 1", "'+' needs numbers, not null and 1"},
      {"1 and true", "'and' needs true or false, not 1"},
      {"types[2]", "element 2 of a list of 2"},
      {"types[-1]", "element -1 of a list of 2"},
      {"hidden[0]", "cannot take element 0 of 576"},
      {"hidden.x", "'.x' needs a map, not 576"},
      {"1 in 2", "'in' needs a list, not 2"},
      {"len(1)", "'len' needs one list"},
      {"min()", "'min' needs numbers"},
  };
  for (auto [text, expected] : cases)
    EXPECT_THAT(run(text), testing::HasSubstr(expected)) << text;
  // Deep nesting is refused, not recursed into.
  EXPECT_THAT(run(std::string(3000, '(')), testing::HasSubstr("nested too deep"));
  EXPECT_THAT(run(std::string(3000, '-') + "1"), testing::HasSubstr("nested too deep"));
  EXPECT_THAT(run(std::string(5000, ' ')), testing::HasSubstr("4096"));
}

TEST(Expr, Names) {
  llvm::Expected<Expr> expr = Expr::parse("a + b[c.d] ?? len(e) in ['f']");
  ASSERT_TRUE(bool(expr));
  llvm::StringSet<> names;
  expr->collectNames(names);
  std::vector<std::string> sorted;
  for (const auto &name : names)
    sorted.push_back(name.getKey().str());
  EXPECT_THAT(sorted, testing::UnorderedElementsAre("a", "b", "c", "e"));
}

} // namespace
