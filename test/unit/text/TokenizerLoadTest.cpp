// What a tokenizer.json may not hold: each is refused by name, all at once, and nothing crashes.
#include "Data.h"

#include <functional>

using namespace adapt::rt;
using namespace adapt::rt::test;
using nlohmann::json;

namespace {

std::string problemsOf(const std::string &text) {
  absl::StatusOr<Tokenizer> result = Tokenizer::fromJson(text);
  if (result.ok())
    return "";
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

json base() { return data("smollm2-style.tokenizer.json"); }

struct Case {
  const char *expected; // part of the message
  std::function<void(json &)> change;
};

json added(const char *content, int64_t id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", false}};
}

TEST(TokenizerLoadTest, RefusesByName) {
  int64_t count = static_cast<int64_t>(base()["model"]["vocab"].size());
  const Case cases[] = {
      {"the file: key 'quantizer' is not known", [](json &j) { j["quantizer"] = 1; }},
      {"version is \"2.0\"", [](json &j) { j["version"] = "2.0"; }},
      {"version is null", [](json &j) { j.erase("version"); }},
      {"truncation is set", [](json &j) { j["truncation"] = {{"max_length", 5}}; }},
      {"padding is set", [](json &j) { j["padding"] = json::object(); }},
      {"type 'NFKC' is not supported", [](json &j) { j["normalizer"] = {{"type", "NFKC"}}; }},
      {"normalizer.normalizers[1]: type 'Lowercase'",
       [](json &j) {
         j["normalizer"] = {{"type", "Sequence"},
                            {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}};
       }},
      {"normalizer has no type", [](json &j) { j["normalizer"] = json::object(); }},
      {"normalizer is not an object", [](json &j) { j["normalizer"] = 3; }},
      {"normalizer: key 'strip' is not known",
       [](json &j) { j["normalizer"] = {{"type", "NFC"}, {"strip", true}}; }},
      {"model: type 'WordPiece'", [](json &j) { j["model"]["type"] = "WordPiece"; }},
      {"model is not an object", [](json &j) { j.erase("model"); }},
      {"model: key 'scores'", [](json &j) { j["model"]["scores"] = json::array(); }},
      {"model: byte_fallback is not supported",
       [](json &j) { j["model"]["byte_fallback"] = true; }},
      {"dropout 0.1 is not supported", [](json &j) { j["model"]["dropout"] = 0.1; }},
      {"continuing_subword_prefix \"##\"",
       [](json &j) { j["model"]["continuing_subword_prefix"] = "##"; }},
      {"end_of_word_suffix \"</w>\"", [](json &j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {"fuse_unk is 1, not true or false", [](json &j) { j["model"]["fuse_unk"] = 1; }},
      {"unk_token \"<none>\" is not in the vocabulary",
       [](json &j) { j["model"]["unk_token"] = "<none>"; }},
      {"vocab is missing", [](json &j) { j["model"].erase("vocab"); }},
      {"merges is missing", [](json &j) { j["model"].erase("merges"); }},
      {"vocab is missing or of a wrong type", [](json &j) { j["model"]["vocab"] = 3; }},
      {"merges is missing or of a wrong type", [](json &j) { j["model"]["merges"] = "a b"; }},
      {"'zz': id -1 is out of range", [](json &j) { j["model"]["vocab"]["zz"] = -1; }},
      {"'zz': id 4000000000 is out of range",
       [](json &j) { j["model"]["vocab"]["zz"] = 4000000000; }},
      {"'zz': id 9223372036854775807 is out of range",
       [](json &j) { j["model"]["vocab"]["zz"] = 18446744073709551615ull; }},
      {"vocabulary entry 'zz' is not an integer", [](json &j) { j["model"]["vocab"]["zz"] = "5"; }},
      {"vocabulary entry 'zz' is not an integer", [](json &j) { j["model"]["vocab"]["zz"] = 1.5; }},
      {"vocabulary entry 'zz' is not an integer",
       [](json &j) { j["model"]["vocab"]["zz"] = {{"a", {1, {{"b", 2}}}}}; }},
      {"'zz': id 7 is another token's", [](json &j) { j["model"]["vocab"]["zz"] = 7; }},
      {"merge 1 ('a b c') is not two tokens",
       [](json &j) { j["model"]["merges"] = {"Ġ t", "a b c"}; }},
      {"merge 0 is not a pair of strings",
       [](json &j) { j["model"]["merges"] = {{"a", "b", "c"}}; }},
      {"merge 1 is not a pair of strings",
       [](json &j) { j["model"]["merges"] = json::parse(R"([["e", "n"], ["a", ["b"]]])"); }},
      {"merge 0 is neither a string nor", [](json &j) { j["model"]["merges"] = {5}; }},
      {"token 'Ġzzz' is not in the vocabulary",
       [](json &j) { j["model"]["merges"].push_back("Ġzzz a"); }},
      {"token 'aQQ' is not in the vocabulary",
       [](json &j) {
         j["model"]["vocab"]["QQ"] = 60000;
         j["model"]["merges"].push_back("a QQ");
       }},
      {"added_tokens is not an array", [](json &j) { j["added_tokens"] = json::object(); }},
      {"added_tokens[3] is not an object", [](json &j) { j["added_tokens"].push_back("x"); }},
      {"added_tokens[3]: no content or no integer id",
       [](json &j) { j["added_tokens"].push_back(added("", 5)); }},
      {"added_tokens[3]: key 'color'",
       [=](json &j) {
         j["added_tokens"].push_back(added("<x>", count));
         j["added_tokens"][3]["color"] = 1;
       }},
      {"added_tokens[3] ('<x>'): lstrip is missing",
       [=](json &j) {
         j["added_tokens"].push_back(added("<x>", count));
         j["added_tokens"][3].erase("lstrip");
       }},
      {"('<|im_end|>') occurs twice",
       [](json &j) { j["added_tokens"].push_back(added("<|im_end|>", 2)); }},
      {"('<x>'): id 5, but the tokenizers library gives it",
       [](json &j) { j["added_tokens"].push_back(added("<x>", 5)); }},
      {"longer than 1024 bytes",
       [=](json &j) { j["added_tokens"].push_back(added(std::string(2000, 'x').c_str(), count)); }},
      {"no ByteLevel; only byte-level BPE", [](json &j) { j["pre_tokenizer"] = nullptr; }},
      {"pre_tokenizer: type 'Metaspace'",
       [](json &j) { j["pre_tokenizer"] = {{"type", "Metaspace"}}; }},
      {"'Digits' after ByteLevel is not supported",
       [](json &j) {
         j["pre_tokenizer"]["pretokenizers"].push_back(j["pre_tokenizer"]["pretokenizers"][0]);
       }},
      {"pattern is neither a Regex nor a String",
       [](json &j) {
         j["pre_tokenizer"]["pretokenizers"][0] = {
             {"type", "Split"}, {"pattern", "x"}, {"behavior", "Isolated"}, {"invert", false}};
       }},
      {"behavior \"Sideways\" is not known",
       [](json &j) {
         j["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Split"},
                                                   {"pattern", {{"Regex", "x"}}},
                                                   {"behavior", "Sideways"},
                                                   {"invert", false}};
       }},
      {"pattern '\\bx' uses what is not supported: '\\b' at byte 0",
       [](json &j) {
         j["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Split"},
                                                   {"pattern", {{"Regex", "\\bx"}}},
                                                   {"behavior", "Isolated"},
                                                   {"invert", false}};
       }},
      {"pretokenizers is not an array",
       [](json &j) { j["pre_tokenizer"]["pretokenizers"] = "ByteLevel"; }},
      {"post_processor: type 'BertProcessing'",
       [](json &j) { j["post_processor"] = {{"type", "BertProcessing"}}; }},
      {"'single' leaves the text out",
       [](json &j) {
         j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", json::array()}};
       }},
      {"is neither the text, once, nor a special token",
       [](json &j) {
         j["post_processor"] = {
             {"type", "TemplateProcessing"},
             {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "B"}}}}}},
             {"special_tokens", json::object()}};
       }},
      {"special token \"B\" has id 99999, which no token has",
       [](json &j) {
         j["post_processor"] = {
             {"type", "TemplateProcessing"},
             {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "B"}}}}}},
             {"special_tokens", {{"B", {{"ids", {99999}}}}}}};
       }},
      {"decoder is null", [](json &j) { j["decoder"] = nullptr; }},
      {"decoder: type 'Fuse'", [](json &j) { j["decoder"] = {{"type", "Fuse"}}; }},
  };
  for (const Case &test : cases) {
    json changed = base();
    test.change(changed);
    std::string message = problemsOf(changed.dump());
    EXPECT_NE(message.find(test.expected), std::string::npos)
        << "expected: " << test.expected << "\nmessage: " << message;
  }
}

