#include "KernelRunner.h"
#include "absl/types/span.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <dlfcn.h>
#include <limits>
#include <random>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace adapt::test {

namespace {
const llvm::fltSemantics &semanticsOf(const std::string &type) {
  return type == "bf16"  ? llvm::APFloat::BFloat()
         : type == "f16" ? llvm::APFloat::IEEEhalf()
                         : llvm::APFloat::IEEEsingle();
}

uint16_t toBits(const std::string &type, float value) {
  llvm::APFloat narrow(value);
  bool exact;
  narrow.convert(semanticsOf(type), llvm::APFloat::rmNearestTiesToEven, &exact);
  return static_cast<uint16_t>(narrow.bitcastToAPInt().getZExtValue());
}

float fromBits(const std::string &type, uint16_t bits) {
  llvm::APFloat value(semanticsOf(type), llvm::APInt(16, bits));
  bool exact;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &exact);
  return value.convertToFloat();
}
} // namespace

float roundTo(const std::string &type, float value) {
  return type == "f32" ? value : fromBits(type, toBits(type, value));
}

int64_t bytesOf(const std::string &type) { return type == "f32" ? 4 : 2; }

double epsilonOf(const std::string &type) {
  return type == "bf16" ? 0x1p-8 : type == "f16" ? 0x1p-11 : 0x1p-24;
}

//===----------------------------------------------------------------------===//
// Buffer
//===----------------------------------------------------------------------===//

constexpr char kTail = 0x5a;

Buffer::Buffer(size_t bytes) : bytes(bytes) {
  size_t page = sysconf(_SC_PAGESIZE), padded = (bytes + 63) / 64 * 64;
  size_t used = (padded + page - 1) / page * page;
  mapped = used + page;
  void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error("mmap failed");
  mapping = static_cast<char *>(memory);
  mprotect(mapping + used, page, PROT_NONE);
  begin = mapping + used - padded;
  std::memset(begin, 0xff, bytes); // not a number, in every float type
  std::memset(begin + bytes, kTail, padded - bytes);
}

Buffer::Buffer(Buffer &&other) noexcept
    : begin(other.begin), mapping(other.mapping), bytes(other.bytes), mapped(other.mapped) {
  other.mapping = nullptr;
}

Buffer::~Buffer() {
  if (mapping)
    munmap(mapping, mapped);
}

bool Buffer::isTailIntact() const {
  for (size_t i = bytes; i < (bytes + 63) / 64 * 64; ++i)
    if (begin[i] != kTail)
      return false;
  return true;
}

Buffer Buffer::floats(const std::string &type, const std::vector<float> &values) {
  if (type == "f32")
    return of(values);
  std::vector<uint16_t> bits;
  for (float value : values)
    bits.push_back(toBits(type, value));
  return of(bits);
}

std::vector<float> Buffer::toFloats(const std::string &type) const {
  if (type == "f32")
    return to<float>();
  std::vector<float> values;
  for (uint16_t bits : to<uint16_t>())
    values.push_back(fromBits(type, bits));
  return values;
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

const std::vector<std::string> &getGpus() {
  static const std::vector<std::string> gpus = {"cuda:sm_90", "hip:gfx942"};
  return gpus;
}

GpuOptions getGpuOptions(const std::string &target) {
  GpuOptions options;
  size_t colon = target.find(':');
  options.target = target.substr(0, colon);
  options.arch = target.substr(colon + 1);
  options.simulation = true;
  return options;
}

std::unique_ptr<Kernel> Kernel::create(const std::string &text, const std::string &target,
                                       const std::string &features) {
  if (target != "cpu")
    return std::make_unique<Kernel>(text, getGpuOptions(target));
  CpuOptions options;
  options.features = features;
  return std::make_unique<Kernel>(text, options);
}

void Kernel::compile(const std::string &text,
                     llvm::Expected<std::unique_ptr<KernelGenerator>> generator) {
  context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<AdaptDialect>();
  std::string errors;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream os(errors);
    os << diagnostic.getLocation() << ": " << diagnostic << "\n";
    return success();
  });
  if (!generator)
    throw std::runtime_error(llvm::toString(generator.takeError()));
  module = parseSourceString<ModuleOp>(text, context.get());
  if (!module)
    throw std::runtime_error("cannot parse: " + errors);
  KernelOp kernel = *module->getOps<KernelOp>().begin();
  for (StringRef name : kernel.getSymbols())
    symbols.push_back(name.str());
  auto found = (*generator)->getVariants(kernel);
  if (failed(found))
    throw std::runtime_error(errors);
  variants = *found;
  auto result = (*generator)->compile(*module);
  if (failed(result))
    throw std::runtime_error(errors);
  compiled = std::move(*result);
}

