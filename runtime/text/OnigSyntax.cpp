#include "text/OnigSyntax.h"
#include "text/Utf8.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <vector>

namespace adapt::rt {
namespace {

struct Category {
  const char *longName, *shortName;
};
constexpr Category kCategories[] = {{"letter", "L"},
                                    {"uppercaseletter", "Lu"},
                                    {"lowercaseletter", "Ll"},
                                    {"titlecaseletter", "Lt"},
                                    {"modifierletter", "Lm"},
                                    {"otherletter", "Lo"},
                                    {"mark", "M"},
                                    {"nonspacingmark", "Mn"},
                                    {"spacingmark", "Mc"},
                                    {"enclosingmark", "Me"},
                                    {"number", "N"},
                                    {"decimalnumber", "Nd"},
                                    {"letternumber", "Nl"},
                                    {"othernumber", "No"},
                                    {"punctuation", "P"},
                                    {"connectorpunctuation", "Pc"},
                                    {"dashpunctuation", "Pd"},
                                    {"openpunctuation", "Ps"},
                                    {"closepunctuation", "Pe"},
                                    {"initialpunctuation", "Pi"},
                                    {"finalpunctuation", "Pf"},
                                    {"otherpunctuation", "Po"},
                                    {"symbol", "S"},
                                    {"mathsymbol", "Sm"},
                                    {"currencysymbol", "Sc"},
                                    {"modifiersymbol", "Sk"},
                                    {"othersymbol", "So"},
                                    {"separator", "Z"},
                                    {"spaceseparator", "Zs"},
                                    {"lineseparator", "Zl"},
                                    {"paragraphseparator", "Zp"},
                                    {"other", "C"},
                                    {"control", "Cc"},
                                    {"format", "Cf"},
                                    {"surrogate", "Cs"},
                                    {"privateuse", "Co"},
                                    {"unassigned", "Cn"}};

// Oniguruma's word characters, as the inside of a set: those of UTS #18, without the joiners, and
// the superscripts and fractions of Latin-1, for which it has a table of its own.
constexpr const char *kWordSet =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

class Translator {
public:
  explicit Translator(std::string_view pattern) : in(pattern) {}

  absl::StatusOr<std::string> run() {
    if (size_t bad = findInvalidUtf8(in); bad != std::string_view::npos)
      return absl::InvalidArgumentError(
          fmt::format("pattern is not valid UTF-8 at its byte {}", bad));
    while (pos < in.size())
      atom();
    if (problems.empty())
      return std::move(out);
    return absl::InvalidArgumentError(fmt::format("pattern '{}' uses what is not supported: {}", in,
                                                  absl::StrJoin(problems, ", ")));
  }

private:
  bool at(std::string_view what) const { return in.substr(pos, what.size()) == what; }
  bool take(std::string_view what) {
    if (!at(what))
      return false;
    pos += what.size();
    return true;
  }
  void refuse(std::string_view what) {
    std::string text(what);
    if (std::find(problems.begin(), problems.end(), text) == problems.end())
      problems.push_back(text);
  }

  char32_t takeCodePoint() {
    Utf8Step step = nextUtf8(in.substr(pos));
    pos += step.length;
    return step.value;
  }

  void literal(char32_t c) {
    if (c < 0x80 && !absl::ascii_isalnum(static_cast<unsigned char>(c)))
      out += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(c));
    else
      appendUtf8(out, c);
  }

  void atom() {
    if (at("(")) {
      group();
    } else if (take(")")) {
      if (!caseless.empty())
        caseless.pop_back();
      out += ')'; // PCRE2 reports one too many
      quantifier();
    } else if (at("[")) {
      set();
      quantifier();
    } else if (at("\\")) {
      escape(/*inSet=*/false);
      quantifier();
    } else if (take(".")) {
      out += '.';
      quantifier();
    } else if (take("|")) {
      out += '|';
    } else if (take("^")) {
      out += '^';
    } else if (take("$")) {
      out += '$';
    } else if (at("*") || at("+") || at("?")) {
      refuse(fmt::format("a quantifier at byte {} with nothing to repeat", pos));
      ++pos;
    } else {
      literal(takeCodePoint());
      quantifier();
    }
  }

