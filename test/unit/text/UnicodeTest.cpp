// UTF-8, character classes and patterns.
#include "Data.h"

#include "text/Normalizer.h"
#include "text/OnigSyntax.h"
#include "text/PreTokenizer.h"
#include "text/Regex.h"
#include "text/Utf8.h"

#include <set>

using namespace adapt::rt;
using namespace adapt::rt::test;
using nlohmann::json;

namespace {

std::string lossy(std::string_view bytes) {
  std::string out;
  appendLossyUtf8(out, bytes, true);
  return out;
}

// Examples of the Unicode Standard 16.0, tables 3-8 to 3-11: U+FFFD for maximal subparts.
TEST(Utf8Test, ReplacesMaximalSubparts) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(lossy("\xF0\x9F\x98"), r); // cut at the end: one
}

TEST(Utf8Test, RoundTripsEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800)
      c = 0xE000;
    std::string text;
    appendUtf8(text, c);
    Utf8Step step = nextUtf8(text);
    ASSERT_TRUE(step.kind == Utf8Step::kValid && step.value == c && step.length == text.size())
        << c;
    ASSERT_EQ(lastUtf8("é" + text), 2u);
  }
}

// Each class on each code point against what the Python package answers. Oniguruma there knows a
// newer Unicode than PCRE2 here: only code points that PCRE2 takes for unassigned may differ.
TEST(RegexTest, ClassesEqualOniguruma) {
  json classes = data("classes.json");
  ASSERT_GT(classes.size(), 12u);
  std::string text;
  std::vector<char32_t> points;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c == 0xD800)
      c = 0xE000;
    points.push_back(c);
  }
  auto matching = [&](const Regex &regex) {
    std::set<char32_t> result;
    std::vector<Regex::Match> matches;
    std::string one;
    for (char32_t c : points) {
      one.clear();
      appendUtf8(one, c);
      EXPECT_TRUE(regex.findAll(one, matches).ok());
      if (!matches.empty())
        result.insert(c);
    }
    return result;
  };
  std::set<char32_t> unassigned = matching(*Regex::compile("\\p{Cn}"));
  for (auto &[pattern, ranges] : classes.items()) {
    if (pattern == "Digits")
      continue;
    std::set<char32_t> expected;
    for (const json &range : ranges)
      for (char32_t c = range[0]; c <= range[1].get<char32_t>(); ++c)
        expected.insert(c);
    absl::StatusOr<Regex> regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    std::set<char32_t> actual = matching(*regex);
    std::vector<char32_t> differ;
    std::set_symmetric_difference(expected.begin(), expected.end(), actual.begin(), actual.end(),
                                  std::back_inserter(differ));
    size_t newer = 0;
    for (char32_t c : differ)
      if (unassigned.count(c))
        ++newer;
      else
        ADD_FAILURE() << pattern << " differs on U+" << std::hex << static_cast<uint32_t>(c);
    // Letters grew by some 9,000 from Unicode 14 to 16.
    EXPECT_LT(newer, 11000u) << pattern;
  }
}

TEST(PreTokenizerTest, DigitsAreThoseOfTheTokenizersPackage) {
  PreTokenizer digits;
  digits.add(DigitsStep{true});
  std::set<char32_t> expected;
  json classes = data("classes.json");
  ASSERT_GT(classes["Digits"].size(), 100u);
  for (const json &range : classes["Digits"])
    for (char32_t c = range[0]; c <= range[1].get<char32_t>(); ++c)
      expected.insert(c);
  Regex unassigned = *Regex::compile("\\p{Cn}");
  std::deque<std::string> arena;
  std::vector<std::string_view> words;
  std::vector<Regex::Match> matches;
  for (char32_t c = 1; c <= 0x10FFFF; ++c) {
    if (c == 0xD800)
      c = 0xE000;
    std::string text = "a";
    appendUtf8(text, c);
    std::string_view character = std::string_view(text).substr(1);
    std::string whole = text + "a";
    ASSERT_TRUE(digits.run(whole, arena, words).ok());
    bool numeric = words.size() == 3;
    if (numeric == (expected.count(c) == 1))
      continue;
    ASSERT_TRUE(unassigned.findAll(character, matches).ok());
    EXPECT_FALSE(matches.empty()) << std::hex << static_cast<uint32_t>(c);
  }
}

