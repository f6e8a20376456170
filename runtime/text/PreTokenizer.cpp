#include "text/PreTokenizer.h"
#include "text/Utf8.h"

#include <utf8proc.h>

#include <algorithm>

namespace adapt::rt {
namespace {

// A part of the text, and whether it matched. Parts cover the text in order.
struct Part {
  size_t begin, end;
  bool match;
};

bool isNumeric(char32_t c) {
  if (c < 0x80)
    return c >= '0' && c <= '9';
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

void addPart(std::vector<Part> &parts, size_t &done, size_t begin, size_t end) {
  if (done < begin)
    parts.push_back({done, begin, false});
  parts.push_back({begin, end, true});
  done = end;
}

absl::Status findParts(const SplitStep &step, std::string_view text,
                       std::vector<Regex::Match> &matches, std::vector<Part> &parts) {
  size_t done = 0;
  if (step.regex) {
    if (absl::Status status = step.regex->findAll(text, matches); !status.ok())
      return status;
    for (Regex::Match match : matches)
      addPart(parts, done, match.begin, match.end);
  } else {
    for (size_t pos = 0; (pos = text.find(step.literal, pos)) != std::string_view::npos;) {
      addPart(parts, done, pos, pos + step.literal.size());
      pos = done;
    }
  }
  if (done < text.size())
    parts.push_back({done, text.size(), false});
  if (step.invert)
    for (Part &part : parts)
      part.match = !part.match;
  return absl::OkStatus();
}

void findNumbers(std::string_view text, std::vector<Part> &parts) {
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    Utf8Step step = nextUtf8(text.substr(pos));
    if (isNumeric(step.value))
      addPart(parts, done, pos, pos + step.length);
    pos += step.length;
  }
  if (done < text.size())
    parts.push_back({done, text.size(), false});
}

// Joins parts as the behaviour says; `match` of a result means: drop it.
void applyBehavior(SplitBehavior behavior, std::vector<Part> &parts) {
  bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (behavior == SplitBehavior::kRemoved)
    return;
  if (backwards)
    std::reverse(parts.begin(), parts.end());
  std::vector<Part> joined;
  bool previous = false;
  for (const Part &part : parts) {
    bool join = !joined.empty();
    if (behavior == SplitBehavior::kIsolated)
      join = false;
    else if (behavior == SplitBehavior::kContiguous)
      join &= part.match == previous;
    else
      join &= part.match && !previous;
    if (!join)
      joined.push_back({part.begin, part.end, false});
    else if (backwards)
      joined.back().begin = part.begin;
    else
      joined.back().end = part.end;
    previous = part.match;
  }
  if (backwards)
    std::reverse(joined.begin(), joined.end());
  parts = std::move(joined);
}

} // namespace

void PreTokenizer::add(SplitStep step) {
  steps.push_back({Step::kPattern, std::move(step), false});
}

void PreTokenizer::add(DigitsStep step) { steps.push_back({Step::kDigits, {}, step.individual}); }

absl::Status PreTokenizer::add(ByteLevelStep step) {
  if (step.addPrefixSpace)
    steps.push_back({Step::kPrefixSpace, {}, false});
  if (!step.useRegex)
    return absl::OkStatus();
  // github.com/openai/gpt-2, src/encoder.py
  absl::StatusOr<Regex> regex = Regex::compile(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  if (!regex.ok())
    return regex.status();
  SplitStep split;
  split.regex = *std::move(regex);
  add(std::move(split));
  return absl::OkStatus();
}

absl::Status PreTokenizer::run(std::string_view text, std::deque<std::string> &arena,
                               std::vector<std::string_view> &words) const {
  words.clear();
  if (!text.empty())
    words.push_back(text);
  std::vector<std::string_view> next;
  std::vector<Part> parts;
  std::vector<Regex::Match> matches;
  for (const Step &step : steps) {
    next.clear();
    for (std::string_view word : words) {
      if (step.kind == Step::kPrefixSpace) {
        if (word.front() != ' ')
          word = arena.emplace_back(" ").append(word);
        next.push_back(word);
        continue;
      }
      parts.clear();
      if (step.kind == Step::kDigits) {
        findNumbers(word, parts);
        if (!step.individual)
          applyBehavior(SplitBehavior::kContiguous, parts);
        else
          applyBehavior(SplitBehavior::kIsolated, parts);
      } else {
        if (absl::Status status = findParts(step.split, word, matches, parts); !status.ok())
          return status;
        applyBehavior(step.split.behavior, parts);
      }
      for (const Part &part : parts)
        if (!part.match && part.begin < part.end)
          next.push_back(word.substr(part.begin, part.end - part.begin));
    }
    words.swap(next);
  }
  return absl::OkStatus();
}

} // namespace adapt::rt
