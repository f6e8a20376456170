#include "text/AddedTokens.h"
#include "text/Regex.h"
#include "text/Utf8.h"

namespace adapt::rt {
namespace {

// White_Space of Unicode, unchanged since 6.3.
bool isSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// \w of Rust's regex crate (UTS #18, annex C): Oniguruma's with the two joiners, and without what
// that adds in Latin-1.
bool isWordCharacter(std::string_view character, char32_t value) {
  if (value == 0x200C || value == 0x200D)
    return true;
  if (value == 0xB2 || value == 0xB3 || value == 0xB9 || (value >= 0xBC && value <= 0xBE))
    return false;
  static const Regex *word = [] {
    absl::StatusOr<Regex> regex = Regex::compile("\\w");
    return regex.ok() ? new Regex(*regex) : nullptr;
  }();
  std::vector<Regex::Match> matches;
  return word && word->findAll(character, matches).ok() && !matches.empty();
}

bool endsWithWord(std::string_view text) {
  if (text.empty())
    return false;
  std::string_view last = text.substr(lastUtf8(text));
  return isWordCharacter(last, nextUtf8(last).value);
}

bool startsWithWord(std::string_view text) {
  if (text.empty())
    return false;
  Utf8Step step = nextUtf8(text);
  return isWordCharacter(text.substr(0, step.length), step.value);
}

size_t withoutTrailingSpace(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = lastUtf8(text.substr(0, end));
    if (!isSpace(nextUtf8(text.substr(begin)).value))
      break;
    end = begin;
  }
  return end;
}

size_t leadingSpace(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    Utf8Step step = nextUtf8(text.substr(pos));
    if (!isSpace(step.value))
      break;
    pos += step.length;
  }
  return pos;
}

} // namespace

bool AddedTokenMatcher::add(AddedToken token, std::string_view pattern) {
  uint32_t node = 0;
  for (char byte : pattern) {
    auto [edge, isNew] = edges.try_emplace(uint64_t{node} << 8 | static_cast<unsigned char>(byte),
                                           static_cast<uint32_t>(tokenOfNode.size()));
    node = edge->second;
    if (isNew)
      tokenOfNode.push_back(kNone);
  }
  if (tokenOfNode[node] != kNone)
    return false;
  tokenOfNode[node] = static_cast<uint32_t>(tokens.size());
  starts[static_cast<unsigned char>(pattern.front())] = true;
  tokens.push_back(std::move(token));
  return true;
}

bool AddedTokenMatcher::longestAt(std::string_view text, size_t pos, Found &found) const {
  if (!starts[static_cast<unsigned char>(text[pos])])
    return false;
  bool any = false;
  uint32_t node = 0;
  for (size_t i = pos; i < text.size(); ++i) {
    auto edge = edges.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[i]));
    if (edge == edges.end())
      break;
    node = edge->second;
    if (tokenOfNode[node] != kNone) {
      found = {tokenOfNode[node], i + 1};
      any = true;
    }
  }
  return any;
}

void AddedTokenMatcher::split(std::string_view text, bool parseSpecial,
                              std::vector<Segment> &segments) const {
  segments.clear();
  size_t done = 0;
  Found found;
  for (size_t pos = 0; pos < text.size();) {
    if (!longestAt(text, pos, found)) {
      ++pos;
      continue;
    }
    const AddedToken &token = tokens[found.token];
    size_t begin = pos, end = found.end;
    pos = end;
    if (token.special && !parseSpecial)
      continue;
    if (token.singleWord &&
        (endsWithWord(text.substr(0, begin)) || startsWithWord(text.substr(end))))
      continue;
    if (token.lstrip)
      begin = withoutTrailingSpace(text.substr(0, begin)); // perhaps before `done`: no text between
    if (token.rstrip)
      end += leadingSpace(text.substr(end));
    if (done < begin)
      segments.push_back({-1, text.substr(done, begin - done)});
    segments.push_back({token.id, {}});
    done = end;
  }
  if (done < text.size())
    segments.push_back({-1, text.substr(done)});
}

} // namespace adapt::rt