TEST(TokenizerLoadTest, ReportsAllProblemsAtOnce) {
  json changed = base();
  changed["normalizer"] = {{"type", "NFKC"}};
  changed["model"]["byte_fallback"] = true;
  changed["decoder"] = {{"type", "Fuse"}};
  changed["post_processor"] = {{"type", "BertProcessing"}};
  changed["extra"] = 1;
  std::string message = problemsOf(changed.dump());
  for (const char *part : {"NFKC", "byte_fallback", "Fuse", "BertProcessing", "'extra'"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(TokenizerLoadTest, RefusesTwoTemplates) {
  // The tokenizers package panics on the second.
  json changed = data("llama3.tokenizer.json");
  json &processors = changed["post_processor"]["processors"];
  processors.push_back(processors[1]);
  EXPECT_NE(problemsOf(changed.dump()).find("a second TemplateProcessing"), std::string::npos);
}

TEST(TokenizerLoadTest, RefusesWhatIsNotJson) {
  for (std::string text : {"", "{", "[]", "null", "{\"version\": \"1.0\"", "{\"a\": \"\xff\"}",
                           "{\"a\": \"\\ud800\"}", "{} x", "{\"a\": 1e999}"})
    EXPECT_NE(problemsOf(text), "") << text;
  std::string text = base().dump();
  for (size_t cut = 0; cut < text.size(); cut += 997)
    EXPECT_NE(problemsOf(text.substr(0, cut)), "");
}

TEST(TokenizerLoadTest, RefusesDuplicateKeys) {
  std::string text = base().dump();
  auto inserted = [&](const std::string &before, const std::string &what) {
    std::string changed = text;
    size_t at = changed.find(before);
    EXPECT_NE(at, std::string::npos);
    return problemsOf(changed.insert(at + before.size(), what));
  };
  EXPECT_NE(inserted("\"vocab\":{", "\"a\":3000,\"zz\":4000,\"a\":5000,").find("'a' occurs twice"),
            std::string::npos);
  EXPECT_NE(inserted("\"model\":{", "\"vocab\":{},").find("'vocab' occurs twice"),
            std::string::npos);
  EXPECT_NE(inserted("\"model\":{", "\"merges\":[],").find("'merges' occurs twice"),
            std::string::npos);
  EXPECT_NE(inserted("{", "\"model\":{},").find("'model' occurs twice"), std::string::npos);
  EXPECT_NE(inserted("\"decoder\":{", "\"type\":\"ByteLevel\",").find("'type' occurs twice"),
            std::string::npos);
}

TEST(TokenizerLoadTest, RefusesDeepNesting) {
  constexpr size_t kDepth = 1000000;
  for (const char *key : {"\"x\"", "\"normalizer\"", "\"model\""}) {
    std::string text = std::string("{") + key + ":" + std::string(kDepth, '[');
    EXPECT_NE(problemsOf(text).find("nested deeper than 32 levels"), std::string::npos);
  }
  for (const char *list : {"{\"model\":{\"vocab\":{\"a\":", "{\"model\":{\"merges\":["})
    EXPECT_NE(problemsOf(list + std::string(kDepth, '[')).find("nested deeper"), std::string::npos);
  std::string objects = "{\"model\":{\"vocab\":";
  for (size_t i = 0; i < 100; ++i)
    objects += "{\"a\":";
  EXPECT_NE(problemsOf(objects).find("nested deeper"), std::string::npos);
}

// Whatever bytes become, the file is refused or loads, and then encodes; for the sanitizers.
TEST(TokenizerLoadTest, SurvivesDamage) {
  std::string text = data("smollm2-style.tokenizer.json").dump();
  uint64_t state = 1;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = text;
    for (int n = 0; n < 2; ++n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      damaged[(state >> 33) % damaged.size()] = "\"{}[],:0a9-"[(state >> 24) % 11];
    }
    absl::StatusOr<Tokenizer> tok = Tokenizer::fromJson(damaged);
    if (!tok.ok())
      continue;
    EXPECT_TRUE(tok->encode("Hello 123 <|im_end|> é 😀\n").ok());
  }
}

TEST(TokenizerLoadTest, NamesTheFile) {
  absl::Status status = Tokenizer::fromFile("/nonexistent/tokenizer.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("/nonexistent/tokenizer.json"), std::string::npos);
  status = Tokenizer::fromFile(ADAPT_TEXT_DATA "/corpus.json").status();
  EXPECT_NE(std::string(status.message()).find("corpus.json: not usable"), std::string::npos)
      << status;
}

} // namespace
