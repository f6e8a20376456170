// Patterns written for Oniguruma (UTF-8, Ruby syntax), rewritten to mean the same in PCRE2.
#pragma once
#include "absl/status/statusor.h"

#include <string>
#include <string_view>

namespace adapt::rt {

/// The rewritten pattern, for PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE.
///
/// Known: literals; `.`; `^` `$` `\A` `\z`; alternatives; (…) (?:…) (?i:…) (?>…) and the four
/// lookarounds; * + ? {n} {n,} {,m} {n,m}, lazy, and possessive except after braces; sets of
/// literals, ranges and escapes; \p{…} of general categories and scripts; \s \S \w \W \d \D;
/// escapes of control characters, \xHH, \x{…}, \uHHHH. The two engines disagree on the meaning of
/// \s (U+180E),
/// \w, \v, \p{Script} and {,m}: these are spelt out.
///
/// All else is refused, all items at once (InvalidArgument): nested sets and `&&`, POSIX brackets,
/// back references, named groups, \b, other flags, properties under (?i:, {n,m}+ and {n}?.
absl::StatusOr<std::string> translateOnigPattern(std::string_view pattern);

} // namespace adapt::rt
