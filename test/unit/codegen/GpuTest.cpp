// What is a GPU's alone: faults that the simulation must find, code that it must refuse, and what
// kernels need of a GPU.
#include "../support/TestFiles.h"
#include "CodeGen/GPU/DeviceCode.h"
#include "CodeGen/GPU/Simulate.h"
#include "KernelRunner.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/SourceMgr.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace adapt;
using namespace adapt::test;

namespace {
constexpr const char *kMatmul = R"(
!x = tensor<?x64xf32, #adapt.dims<[s0, 64]>>
!y = tensor<?x40xf32, #adapt.dims<[s0, 40]>>
adapt.kernel @mm(%x: !x, %w: tensor<40x64xf32>) -> !y attributes {adapt.symbols = ["s0"]} {
  %y = adapt.matmul %x, %w : !x, tensor<40x64xf32> -> !y
  adapt.yield %y : !y
})";

constexpr const char *kNorm = R"(
!x = tensor<?x300xf32, #adapt.dims<[s0, 300]>>
adapt.kernel @norm(%x: !x, %w: tensor<300xf32>) -> !x attributes {adapt.symbols = ["s0"]} {
  %y = adapt.rms_norm %x, %w epsilon = 1.0e-5 : !x, tensor<300xf32>
  adapt.yield %y : !x
})";

constexpr const char *kAttend = R"(
!q = tensor<?x2x16xf32, #adapt.dims<[s0, 2, 16]>>
!s = !adapt.paged<tensor<1x16xf32>, tensor<1x16xf32>>
!starts = tensor<?xi32, #adapt.dims<[s1 + 1]>>
!lens = tensor<?xi32, #adapt.dims<[s1]>>
!table = tensor<?x?xi32, #adapt.dims<[s1, s2]>>
adapt.kernel @attend(%q: !q, %s: !s, %starts: !starts, %lens: !lens, %table: !table) -> (!q, !s)
    attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %o, %n = adapt.paged_attend %q, %s at %starts, %lens, %table scale = 1.0
      : (!q, !s, !starts, !lens, !table) -> (!q, !s)
  adapt.yield %o, %n : !q, !s
})";

/// Makes a kernel's code wrong: without barriers, with shuffles within half a warp, or with masks
/// that let one more key pass. Throws where there is nothing to spoil.
void plantFault(llvm::Module &module, llvm::StringRef fault) {
  using namespace llvm;
  bool planted = false;
  for (Function &function : module) {
    SmallVector<Instruction *> erased;
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<IntrinsicInst>(&instruction);
      StringRef name = call ? call->getCalledFunction()->getName() : "";
      if (fault == "barrier" && (name.contains("barrier.cta") || name.ends_with("barrier0") ||
                                 name.ends_with("s.barrier"))) {
        erased.push_back(&instruction);
      } else if (fault == "width" && name.contains("shfl.sync.bfly")) {
        // Segments of half a warp.
        call->setArgOperand(3, ConstantInt::get(call->getArgOperand(3)->getType(), 0x100f));
        planted = true;
      } else if (fault == "width" && name.contains("ds.bpermute")) {
        // The upper half of a wave reads the lower.
        IRBuilder<> builder(call);
        call->setArgOperand(0, builder.CreateAnd(call->getArgOperand(0), 31 * 4));
        planted = true;
      } else if (auto *compare = dyn_cast<ICmpInst>(&instruction);
                 compare && fault == "mask" && compare->getOperand(0)->getType()->isIntegerTy(32)) {
        // One more: of the comparisons of 32 bits, which are those of key numbers and positions.
        if (compare->getPredicate() == CmpInst::ICMP_SLE ||
            compare->getPredicate() == CmpInst::ICMP_SGT ||
            compare->getPredicate() == CmpInst::ICMP_SLT ||
            compare->getPredicate() == CmpInst::ICMP_SGE) {
          IRBuilder<> builder(compare);
          compare->setOperand(1, builder.CreateAdd(compare->getOperand(1), builder.getInt32(1)));
          planted = true;
        }
      }
    }
    for (Instruction *instruction : erased)
      instruction->eraseFromParent();
    planted |= !erased.empty();
  }
  if (!planted)
    throw std::runtime_error("there is no place for the fault " + fault.str());
}

class Gpu : public testing::TestWithParam<std::string> {
protected:
  /// What a faulty kernel does: an error of the simulation, or its results against those of the
  /// sound one; empty where nothing shows.
  std::string compare(const char *text, const std::string &fault,
                      const std::vector<const Buffer *> &inputs, Buffer &sound, Buffer &faulty,
                      const std::map<std::string, int64_t> &sizes) {
    auto with = [&](Buffer &result) {
      std::vector<const Buffer *> all = inputs;
      all.push_back(&result);
      return all;
    };
    Kernel(text, getGpuOptions(GetParam())).run(with(sound), sizes);
    try {
      GpuOptions options = getGpuOptions(GetParam());
      options.mutate = [&](llvm::Module &module) { plantFault(module, fault); };
      Kernel(text, options).run(with(faulty), sizes);
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return maxError(faulty.to<float>(), sound.to<float>()) > 1e-3 ? "wrong" : "";
  }
};

INSTANTIATE_TEST_SUITE_P(All, Gpu, testing::ValuesIn(getGpus()), [](const auto &info) {
  return info.param.substr(info.param.find(':') + 1);
});
} // namespace