  void group() {
    bool inherited = !caseless.empty() && caseless.back();
    for (const char *open : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
      if (take(open)) {
        out += open;
        caseless.push_back(inherited);
        return;
      }
    if (take("(?i:")) {
      out += "(?i:";
      caseless.push_back(true);
      return;
    }
    if (at("(?")) {
      refuse(fmt::format("group '{}' at byte {}", in.substr(pos, 4), pos));
      pos += 2;
    } else {
      ++pos;
    }
    out += "(?:"; // what a group captured is never asked for
    caseless.push_back(inherited);
  }

  // Whether a quantifier in braces starts here, and what it is.
  struct Braces {
    std::string low, high;
    bool comma;
    size_t length;
  };
  std::optional<Braces> braces() const {
    if (!at("{"))
      return std::nullopt;
    size_t i = pos + 1;
    auto digits = [&] {
      size_t begin = i;
      while (i < in.size() && absl::ascii_isdigit(static_cast<unsigned char>(in[i])))
        ++i;
      return std::string(in.substr(begin, i - begin));
    };
    Braces result;
    result.low = digits();
    result.comma = i < in.size() && in[i] == ',';
    if (result.comma) {
      ++i;
      result.high = digits();
    }
    if (i >= in.size() || in[i] != '}' || (result.low.empty() && result.high.empty()))
      return std::nullopt;
    result.length = i + 1 - pos;
    return result;
  }

  void quantifier() {
    if (std::optional<Braces> found = braces()) {
      pos += found->length;
      std::string low = found->low.empty() ? "0" : found->low;
      out += fmt::format("{{{}{}{}}}", low, found->comma ? "," : "", found->high);
      if (at("+"))
        refuse("'{n,m}+'");
      else if (at("?") && !found->comma)
        refuse("'{n}?'");
      else if (take("?"))
        out += '?';
    } else if (at("*") || at("+") || at("?")) {
      out += in[pos++];
      if (at("?") || at("+"))
        out += in[pos++];
    } else {
      return;
    }
    if (at("*") || at("+") || at("?") || braces())
      refuse(fmt::format("a quantifier of a quantifier at byte {}", pos));
    while (at("*") || at("+") || at("?"))
      ++pos;
  }

  std::optional<char32_t> hex(size_t digits) {
    char32_t value = 0;
    if (in.size() - pos < digits || digits == 0 || digits > 6)
      return std::nullopt;
    for (size_t i = 0; i < digits; ++i) {
      char c = in[pos + i];
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(c)))
        return std::nullopt;
      value = value * 16 + (absl::ascii_isdigit(static_cast<unsigned char>(c))
                                ? c - '0'
                                : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
      return std::nullopt;
    pos += digits;
    return value;
  }

  /// An escape that stands for one character, without emitting it.
  std::optional<char32_t> escapedLiteral() {
    size_t start = pos;
    ++pos;
    if (pos == in.size())
      return std::nullopt;
    char c = in[pos];
    static constexpr std::string_view kNames = "ntrfvae";
    static constexpr char kValues[] = "\n\t\r\f\v\a\x1b";
    if (size_t i = kNames.find(c); i != std::string_view::npos) {
      ++pos;
      return static_cast<char32_t>(kValues[i]);
    }
    std::optional<char32_t> value;
    if (take("x{")) {
      size_t end = in.find('}', pos);
      if (end != std::string_view::npos && (value = hex(end - pos)))
        ++pos;
    } else if (take("x")) {
      value = hex(2);
      if (value && *value > 0x7F) // a byte to Oniguruma, a code point to PCRE2
        value = std::nullopt;
    } else if (take("u")) {
      value = hex(4);
    } else if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      value = takeCodePoint();
    }
    if (!value)
      pos = start;
    return value;
  }