// What could mean something else in PCRE2 is refused, and all at once.
TEST(RegexTest, RefusesWhatIsNotKnownToBeEqual) {
  for (const char *pattern :
       {"\\bx",         "\\B",         "(a)\\1",       "(?<name>a)", "(?i)a",   "(?m:a)", "[a&&b]",
        "[a[b]]",       "[[:alpha:]]", "\\p{N}{1,3}+", "a{2}?",      "a**",     "\\h",    "\\R",
        "\\X",          "\\G",         "\\K",          "\\Z",        "\\xff",   "[\\W]",  "[]a]",
        "(?i:\\p{Lu})", "\\k<x>",      "\\g<1>",       "(?#x)",      "(?(1)a)", "(?~a)",  "\\p{",
        "\\C",          "\\Qa\\E",     "[a-\\d]",      "(?i:\\w)",   "[\\d-a]", "[\\b]",  "*a",
        "(*ACCEPT)",    "(?R)",        "\\N",          "\\O",        "\\y"}) {
    absl::StatusOr<Regex> regex = Regex::compile(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kInvalidArgument) << pattern;
  }
  std::string message(Regex::compile("\\bx[a&&b](?<n>c)").status().message());
  for (const char *part : {"'\\b' at byte 0", "'&&'", "group '(?<n' at byte"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  // PCRE2's own complaints.
  for (const char *pattern :
       {"(a", "a)", "[b-a]", "\\p{Nosuchscript}", "a{3,2}", "(?<=a*)b", "a{99999}"})
    EXPECT_EQ(Regex::compile(pattern).status().code(), absl::StatusCode::kInvalidArgument)
        << pattern;
}

TEST(RegexTest, StopsRunawayBacktracking) {
  absl::StatusOr<Regex> regex = Regex::compile("(?:a+)+b|(?:a|a)*c");
  ASSERT_TRUE(regex.ok()) << regex.status();
  std::vector<Regex::Match> matches;
  EXPECT_EQ(regex->findAll(std::string(5000, 'a'), matches).code(),
            absl::StatusCode::kResourceExhausted);
}

// UAX #15, figures 3 to 6, and its composition exclusions.
TEST(NormalizerTest, Nfc) {
  for (auto [text, expected] : {std::pair<const char *, const char *>{"abc", "abc"},
                                {"\u212B", "\u00C5"},
                                {"\u2126", "\u03A9"},
                                {"e\u0301", "\u00E9"},
                                {"s\u0307\u0323", "\u1E69"},
                                {"\u1E0B\u0323", "\u1E0D\u0307"},
                                {"q\u0307\u0323", "q\u0323\u0307"},
                                {"\u1112\u1161\u11AB", "\uD55C"},
                                {"\uFB01", "\uFB01"},
                                {"\u0958", "\u0915\u093C"},
                                {"\u0344", "\u0308\u0301"},
                                {"\U0001D15E", "\U0001D157\U0001D165"}})
    EXPECT_EQ(*normalizeNfc(text), expected);
}

// UAX #15: marks are sorted by class, and those of one class keep their order, in long runs too.
TEST(NormalizerTest, KeepsTheOrderWithinAClass) {
  const char *above[] = {"\u0308", "\u0301", "\u0307", "\u0300"}; // class 230
  const char *below[] = {"\u0331", "\u0316", "\u0320"};           // class 220
  std::string text = "q", first, second;
  for (int i = 0; i < 500; ++i) {
    text += above[i % 4];
    text += below[i % 3];
    first += below[i % 3];
    second += above[i % 4];
  }
  EXPECT_EQ(*normalizeNfc(text), "q" + first + second);
}

} // namespace
