#include "adapt/CpuFeatures.h"

#include "gtest/gtest.h"

#include <fstream>
#include <set>
#include <sstream>

using namespace adapt::rt;

namespace {

/// The flags that Linux reports for the first CPU.
std::set<std::string> linuxFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0)
      continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;)
      flags.insert(word);
    break;
  }
  return flags;
}

TEST(CpuFeatures, AgreeWithLinux) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "features are known for x86-64 only";
#endif
  std::set<std::string> flags = linuxFlags();
  if (flags.empty())
    GTEST_SKIP() << "no /proc/cpuinfo";
  // LLVM's name, and Linux's.
  const std::pair<const char *, const char *> names[] = {
      {"sse3", "pni"},
      {"ssse3", "ssse3"},
      {"sse4.1", "sse4_1"},
      {"sse4.2", "sse4_2"},
      {"fma", "fma"},
      {"f16c", "f16c"},
      {"avx", "avx"},
      {"avx2", "avx2"},
      {"bmi", "bmi1"},
      {"bmi2", "bmi2"},
      {"lzcnt", "abm"},
      {"movbe", "movbe"},
      {"popcnt", "popcnt"},
      {"cx16", "cx16"},
      {"sahf", "lahf_lm"},
      {"gfni", "gfni"},
      {"vaes", "vaes"},
      {"avx512f", "avx512f"},
      {"avx512bw", "avx512bw"},
      {"avx512cd", "avx512cd"},
      {"avx512dq", "avx512dq"},
      {"avx512vl", "avx512vl"},
      {"avx512vbmi", "avx512vbmi"},
      {"avx512vbmi2", "avx512_vbmi2"},
      {"avx512vnni", "avx512_vnni"},
      {"avx512bf16", "avx512_bf16"},
      {"avx512fp16", "avx512_fp16"},
      {"avxvnni", "avx_vnni"},
      {"amx-tile", "amx_tile"},
      {"amx-bf16", "amx_bf16"},
      {"amx-int8", "amx_int8"},
  };
  for (auto [ours, theirs] : names)
    EXPECT_EQ(cpuFeature(ours) == CpuFeature::kPresent, flags.count(theirs) == 1) << ours;
}

TEST(CpuFeatures, WhatIsLackingIsNamed) {
  EXPECT_EQ(cpuFeature("sse9"), CpuFeature::kUnknown);
  EXPECT_TRUE(checkCpuFeatures({}).ok());
  absl::Status status = checkCpuFeatures({"sse9", "avx1024"});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("need sse9, avx1024, which this CPU lacks"),
            absl::string_view::npos);
#if defined(__x86_64__)
  EXPECT_TRUE(checkCpuFeatures({"sse2"}).ok());
  EXPECT_NE(status.message().find("--target=cpu:" + cpuLevel()), absl::string_view::npos);
#endif
}

} // namespace