//===----------------------------------------------------------------------===//
// Planted faults
//===----------------------------------------------------------------------===//

TEST_P(Gpu, RemovedBarriersOfATileAreFound) {
  Buffer x = Buffer::of(randomFloats(70 * 64, 1)), w = Buffer::of(randomFloats(40 * 64, 2));
  Buffer sound(70 * 40 * 4), faulty(70 * 40 * 4);
  EXPECT_NE(compare(kMatmul, "barrier", {&x, &w}, sound, faulty, {{"s0", 70}}), "");
}

TEST_P(Gpu, RemovedBarriersOfAReductionAreFound) {
  Buffer x = Buffer::of(randomFloats(3 * 300, 1)), w = Buffer::of(randomFloats(300, 2));
  Buffer sound(3 * 300 * 4), faulty(3 * 300 * 4);
  EXPECT_NE(compare(kNorm, "barrier", {&x, &w}, sound, faulty, {{"s0", 3}}), "");
}

TEST_P(Gpu, AWrongShuffleWidthIsFound) {
  Buffer x = Buffer::of(randomFloats(64, 1)), w = Buffer::of(randomFloats(40 * 64, 2));
  Buffer sound(40 * 4), faulty(40 * 4);
  // 64 elements in vectors of four are the work of 16 lanes: of a wave, the lower half.
  const char *text = GetParam() == "hip:gfx942" ? kNorm : kMatmul;
  if (text == kMatmul) {
    EXPECT_EQ(compare(text, "width", {&x, &w}, sound, faulty, {{"s0", 1}}), "wrong");
    return;
  }
  Buffer row = Buffer::of(randomFloats(300, 1)), scale = Buffer::of(randomFloats(300, 2));
  Buffer soundRow(300 * 4), faultyRow(300 * 4);
  EXPECT_EQ(compare(text, "width", {&row, &scale}, soundRow, faultyRow, {{"s0", 1}}), "wrong");
}

// One key more is seen than there are: what lies there is not a number.
TEST_P(Gpu, AMaskThatIsOffByOneIsFound) {
  std::vector<float> state(16 * 16, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> some = randomFloats(16 * 16, 3);
  std::vector<float> keys = state, values = state;
  for (int token = 0; token < 5; ++token)
    for (int i = 0; i < 16; ++i) {
      keys[i * 16 + token] = some[i * 16 + token];
      values[token * 16 + i] = some[token * 16 + i];
    }
  Buffer q = Buffer::of(randomFloats(3 * 2 * 16, 1)), k = Buffer::of(keys), v = Buffer::of(values);
  Buffer starts = Buffer::of(std::vector<int32_t>{0, 3}),
         lens = Buffer::of(std::vector<int32_t>{5}), table = Buffer::of(std::vector<int32_t>{0});
  Buffer sound(3 * 2 * 16 * 4), faulty(3 * 2 * 16 * 4);
  EXPECT_EQ(compare(kAttend, "mask", {&q, &k, &v, &starts, &lens, &table}, sound, faulty,
                    {{"s0", 3}, {"s1", 1}, {"s2", 1}}),
            "wrong");
  for (float value : sound.to<float>())
    EXPECT_FALSE(std::isnan(value));
}

//===----------------------------------------------------------------------===//
// What the simulation does not know
//===----------------------------------------------------------------------===//

namespace {
/// What `simulate` says to a module.
std::string simulateText(const std::string &text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssemblyString(text, diagnostic, context);
  if (!module)
    return "cannot parse: " + diagnostic.getMessage().str();
  return llvm::toString(gpu::simulate(*module));
}
} // namespace

TEST(Simulate, RefusesWhatItDoesNotKnow) {
  std::string asmText = simulateText(R"(
define ptx_kernel void @fast_norm(ptr addrspace(1) %p) {
  call void asm sideeffect "membar.gl;", ""()
  ret void
})");
  EXPECT_NE(asmText.find("inline assembly"), std::string::npos) << asmText;
  EXPECT_NE(asmText.find("fast_norm"), std::string::npos) << asmText;
  std::string intrinsic = simulateText(R"(
declare i32 @llvm.nvvm.redux.sync.add(i32, i32)
define ptx_kernel void @total(ptr addrspace(1) %p) {
  %v = call i32 @llvm.nvvm.redux.sync.add(i32 1, i32 -1)
  store i32 %v, ptr addrspace(1) %p
  ret void
})");
  EXPECT_NE(intrinsic.find("llvm.nvvm.redux.sync.add"), std::string::npos) << intrinsic;
  EXPECT_NE(intrinsic.find("total"), std::string::npos) << intrinsic;
  EXPECT_EQ(simulateText("define ptx_kernel void @nothing() {\n  ret void\n}"), "");
}

TEST(Generator, RefusesOtherArchitectures) {
  for (auto [target, arch] : {std::pair("cuda", "sm_70"), {"cuda", "gfx942"}, {"hip", "gfx1100"}}) {
    auto generator = createGpuKernelGenerator(getGpuOptions(std::string(target) + ":" + arch));
    ASSERT_FALSE(bool(generator)) << arch;
    std::string message = llvm::toString(generator.takeError());
    EXPECT_NE(message.find(arch), std::string::npos) << message;
    EXPECT_NE(message.find(target == std::string("cuda") ? "sm_90" : "gfx942"), std::string::npos)
        << message;
  }
}

//===----------------------------------------------------------------------===//
// Resources
//===----------------------------------------------------------------------===//

// Sizes of a large model: two matmuls of one input, and long heads.
constexpr const char *kGated = R"(
!x = tensor<?x4096xbf16, #adapt.dims<[s0, 4096]>>
!y = tensor<?x12288xbf16, #adapt.dims<[s0, 12288]>>
!w = tensor<12288x4096xbf16>
adapt.kernel @gated(%x: !x, %w: !w, %u: !w) -> !y attributes {adapt.symbols = ["s0"]} {
  %g = adapt.matmul %x, %w : !x, !w -> !y
  %v = adapt.matmul %x, %u : !x, !w -> !y
  %y = adapt.gated_activation silu %g, %v : !y
  adapt.yield %y : !y
})";

