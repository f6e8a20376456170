// Memory that nobody may read before it is written, made to show who does.
#pragma once
#include "adapt/Device.h"
#include "adapt/ExecutionPlan.h"

#include <algorithm>
#include <vector>

namespace adapt::rt {

/// Fills memory of the device with ones, a NaN in every floating-point type.
inline absl::Status poison(Device &device, const Region &region) {
  std::vector<char> ones(std::min<uint64_t>(region.bytes, 1 << 20), '\xff');
  for (uint64_t at = 0; at < region.bytes; at += ones.size())
    ADAPT_RETURN_IF_ERROR(device.write(region.data + at, ones.data(),
                                       std::min<uint64_t>(ones.size(), region.bytes - at)));
  return absl::OkStatus();
}

} // namespace adapt::rt
