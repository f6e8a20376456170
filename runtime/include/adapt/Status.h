// Shorthand for passing absl::Status on, and for reporting all problems of one kind at once.
#pragma once
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include <string>
#include <utility>
#include <vector>

namespace adapt::rt {

/// Collects problems so that a user sees them together. Keeps the first 20 and counts the rest.
class Problems {
public:
  template <typename... Args> void add(const Args &...args) {
    if (messages.size() < kShown)
      messages.push_back(absl::StrCat(args...));
    ++count;
  }
  bool empty() const { return count == 0; }

  /// OK without problems; else InvalidArgument: `what`, then one problem a line.
  absl::Status status(absl::string_view what) const {
    if (empty())
      return absl::OkStatus();
    std::string text = absl::StrCat(what, ":\n  ", absl::StrJoin(messages, "\n  "));
    if (count > messages.size())
      absl::StrAppend(&text, "\n  and ", count - messages.size(), " more");
    return absl::InvalidArgumentError(text);
  }

private:
  static constexpr size_t kShown = 20;
  std::vector<std::string> messages;
  size_t count = 0;
};

} // namespace adapt::rt

#define ADAPT_RT_CONCAT_(a, b) a##b
#define ADAPT_RT_CONCAT(a, b) ADAPT_RT_CONCAT_(a, b)

#define ADAPT_RETURN_IF_ERROR(expr)                                                                \
  do {                                                                                             \
    if (absl::Status adaptStatus = (expr); !adaptStatus.ok())                                      \
      return adaptStatus;                                                                          \
  } while (false)

#define ADAPT_ASSIGN_OR_RETURN_(tmp, lhs, expr)                                                    \
  auto tmp = (expr);                                                                               \
  if (!tmp.ok())                                                                                   \
    return tmp.status();                                                                           \
  lhs = std::move(tmp).value()
#define ADAPT_ASSIGN_OR_RETURN(lhs, expr)                                                          \
  ADAPT_ASSIGN_OR_RETURN_(ADAPT_RT_CONCAT(adaptStatusOr, __LINE__), lhs, expr)
