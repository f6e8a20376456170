// Weights in the memory of a device that cannot read the host's.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "adapt/Device.h"
#include "adapt/ExecutionPlan.h"

#include <functional>
#include <string>
#include <vector>

namespace adapt::rt {

struct UploadedWeights {
  Memory memory; ///< one allocation, all weights one after the other, 64-byte aligned
  absl::flat_hash_map<std::string, Region> params;
};

/// Copies the named parameters from where `param` finds them. Errors: all parameters that are
/// missing, too little memory, and what the device says.
absl::StatusOr<UploadedWeights>
uploadWeights(Device &device, const std::vector<std::string> &names,
              const std::function<absl::StatusOr<Region>(absl::string_view)> &param);

} // namespace adapt::rt
