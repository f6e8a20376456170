// What transports say alike.
#pragma once
#include "absl/types/span.h"
#include "adapt/Status.h"

#include <chrono>
#include <cstdint>

namespace adapt::rt {

/// After a time-out: the ranks r with silent[r] did not answer; none: all wait for each other.
absl::Status silenceError(absl::Span<const uint8_t> silent, std::chrono::milliseconds timeout);

} // namespace adapt::rt