  void escape(bool inSet) {
    size_t start = pos;
    if (std::optional<char32_t> c = escapedLiteral()) {
      literal(*c);
      return;
    }
    if (at("\\p{") || at("\\P{")) {
      property();
      return;
    }
    std::string_view name = in.substr(start, 2);
    pos = std::min(in.size(), start + 2);
    bool insensitive = !caseless.empty() && caseless.back();
    if (name == "\\s" || name == "\\S")
      out += name == "\\s" ? "\\p{White_Space}" : "\\P{White_Space}";
    else if (name == "\\d" || name == "\\D")
      out += name == "\\d" ? "\\p{Nd}" : "\\P{Nd}";
    else if (name == "\\w" && !insensitive)
      out += inSet ? kWordSet : fmt::format("[{}]", kWordSet);
    else if (name == "\\W" && !inSet && !insensitive)
      out += fmt::format("[^{}]", kWordSet);
    else if ((name == "\\A" || name == "\\z") && !inSet)
      out += name;
    else
      refuse(fmt::format("'{}' at byte {}", name, start));
  }

  void property() {
    size_t start = pos;
    bool negated = in[pos + 1] == 'P';
    pos += 3;
    if (take("^"))
      negated = !negated;
    size_t end = in.find('}', pos);
    if (end == std::string_view::npos) {
      refuse(fmt::format("an unclosed property at byte {}", start));
      pos = in.size();
      return;
    }
    std::string_view written = in.substr(pos, end - pos);
    pos = end + 1;
    if (!caseless.empty() && caseless.back())
      refuse(fmt::format("'{}' under (?i:", in.substr(start, pos - start)));
    std::string name;
    for (char c : written)
      if (c != '_' && c != ' ' && c != '-')
        name += absl::ascii_tolower(static_cast<unsigned char>(c));
    bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalpha(static_cast<unsigned char>(c));
    });
    if (!plain) {
      refuse(fmt::format("property '{}'", written));
      return;
    }
    auto matches = [&](const Category &category) {
      std::string brief(category.shortName);
      brief[0] = absl::ascii_tolower(static_cast<unsigned char>(brief[0]));
      return name == category.longName || name == brief;
    };
    const Category *known = std::find_if(std::begin(kCategories), std::end(kCategories), matches);
    // PCRE2 takes a bare script name for its script extensions; Oniguruma does not.
    std::string value =
        known != std::end(kCategories) ? known->shortName : fmt::format("sc:{}", name);
    out += fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', value);
  }

  void set() {
    size_t start = pos;
    ++pos;
    out += '[';
    if (take("^"))
      out += '^';
    if (at("]"))
      refuse("']' as the first character of a set");
    bool closed = false;
    while (pos < in.size() && !(closed = take("]"))) {
      if (at("[")) {
        refuse(fmt::format("a set in a set at byte {}", pos));
        ++pos;
        continue;
      }
      if (take("&&")) {
        refuse("'&&' in a set");
        continue;
      }
      if (at("\\")) {
        size_t before = pos;
        if (!escapedLiteral()) {
          pos = before;
          escape(/*inSet=*/true);
          if (at("-") && !at("-]"))
            refuse(fmt::format("a range from a class at byte {}", pos));
          continue;
        }
        pos = before;
      }
      std::optional<char32_t> first = setLiteral();
      literal(*first);
      if (at("-") && !at("-]") && pos + 1 < in.size()) {
        ++pos;
        std::optional<char32_t> last;
        if (!at("["))
          last = setLiteral();
        if (!last) {
          refuse(fmt::format("a range to a class at byte {}", pos));
          pos = std::min(in.size(), pos + 1);
          continue;
        }
        out += '-';
        literal(*last);
      }
    }
    if (!closed)
      refuse(fmt::format("an unclosed set at byte {}", start));
    out += ']';
  }

  std::optional<char32_t> setLiteral() {
    if (at("\\"))
      return escapedLiteral();
    return takeCodePoint();
  }

  std::string_view in;
  size_t pos = 0;
  std::string out;
  std::vector<std::string> problems;
  std::vector<bool> caseless; // one an open group
};

} // namespace

absl::StatusOr<std::string> translateOnigPattern(std::string_view pattern) {
  return Translator(pattern).run();
}

} // namespace adapt::rt
