// UTF-8, one code point at a time, by the Unicode Standard (16.0, table 3-7 and section 3.9,
// "U+FFFD Substitution of Maximal Subparts", which is also what the WHATWG decoder does).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace adapt::rt {

struct Utf8Step {
  enum Kind {
    kValid,      // a whole code point
    kInvalid,    // `length` bytes that no continuation can mend: one U+FFFD
    kIncomplete, // a proper prefix of a code point, cut by the end of the bytes
  };
  Kind kind;
  size_t length;  // bytes, at least 1
  char32_t value; // U+FFFD unless kValid
};

/// The code point, or maximal subpart of one, at the start of `bytes`, which is not empty.
Utf8Step nextUtf8(std::string_view bytes);

/// The start of the last code point of valid, non-empty UTF-8.
size_t lastUtf8(std::string_view text);

/// The offset of the first byte that is not part of a valid code point, or npos.
size_t findInvalidUtf8(std::string_view bytes);

void appendUtf8(std::string &out, char32_t codePoint);

/// Copies `bytes` to `out` with each maximal ill-formed subpart as U+FFFD. With `final` false an
/// incomplete code point at the end is left; returns the bytes consumed.
size_t appendLossyUtf8(std::string &out, std::string_view bytes, bool final);

} // namespace adapt::rt