namespace {
std::string writeTemporary(const std::string &bytes) {
  char path[] = "/tmp/adapt-kernel-test-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("cannot write a temporary file");
  close(fd);
  return path;
}

void check(const absl::Status &status) {
  if (!status.ok())
    throw std::runtime_error(std::string(status.message()));
}
} // namespace

Kernel::Kernel(const std::string &text, CpuOptions options) {
  compile(text, createCpuKernelGenerator(std::move(options)));
  std::string path = writeTemporary(compiled.files[0].bytes);
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(path.c_str());
  if (!library)
    throw std::runtime_error(dlerror());
}

Kernel::Kernel(const std::string &text, GpuOptions options) {
  bool hip = options.target == "hip";
  compile(text, createGpuKernelGenerator(std::move(options)));
  std::string path = writeTemporary(compiled.files.back().bytes);
  std::vector<std::string> names;
  for (const KernelVariant &variant : variants)
    names.push_back(variant.symbol);
  for (rt::LaneOrder order :
       {rt::LaneOrder::kForward, rt::LaneOrder::kReverse, rt::LaneOrder::kPermuted}) {
    auto device = rt::createSimDevice({hip, order, /*seed=*/1, /*threads=*/1});
    check(device.status());
    check((*device)->loadKernels(path, names, 0));
    devices.push_back(std::move(*device));
  }
  unlink(path.c_str());
}

Kernel::~Kernel() {
  if (library)
    dlclose(library);
}

std::string Kernel::run(const std::vector<const Buffer *> &buffers,
                        const std::map<std::string, int64_t> &sizes, bool backwards) const {
  const KernelVariant *chosen = nullptr;
  for (const KernelVariant &variant : variants) {
    bool fits = true;
    for (const KernelVariant::Guard &guard : variant.guards)
      fits &= sizes.at(guard.size) >= guard.min && sizes.at(guard.size) <= guard.max;
    if (fits) {
      chosen = &variant;
      break;
    }
  }
  if (!chosen)
    throw std::runtime_error("no variant fits");
  std::vector<int64_t> values;
  for (const std::string &name : symbols)
    values.push_back(sizes.at(name));
  uint32_t extents[3] = {1, 1, 1};
  for (auto [axis, extent] : llvm::enumerate(chosen->grid))
    extents[axis] = *evaluateSize(extent, [&](llvm::StringRef name) -> std::optional<int64_t> {
      return sizes.at(name.str());
    });
  if (devices.empty())
    runOnCpu(*chosen, buffers, values, extents, backwards);
  else
    runOnGpu(chosen - variants.begin(), buffers, values, extents);
  for (const Buffer *buffer : buffers)
    if (!buffer->isTailIntact())
      throw std::runtime_error("the kernel wrote beyond a buffer");
  return chosen->symbol.substr(chosen->symbol.rfind('_') + 1);
}

