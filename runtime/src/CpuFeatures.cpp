#include "adapt/CpuFeatures.h"

#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

using namespace adapt;
using namespace adapt::rt;

namespace {

enum Register { kEax, kEbx, kEcx, kEdx };
/// Registers that the operating system must save: bits of XCR0.
enum : uint32_t { kNoState = 0, kAvxState = 0x6, kAvx512State = 0xe6, kAmxState = 0x60006 };

/// Where a feature's bit is (Intel's manual, volume 2, CPUID; AMD's volume 3, appendix E).
struct FeatureBit {
  const char *name;
  uint32_t leaf, subleaf;
  Register reg;
  int bit;
  uint32_t state;
};

constexpr FeatureBit kFeatures[] = {
    {"sse3", 1, 0, kEcx, 0, kNoState},
    {"pclmul", 1, 0, kEcx, 1, kNoState},
    {"ssse3", 1, 0, kEcx, 9, kNoState},
    {"fma", 1, 0, kEcx, 12, kAvxState},
    {"cx16", 1, 0, kEcx, 13, kNoState},
    {"sse4.1", 1, 0, kEcx, 19, kNoState},
    {"sse4.2", 1, 0, kEcx, 20, kNoState},
    {"movbe", 1, 0, kEcx, 22, kNoState},
    {"popcnt", 1, 0, kEcx, 23, kNoState},
    {"aes", 1, 0, kEcx, 25, kNoState},
    {"avx", 1, 0, kEcx, 28, kAvxState},
    {"f16c", 1, 0, kEcx, 29, kAvxState},
    {"sse2", 1, 0, kEdx, 26, kNoState},
    {"bmi", 7, 0, kEbx, 3, kNoState},
    {"avx2", 7, 0, kEbx, 5, kAvxState},
    {"bmi2", 7, 0, kEbx, 8, kNoState},
    {"avx512f", 7, 0, kEbx, 16, kAvx512State},
    {"avx512dq", 7, 0, kEbx, 17, kAvx512State},
    {"adx", 7, 0, kEbx, 19, kNoState},
    {"avx512ifma", 7, 0, kEbx, 21, kAvx512State},
    {"avx512cd", 7, 0, kEbx, 28, kAvx512State},
    {"avx512bw", 7, 0, kEbx, 30, kAvx512State},
    {"avx512vl", 7, 0, kEbx, 31, kAvx512State},
    {"avx512vbmi", 7, 0, kEcx, 1, kAvx512State},
    {"avx512vbmi2", 7, 0, kEcx, 6, kAvx512State},
    {"gfni", 7, 0, kEcx, 8, kNoState},
    {"vaes", 7, 0, kEcx, 9, kAvxState},
    {"vpclmulqdq", 7, 0, kEcx, 10, kAvxState},
    {"avx512vnni", 7, 0, kEcx, 11, kAvx512State},
    {"avx512bitalg", 7, 0, kEcx, 12, kAvx512State},
    {"avx512vpopcntdq", 7, 0, kEcx, 14, kAvx512State},
    {"avx512vp2intersect", 7, 0, kEdx, 8, kAvx512State},
    {"amx-bf16", 7, 0, kEdx, 22, kAmxState},
    {"avx512fp16", 7, 0, kEdx, 23, kAvx512State},
    {"amx-tile", 7, 0, kEdx, 24, kAmxState},
    {"amx-int8", 7, 0, kEdx, 25, kAmxState},
    {"avxvnni", 7, 1, kEax, 4, kAvxState},
    {"avx512bf16", 7, 1, kEax, 5, kAvx512State},
    {"avxifma", 7, 1, kEax, 23, kAvxState},
    {"avxvnniint8", 7, 1, kEdx, 4, kAvxState},
    {"avxneconvert", 7, 1, kEdx, 5, kAvxState},
    {"sahf", 0x80000001, 0, kEcx, 0, kNoState},
    {"lzcnt", 0x80000001, 0, kEcx, 5, kNoState},
    {"sse4a", 0x80000001, 0, kEcx, 6, kNoState},
};

#if defined(__x86_64__)
/// The registers whose state the operating system saves.
uint32_t enabledState() {
  uint32_t regs[4];
  if (!__get_cpuid(1, &regs[kEax], &regs[kEbx], &regs[kEcx], &regs[kEdx]) ||
      !(regs[kEcx] >> 27 & 1)) // OSXSAVE
    return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}
#endif

bool present(const FeatureBit &feature) {
#if defined(__x86_64__)
  uint32_t regs[4] = {};
  return (enabledState() & feature.state) == feature.state &&
         __get_cpuid_count(feature.leaf, feature.subleaf, &regs[kEax], &regs[kEbx], &regs[kEcx],
                           &regs[kEdx]) &&
         (regs[feature.reg] >> feature.bit & 1);
#else
  (void)feature;
  return false;
#endif
}

bool allPresent(std::initializer_list<const char *> names) {
  for (const char *name : names)
    if (cpuFeature(name) != CpuFeature::kPresent)
      return false;
  return true;
}

} // namespace

CpuFeature rt::cpuFeature(absl::string_view name) {
#if defined(__x86_64__)
  for (const FeatureBit &feature : kFeatures)
    if (name == feature.name)
      return present(feature) ? CpuFeature::kPresent : CpuFeature::kAbsent;
#endif
  (void)kFeatures;
  return CpuFeature::kUnknown;
}

std::string rt::cpuLevel() {
  // The x86-64 psABI, section 3.1.1.
  if (!allPresent({"sse2"}))
    return "";
  if (!allPresent({"cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"}))
    return "x86-64";
  if (!allPresent({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}))
    return "x86-64-v2";
  if (!allPresent({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    return "x86-64-v3";
  return "x86-64-v4";
}

absl::Status rt::checkCpuFeatures(absl::Span<const std::string> features) {
  std::vector<std::string> absent;
  for (const std::string &feature : features)
    if (cpuFeature(feature) != CpuFeature::kPresent)
      absent.push_back(feature);
  if (absent.empty())
    return absl::OkStatus();
  std::string level = cpuLevel();
  return absl::FailedPreconditionError(absl::StrCat(
      "the bundle's kernels need ", absl::StrJoin(absent, ", "), ", which this CPU lacks: compile ",
      level.empty() ? "for a target of this machine"
                    : absl::StrCat("with --target=cpu:", level, ", or with --target=cpu here")));
}
