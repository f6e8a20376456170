// What the CPU at hand can do, in the names of LLVM ("avx512bf16").
#pragma once
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "adapt/Status.h"

#include <string>

namespace adapt::rt {

enum class CpuFeature { kPresent, kAbsent, kUnknown };

/// Whether the CPU and the operating system support a feature. kUnknown: no name known here, or
/// another architecture than x86-64.
CpuFeature cpuFeature(absl::string_view name);

/// "x86-64" to "x86-64-v4": the highest level of the psABI that this CPU fulfils; empty elsewhere.
std::string cpuLevel();

/// FailedPrecondition, in one sentence, if one of the features is absent or unknown.
absl::Status checkCpuFeatures(absl::Span<const std::string> features);

} // namespace adapt::rt
