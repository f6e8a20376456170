#include "Data.h"

#include "text/ByteAlphabet.h"
#include "text/TextStream.h"
#include "text/Utf8.h"

using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

struct Streamed {
  std::vector<std::string> deltas;
  std::string joined;
};

Streamed stream(const Tokenizer &tok, const std::vector<int32_t> &ids, bool skip = true) {
  TextStream text(tok, skip);
  Streamed result;
  for (int32_t id : ids)
    result.deltas.push_back(*text.push(id));
  result.deltas.push_back(text.flush());
  for (const std::string &delta : result.deltas) {
    EXPECT_EQ(findInvalidUtf8(delta), std::string::npos);
    result.joined += delta;
  }
  return result;
}

std::vector<int32_t> byteTokens(const Tokenizer &tok, std::string_view bytes) {
  std::vector<int32_t> ids;
  for (char byte : bytes)
    ids.push_back(tok.tokenToId(byteCharacter(static_cast<unsigned char>(byte))).value());
  return ids;
}

// Case F01 of the fault list.
TEST(TextStreamTest, HoldsBytesUntilTheCharacterIsWhole) {
  Tokenizer tok = tokenizer(data("gpt2.tokenizer.json"));
  std::vector<int32_t> ids = byteTokens(tok, "\xF0\x9F\x98\x80"
                                             "a");
  Streamed result = stream(tok, ids);
  EXPECT_EQ(result.deltas, (std::vector<std::string>{"", "", "", "😀", "a", ""}));
  EXPECT_EQ(result.joined, *tok.decode(ids));
}

TEST(TextStreamTest, FlushesACutCharacterAsOneReplacement) {
  Tokenizer tok = tokenizer(data("gpt2.tokenizer.json"));
  std::vector<int32_t> ids = byteTokens(tok, "\xF0\x9F");
  Streamed result = stream(tok, ids);
  EXPECT_EQ(result.deltas, (std::vector<std::string>{"", "", "\uFFFD"}));
  EXPECT_EQ(result.joined, *tok.decode(ids));
}

TEST(TextStreamTest, AnImpossibleByteDoesNotStall) {
  Tokenizer tok = tokenizer(data("gpt2.tokenizer.json"));
  std::vector<int32_t> ids = byteTokens(tok, "\xFF"
                                             "a");
  Streamed result = stream(tok, ids);
  EXPECT_EQ(result.deltas, (std::vector<std::string>{"\uFFFD", "a", ""}));
  ids = byteTokens(tok, "\xE2\x82"
                        "a");
  result = stream(tok, ids);
  EXPECT_EQ(result.deltas, (std::vector<std::string>{"", "",
                                                     "\uFFFD"
                                                     "a",
                                                     ""}));
  EXPECT_EQ(result.joined, *tok.decode(ids));
}

TEST(TextStreamTest, SkipsSpecialTokensWhenAsked) {
  Tokenizer tok = tokenizer(data("smollm2-style.tokenizer.json"));
  int32_t end = *tok.tokenToId("<|im_end|>"), a = *tok.tokenToId("a");
  EXPECT_EQ(stream(tok, {a, end, a}, true).joined, "aa");
  EXPECT_EQ(stream(tok, {a, end, a}, false).joined, "a<|im_end|>a");
  // A skipped token between the bytes of a character does not break it, as in decode.
  std::vector<int32_t> ids = byteTokens(tok, "\xC3");
  ids.push_back(end);
  ids.push_back(byteTokens(tok, "\xA9")[0]);
  EXPECT_EQ(stream(tok, ids, true).joined, "é");
  EXPECT_EQ(*tok.decode(ids, true), "é");
}

TEST(TextStreamTest, RefusesUnknownIdsAndGoesOn) {
  Tokenizer tok = tokenizer(data("gpt2.tokenizer.json"));
  TextStream text(tok);
  std::vector<int32_t> ids = byteTokens(tok, "\xC3\xA9");
  EXPECT_EQ(*text.push(ids[0]), "");
  EXPECT_EQ(text.push(tok.idLimit()).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(text.push(-1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(*text.push(ids[1]), "é");
}

// Any tokens in any order, most of them ill-formed as text.
TEST(TextStreamTest, DeltasJoinToTheDecodedText) {
  for (const char *name : {"gpt2", "llama3", "smollm2-style", "qwen2"}) {
    Tokenizer tok = tokenizer(data(std::string(name) + ".tokenizer.json"));
    uint32_t state = 7;
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> ids;
      for (int i = 0; i < 60; ++i) {
        state = state * 1664525 + 1013904223;
        // Half of the time from the first 300, which are single bytes in the main.
        int32_t id = static_cast<int32_t>((state >> 8) % (round % 2 ? 300 : tok.idLimit()));
        if (tok.contains(id))
          ids.push_back(id);
      }
      for (bool skip : {false, true})
        ASSERT_EQ(stream(tok, ids, skip).joined, *tok.decode(ids, skip));
    }
  }
}

} // namespace
