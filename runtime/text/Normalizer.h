// Unicode normalisation form C.
#pragma once
#include "absl/status/statusor.h"

#include <string>
#include <string_view>

namespace adapt::rt {

/// Valid UTF-8 in normalisation form C. The time is O(n log n) also for long runs of combining
/// marks. Error (ResourceExhausted): text of more than 2^28 bytes.
absl::StatusOr<std::string> normalizeNfc(std::string_view text);

} // namespace adapt::rt
