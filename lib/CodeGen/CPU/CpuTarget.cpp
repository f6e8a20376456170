#include "CpuTarget.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>

using namespace llvm;

namespace adapt::cpu {
namespace {
constexpr StringLiteral kTriple = "x86_64-unknown-linux-gnu";
// The features that a manifest may ask for.
constexpr StringLiteral kManifestFeatures[] = {"avx2",     "fma",      "f16c",       "avx512f",
                                               "avx512bw", "avx512vl", "avx512bf16", "avx512vnni"};

struct Level {
  StringLiteral name;
  SmallVector<StringRef> features;
};
// From the lowest; each holds the one before (System V ABI, x86-64 supplement).
const Level kLevels[] = {
    {"x86-64-v2", {"64bit", "cx16", "popcnt", "sahf", "sse4.2", "ssse3"}},
    {"x86-64-v3",
     {"64bit", "cx16", "popcnt", "sahf", "sse4.2", "ssse3", "avx2", "bmi", "bmi2", "f16c", "fma",
      "lzcnt", "movbe"}},
    {"x86-64-v4",
     {"64bit", "cx16", "popcnt", "sahf", "sse4.2", "ssse3", "avx2", "bmi", "bmi2", "f16c", "fma",
      "lzcnt", "movbe", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}};

const Target *getTarget(std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
  return TargetRegistry::lookupTarget(Triple(kTriple), error);
}

/// The names of `table` nearest to `name`, for a message.
std::string nearest(StringRef name, ArrayRef<StringRef> table) {
  SmallVector<StringRef> best;
  unsigned distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (StringRef candidate : table) {
    unsigned d = name.edit_distance(candidate, true, distance);
    if (d < distance) {
      best.clear();
      distance = d;
    }
    if (d == distance && d <= name.size() / 2)
      best.push_back(candidate);
  }
  return best.empty() ? "" : "; did you mean " + join(best, " or ") + "?";
}
} // namespace

Expected<CpuTarget> CpuTarget::create(StringRef cpu, StringRef features) {
  std::string error;
  const Target *target = getTarget(error);
  if (!target)
    return createStringError("this LLVM cannot make x86-64 code: " + error);

  CpuTarget result;
  SmallVector<std::string> list;
  if (cpu == "host") {
    if (!Triple(sys::getProcessTriple()).isX86())
      return createStringError("this machine is not x86-64; name a CPU, e.g. x86-64-v3");
    result.cpu = sys::getHostCPUName().str();
    for (const auto &feature : sys::getHostCPUFeatures())
      list.push_back((feature.second ? "+" : "-") + feature.first().str());
    llvm::sort(list);
  } else {
    result.cpu = cpu.str();
  }

  std::unique_ptr<MCSubtargetInfo> plain(target->createMCSubtargetInfo(Triple(kTriple), "", ""));
  if (!plain->isCPUStringValid(result.cpu)) {
    SmallVector<StringRef> names;
    for (const SubtargetSubTypeKV &description : plain->getAllProcessorDescriptions())
      names.push_back(description.Key);
    return createStringError("LLVM knows no x86 CPU '" + result.cpu + "'" +
                             nearest(result.cpu, names));
  }
  SmallVector<StringRef> changes;
  features.split(changes, ',', -1, /*KeepEmpty=*/false);
  for (StringRef change : changes) {
    StringRef name = change.drop_front();
    SmallVector<StringRef> names;
    for (const SubtargetFeatureKV &feature : plain->getAllProcessorFeatures())
      names.push_back(feature.Key);
    if (!(change.starts_with("+") || change.starts_with("-")) || !is_contained(names, name))
      return createStringError("CPU features are given as +NAME or -NAME with names of LLVM; '" +
                               change + "' is none" + nearest(name, names));
    list.push_back(change.str());
  }

  auto subtarget = [&](StringRef name, StringRef features) {
    return std::unique_ptr<MCSubtargetInfo>(
        target->createMCSubtargetInfo(Triple(kTriple), name, features));
  };
  std::unique_ptr<MCSubtargetInfo> whole = subtarget(result.cpu, join(list, ","));
  auto has = [&](StringRef name) { return whole->checkFeatures(("+" + name).str()); };
  for (const Level &level : kLevels)
    if (all_of(level.features, has))
      result.level = level.name.str();
  if (result.level.empty())
    return createStringError("the CPU " + result.cpu + " lacks some of " +
                             join(kLevels[0].features, ", ") +
                             " (x86-64-v2), which the kernels need");
  std::unique_ptr<MCSubtargetInfo> base = subtarget(result.level, "");
  SmallVector<std::string> beyond;
  if (has("avx") && !base->checkFeatures("+avx"))
    beyond.push_back("+avx");
  for (StringRef name : kManifestFeatures) {
    if (!has(name))
      continue;
    result.requiredFeatures.push_back(name.str());
    if (!base->checkFeatures(("+" + name).str()))
      beyond.push_back(("+" + name).str());
  }
  result.features = join(beyond, ",");

  std::unique_ptr<MCSubtargetInfo> used = subtarget(result.level, result.features);
  auto uses = [&](StringRef name) { return used->checkFeatures(("+" + name).str()); };
  result.fma = uses("fma") && uses("avx2");
  result.f16c = uses("f16c");
  result.avx512 = uses("avx512f") && uses("avx512bw") && uses("avx512vl") && uses("avx512dq");
  result.avx512bf16 = result.avx512 && uses("avx512bf16");
  return result;
}

std::unique_ptr<TargetMachine> CpuTarget::createMachine() const {
  std::string error;
  const Target *target = getTarget(error);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Fast; // a multiply and an add may become one FMA
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(Triple(kTriple), level, features, options, Reloc::PIC_,
                                  std::nullopt, CodeGenOptLevel::Aggressive));
}

} // namespace adapt::cpu
