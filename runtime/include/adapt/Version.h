// Versions of what the compiler writes and the runtime reads.
#pragma once
#include <cstdint>

namespace adapt::rt {

/// `format_version` of manifest.json (docs/bundle.md).
constexpr uint32_t kBundleFormatVersion = 1;

/// `Program.version` (runtime/schema/program.proto).
constexpr uint32_t kProgramVersion = 1;

const char *version(); ///< "0.1.0"
const char *commit();  ///< of the checkout it was built from, or "unknown"

} // namespace adapt::rt
