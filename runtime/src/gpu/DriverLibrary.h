// A driver's library, opened when it is wanted and never closed.
#pragma once
#include "absl/types/span.h"
#include "adapt/Status.h"

#include <string>

namespace adapt::rt::gpu {

/// A function of the library, and where its address goes.
struct DriverFunction {
  const char *name;
  void **address;
  bool optional = false; ///< null where the library has none
};

/// Opens `path`, or if that is empty the first of `names` that there is, and looks all functions
/// up. `what` is for messages: "CUDA driver". NotFound: no such library (the reason for each name),
/// or all functions that are missing.
absl::Status openDriverLibrary(const char *what, const std::string &path,
                               absl::Span<const char *const> names,
                               absl::Span<const DriverFunction> functions);

} // namespace adapt::rt::gpu
