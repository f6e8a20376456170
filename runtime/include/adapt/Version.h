// Versions of what the compiler writes and the runtime reads.
#pragma once
#include "absl/strings/string_view.h"

#include <cstdint>
#include <string>

namespace adapt::rt {

/// `format_version` of manifest.json (docs/bundle.md).
constexpr uint32_t kBundleFormatVersion = 1;

/// `Program.version` (runtime/schema/program.proto).
constexpr uint32_t kProgramVersion = 1;

/// What --version prints: "adapt-run 0.1.0 (0123456789ab), devices: cpu".
std::string versionText(absl::string_view tool);

} // namespace adapt::rt
