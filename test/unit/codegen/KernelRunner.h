// Compiles one `adapt.kernel` and runs it as the runtime would.
#pragma once

#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "adapt/CodeGen/GpuKernelGenerator.h"
#include "adapt/Device.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace adapt::test {

/// Rounds to a type of this name: f32, bf16 or f16.
float roundTo(const std::string &type, float value);
int64_t bytesOf(const std::string &type);
/// The relative error that one rounding to it may make.
double epsilonOf(const std::string &type);

/// Memory that begins at a multiple of 64 bytes and is followed, less than 64 bytes on, by a page
/// that cannot be touched.
class Buffer {
public:
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(Buffer &&other) noexcept;
  Buffer(const Buffer &) = delete;

  void *data() const { return begin; }
  size_t size() const { return bytes; }
  /// Whether the bytes between its end and the page are as they were.
  bool isTailIntact() const;

  template <typename T> static Buffer of(const std::vector<T> &values) {
    Buffer buffer(values.size() * sizeof(T));
    if (!values.empty())
      std::memcpy(buffer.data(), values.data(), buffer.size());
    return buffer;
  }
  /// Floats as a type of this name.
  static Buffer floats(const std::string &type, const std::vector<float> &values);
  template <typename T> std::vector<T> to() const {
    std::vector<T> values(bytes / sizeof(T));
    if (bytes)
      std::memcpy(values.data(), begin, bytes);
    return values;
  }
  std::vector<float> toFloats(const std::string &type) const;

private:
  char *begin = nullptr, *mapping = nullptr;
  size_t bytes = 0, mapped = 0;
};

/// The simulated GPUs that kernels are tested on: "cuda:sm_90", "hip:gfx942".
const std::vector<std::string> &getGpus();
GpuOptions getGpuOptions(const std::string &target);

class Kernel {
public:
  /// Throws std::runtime_error with the diagnostics if it cannot be compiled.
  explicit Kernel(const std::string &text, CpuOptions options = {});
  Kernel(const std::string &text, GpuOptions options);
  /// For "cpu" or a GPU; a CPU's features.
  static std::unique_ptr<Kernel> create(const std::string &text, const std::string &target,
                                        const std::string &features = "");
  ~Kernel();

  /// Runs all work items of the variant that fits, from the last to the first if `backwards`;
  /// returns the variant's name. On a GPU in every order of lanes that the simulation has, with
  /// the same bits; throws std::runtime_error with what the simulation found.
  std::string run(const std::vector<const Buffer *> &buffers,
                  const std::map<std::string, int64_t> &sizes, bool backwards = false) const;

  const llvm::SmallVector<KernelVariant> &getVariants() const { return variants; }
  /// From now on.
  void runInOneOrder() {
    if (!devices.empty())
      devices.resize(1);
  }
  /// What the generator made, and said.
  const CompiledKernels &getCompiled() const { return compiled; }

private:
  void compile(const std::string &text, llvm::Expected<std::unique_ptr<KernelGenerator>> generator);
  void runOnCpu(const KernelVariant &variant, const std::vector<const Buffer *> &buffers,
                const std::vector<int64_t> &sizes, const uint32_t extents[3], bool backwards) const;
  void runOnGpu(uint32_t number, const std::vector<const Buffer *> &buffers,
                const std::vector<int64_t> &sizes, const uint32_t extents[3]) const;

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::SmallVector<std::string> symbols; ///< the kernel's sizes
  llvm::SmallVector<KernelVariant> variants;
  CompiledKernels compiled;
  void *library = nullptr;                          ///< of a CPU's kernel
  std::vector<std::unique_ptr<rt::Device>> devices; ///< of a GPU's, one for each order of lanes
};

/// The cases on the CPU, and those without features of one on all GPUs.
template <typename Case> std::vector<Case> onAll(std::initializer_list<Case> cases) {
  std::vector<Case> all = cases;
  for (const std::string &gpu : getGpus())
    for (Case c : cases)
      if (std::string(c.features).empty()) {
        c.target = gpu;
        c.name += "_" + gpu.substr(gpu.find(':') + 1);
        all.push_back(std::move(c));
      }
  return all;
}

/// Uniform in [-1, 1], the same numbers each time.
std::vector<float> randomFloats(size_t count, unsigned seed, float scale = 1.0f);
/// Rows [n][k] as #adapt.packed<16, depth>.
std::vector<float> pack(const std::vector<float> &rows, int64_t n, int64_t k, int64_t depth);
/// max |a - b| / max |b|; infinite where sizes differ or a NaN is in a alone.
double maxError(const std::vector<float> &a, const std::vector<float> &b);

} // namespace adapt::test