void Kernel::runOnCpu(const KernelVariant &variant, const std::vector<const Buffer *> &buffers,
                      const std::vector<int64_t> &sizes, const uint32_t extents[3],
                      bool backwards) const {
  using Function = int (*)(void *const *, const int64_t *, void *, const uint32_t *);
  auto function = reinterpret_cast<Function>(dlsym(library, variant.symbol.c_str()));
  if (!function)
    throw std::runtime_error("no symbol " + variant.symbol);
  std::vector<void *> pointers;
  for (const Buffer *buffer : buffers)
    pointers.push_back(buffer->data());
  std::vector<char> scratch(variant.scratchBytes + 64);
  int64_t items = int64_t(extents[0]) * extents[1] * extents[2];
  for (int64_t i = 0; i < items; ++i) {
    int64_t item = backwards ? items - 1 - i : i;
    uint32_t id[3] = {static_cast<uint32_t>(item / extents[2] / extents[1]),
                      static_cast<uint32_t>(item / extents[2] % extents[1]),
                      static_cast<uint32_t>(item % extents[2])};
    if (function(pointers.data(), sizes.data(), scratch.data(), id) != 0)
      throw std::runtime_error("the kernel did not return 0");
  }
}

void Kernel::runOnGpu(uint32_t number, const std::vector<const Buffer *> &buffers,
                      const std::vector<int64_t> &sizes, const uint32_t extents[3]) const {
  std::vector<std::string> first;
  for (const auto &device : devices) {
    rt::LaunchShape shape;
    shape.kernel = number;
    shape.gridRank = variants[number].grid.size();
    shape.items = 1;
    for (uint32_t axis = 0; axis < shape.gridRank; ++axis)
      shape.items *= shape.grid[axis] = extents[axis];
    shape.threads = variants[number].threads;
    shape.numBuffers = buffers.size();
    shape.numSizes = sizes.size();
    shape.sizes = sizes.data();
    std::vector<rt::Memory> memories;
    std::vector<void *> pointers;
    for (const Buffer *buffer : buffers) {
      auto memory = device->allocate(std::max<size_t>(buffer->size(), 1), "a test's buffer");
      check(memory.status());
      check(device->write(memory->data, buffer->data(), buffer->size()));
      pointers.push_back(memory->data);
      memories.push_back(std::move(*memory));
    }
    rt::Launch launch{0, 0};
    check(device->run(
        {absl::MakeConstSpan(&shape, 1), absl::MakeConstSpan(&launch, 1), pointers.data()}));
    std::vector<std::string> results;
    for (auto [buffer, pointer] : llvm::zip_equal(buffers, pointers)) {
      std::string &bytes = results.emplace_back(buffer->size(), 0);
      check(device->read(bytes.data(), pointer, bytes.size()));
    }
    if (first.empty())
      first = results;
    if (results != first)
      throw std::runtime_error("the order of lanes changes the result");
  }
  for (auto [buffer, bytes] : llvm::zip_equal(buffers, first))
    std::memcpy(buffer->data(), bytes.data(), bytes.size());
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

std::vector<float> randomFloats(size_t count, unsigned seed, float scale) {
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float &value : values)
    value = scale * (static_cast<float>(engine()) / 2147483648.0f - 1.0f);
  return values;
}

std::vector<float> pack(const std::vector<float> &rows, int64_t n, int64_t k, int64_t depth) {
  int64_t panels = (n + 15) / 16, steps = (k + depth - 1) / depth;
  std::vector<float> packed(panels * steps * 16 * depth, 0.0f);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i)
      packed[((row / 16 * steps + i / depth) * 16 + row % 16) * depth + i % depth] =
          rows[row * k + i];
  return packed;
}

double maxError(const std::vector<float> &a, const std::vector<float> &b) {
  if (a.size() != b.size())
    return std::numeric_limits<double>::infinity();
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i]))
      return std::numeric_limits<double>::infinity();
    if (std::isnan(b[i]))
      continue;
    difference = std::max(difference, std::fabs(double(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(double(b[i])));
  }
  return largest > 0 ? difference / largest : difference;
}

} // namespace adapt::test
