#include "GpuTarget.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetOptions.h"
#include <mutex>

using namespace llvm;

namespace adapt::gpu {
namespace {
constexpr StringLiteral kNvptx = "nvptx64-nvidia-cuda", kAmdgpu = "amdgcn-amd-amdhsa",
                        kSimulation = "x86_64-unknown-linux-gnu";
// Of PTX, the oldest that knows sm_90: drivers since CUDA 12.0 take it.
constexpr StringLiteral kPtxFeature = "+ptx80";

const Target *getTarget(StringRef triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
  std::string error;
  return TargetRegistry::lookupTarget(Triple(triple), error);
}

std::unique_ptr<TargetMachine> create(StringRef triple, StringRef cpu, StringRef features) {
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Fast; // a multiply and an add may become one FMA
  return std::unique_ptr<TargetMachine>(
      getTarget(triple)->createTargetMachine(Triple(triple), cpu, features, options, Reloc::PIC_,
                                             std::nullopt, CodeGenOptLevel::Aggressive));
}
} // namespace

Expected<GpuTarget> GpuTarget::create(StringRef target, StringRef arch) {
  GpuTarget result;
  result.kind = target == "cuda" ? Kind::Cuda : Kind::Hip;
  result.arch = arch.str();
  const Target *llvmTarget = getTarget(result.isCuda() ? kNvptx : kAmdgpu);
  if (!llvmTarget)
    return createStringError("this LLVM cannot make code for " + target);
  std::unique_ptr<MCSubtargetInfo> plain(
      llvmTarget->createMCSubtargetInfo(Triple(result.isCuda() ? kNvptx : kAmdgpu), "", ""));
  bool known = plain->isCPUStringValid(arch);
  if (result.isCuda()) {
    unsigned version = 0;
    StringRef digits = arch;
    if (!known || !digits.consume_front("sm_") || digits.getAsInteger(10, version) ||
        version < 80 || version > 90)
      return createStringError("'" + arch +
                               "' is no architecture that kernels are made for; "
                               "there are sm_80, sm_86, sm_87, sm_89 and sm_90");
    result.warp = 32;
    result.maxShared = 48 << 10;
    return result;
  }
  // Waves of 64 lanes.
  const SmallVector<StringRef> kArchs = {"gfx908", "gfx90a", "gfx942", "gfx950"};
  if (!known || !is_contained(kArchs, arch))
    return createStringError("'" + arch +
                             "' is no architecture that kernels are made for; there "
                             "are " +
                             join(kArchs, ", "));
  result.warp = 64;
  result.maxShared = 64 << 10;
  return result;
}

std::unique_ptr<TargetMachine> GpuTarget::createMachine() const {
  return isCuda() ? gpu::create(kNvptx, arch, kPtxFeature) : gpu::create(kAmdgpu, arch, "");
}

std::unique_ptr<TargetMachine> createSimulationMachine() {
  return create(kSimulation, "x86-64-v2", "");
}

} // namespace adapt::gpu