constexpr const char *kLongHeads = R"(
!q = tensor<?x32x256xbf16, #adapt.dims<[s0, 32, 256]>>
!s = !adapt.paged<tensor<8x256xbf16>, tensor<8x256xbf16>>
!starts = tensor<?xi32, #adapt.dims<[s1 + 1]>>
!lens = tensor<?xi32, #adapt.dims<[s1]>>
!table = tensor<?x?xi32, #adapt.dims<[s1, s2]>>
adapt.kernel @attend(%q: !q, %s: !s, %starts: !starts, %lens: !lens, %table: !table) -> (!q, !s)
    attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %o, %n = adapt.paged_attend %q, %s at %starts, %lens, %table scale = 0.0625 window = 4096
      : (!q, !s, !starts, !lens, !table) -> (!q, !s)
  adapt.yield %o, %n : !q, !s
})";

// Matmuls and attention spill nothing; of CUDA's it is ptxas that knows, where there is one.
TEST(Resources, NothingSpills) {
  bool hasPtxas = !gpu::findPtxas().empty();
  for (const char *target : {"cuda:sm_80", "cuda:sm_90", "hip:gfx90a", "hip:gfx942"})
    for (const char *text : {kMatmul, kNorm, kAttend, kGated, kLongHeads}) {
      GpuOptions options = getGpuOptions(target);
      options.ptxas = "search";
      bool isHip = options.target == "hip";
      Kernel kernel(text, options);
      const CompiledKernels &compiled = kernel.getCompiled();
      EXPECT_EQ(compiled.notes.size(), isHip || hasPtxas ? 0u : 1u)
          << target << ": " << (compiled.notes.empty() ? "" : compiled.notes[0]);
      EXPECT_EQ(compiled.files[0].name, isHip      ? "kernels.hsaco"
                                        : hasPtxas ? "kernels.cubin"
                                                   : "kernels.ptx");
    }
}

TEST(Resources, WithoutPtxasTheReportSaysSo) {
  Kernel kernel(kNorm, getGpuOptions("cuda:sm_90"));
  ASSERT_EQ(kernel.getCompiled().notes.size(), 1u);
  EXPECT_NE(kernel.getCompiled().notes[0].find("no ptxas"), std::string::npos);
  EXPECT_EQ(kernel.getCompiled().files[0].name, "kernels.ptx");
}

// Of the package nvidia-cuda-nvcc in the active virtual environment.
TEST(Resources, PtxasIsFoundInAVirtualEnvironment) {
  TempFolder environment;
  const std::string packages = "lib/python3.11/site-packages/nvidia/";
  std::filesystem::create_directories(environment.path / packages / "cuda_runtime/include");
  std::filesystem::create_directories(environment.path / packages / "cu13/bin");
  environment.write(packages + "cu13/bin/ptxas", "");
  std::string path = environment.path / packages / "cu13/bin/ptxas";
  auto with = [](const char *name, const std::string &value) {
    const char *old = getenv(name);
    std::string saved = old ? old : "";
    setenv(name, value.c_str(), 1);
    return saved;
  };
  std::string oldPath = with("PATH", environment.str());
  std::string oldHome = with("CUDA_HOME", environment.str());
  std::string oldEnvironment = with("VIRTUAL_ENV", environment.str());
  EXPECT_EQ(gpu::findPtxas(), "") << "it is not executable";
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_EQ(gpu::findPtxas(), path);
  with("PATH", oldPath);
  with("CUDA_HOME", oldHome);
  with("VIRTUAL_ENV", oldEnvironment);
}
