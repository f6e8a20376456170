#include "text/Normalizer.h"
#include "text/Utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <vector>

namespace adapt::rt {

absl::StatusOr<std::string> normalizeNfc(std::string_view text) {
  // Nothing below U+0300 changes: it neither decomposes and stays so, nor combines with its kind.
  bool changes = std::any_of(text.begin(), text.end(),
                             [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
  if (!changes)
    return std::string(text);
  if (text.size() > (size_t{1} << 28))
    return absl::ResourceExhaustedError(
        fmt::format("{} bytes of text are too much to normalise", text.size()));

  // utf8proc's own decomposition of a string sorts marks in quadratic time: decompose one character
  // at a time and sort here, then let it compose.
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  for (size_t pos = 0; pos < text.size();) {
    Utf8Step step = nextUtf8(text.substr(pos));
    utf8proc_int32_t parts[32];
    int boundary = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(step.value), parts, std::size(parts), kDecompose, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(std::size(parts)))
      return absl::InternalError(
          fmt::format("cannot decompose U+{:04X}", static_cast<uint32_t>(step.value)));
    points.insert(points.end(), parts, parts + count);
    pos += step.length;
  }
  auto combiningClass = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  auto isStarter = [&](utf8proc_int32_t c) { return combiningClass(c) == 0; };
  struct Mark {
    int combiningClass;
    size_t position; // keeps the order within a class
    utf8proc_int32_t value;
  };
  std::vector<Mark> marks;
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if_not(begin, points.end(), isStarter);
    auto end = std::find_if(begin, points.end(), isStarter);
    marks.clear();
    for (auto it = begin; it != end; ++it)
      marks.push_back({combiningClass(*it), marks.size(), *it});
    std::sort(marks.begin(), marks.end(), [](const Mark &a, const Mark &b) {
      return std::tie(a.combiningClass, a.position) < std::tie(b.combiningClass, b.position);
    });
    for (const Mark &mark : marks)
      *begin++ = mark.value;
  }
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  utf8proc_ssize_t count = utf8proc_normalize_utf32(
      points.data(), static_cast<utf8proc_ssize_t>(points.size()), kCompose);
  if (count < 0)
    return absl::InternalError(fmt::format("cannot normalise: {}", utf8proc_errmsg(count)));
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    appendUtf8(out, static_cast<char32_t>(points[i]));
  return out;
}

} // namespace adapt::rt
