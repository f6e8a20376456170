// Every kernel of the tiny models, compiled for this CPU, against the interpreter's typed mode: the
// same random inputs, the tolerance of Tolerance.h.
#include "../codegen/KernelRunner.h"
#include "adapt/Import/Checkpoint.h"
#include "adapt/Interpreter/Files.h"
#include "adapt/Interpreter/Interpreter.h"
#include "adapt/Interpreter/Sources.h"
#include "adapt/Interpreter/Tolerance.h"
#include "adapt/Target/Target.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"

#include "gtest/gtest.h"

using namespace adapt;
using namespace adapt::interp;

namespace {

constexpr int64_t kBlocks = 3;

std::string elementName(mlir::Type element) {
  return element.isBF16() ? "bf16" : element.isF32() ? "f32" : "";
}

/// A tensor's elements as the kernel wants them in memory.
test::Buffer toBuffer(const Tensor &tensor, mlir::RankedTensorType type) {
  if (!tensor.isFloat()) {
    EXPECT_TRUE(type.getElementType().isInteger(32));
    return test::Buffer::of(std::vector<int32_t>(tensor.ints().begin(), tensor.ints().end()));
  }
  std::vector<float> values(tensor.floats().begin(), tensor.floats().end());
  if (auto packed = mlir::dyn_cast_or_null<PackedAttr>(type.getEncoding())) {
    EXPECT_EQ(packed.getN(), 16);
    values = test::pack(values, type.getDimSize(0), type.getDimSize(1), packed.getK());
  }
  return test::Buffer::floats(elementName(type.getElementType()), values);
}

/// Runs a kernel both ways.
class KernelComparison {
public:
  KernelComparison(mlir::ModuleOp module, int64_t blockTokens) {
    Options options;
    options.mode = Mode::Typed;
    options.blockTokens = blockTokens;
    interpreter.emplace(module, options);
  }

  /// All sizes are `size`; for kernels with state, which need sizes that fit each other, there are
  /// two sequences of 3 and 2 tokens.
  void run(KernelOp kernel, const test::Kernel &compiled, int64_t size);

private:
  /// The values of the kernel's sizes.
  void bindSizes(KernelOp kernel, bool hasState, int64_t size);
  void makeState(PagedType type);

  std::optional<Interpreter> interpreter;
  Bindings sizes;
  uint64_t seed = 1;
  /// What paged_append left for paged_attend.
  State state;
  std::vector<test::Buffer> planes;
};

void KernelComparison::bindSizes(KernelOp kernel, bool hasState, int64_t size) {
  sizes.clear();
  for (llvm::StringRef name : kernel.getSymbols())
    sizes[name] = size;
  if (!hasState)
    return;
  // T tokens, S sequences, B blocks of each, as the types of the arguments use them.
  for (mlir::Type type : kernel.getArgumentTypes()) {
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
    if (!tensor)
      continue;
    auto set = [&](unsigned axis, int64_t value) {
      if (auto symbol = mlir::dyn_cast<mlir::AffineSymbolExpr>(getDims(tensor)[axis]))
        sizes[getSymbolName(symbol)] = value;
    };
    if (!tensor.getElementType().isInteger(32)) {
      set(0, 5);
    } else {
      set(0, 2);
      if (tensor.getRank() == 2)
        set(1, 1);
    }
  }
}

void KernelComparison::makeState(PagedType type) {
  if (!state.planes.empty())
    return;
  state = *interpreter->makeState(interpreter->lookup("main"), type, kBlocks);
  for (auto [tensor, plane] : llvm::zip_equal(state.planes, type.getPlanes()))
    planes.push_back(toBuffer(tensor, plane));
}

void KernelComparison::run(KernelOp kernel, const test::Kernel &compiled, int64_t size) {
  bool hasState = llvm::any_of(kernel.getArgumentTypes(), llvm::IsaPred<PagedType>);
  bindSizes(kernel, hasState, size);
  EvalContext context;
  context.symbols = sizes;
  // Two sequences in blocks 2 and 0.
  const std::vector<int64_t> step[] = {{0, 3, 5}, {3, 2}, {2, 0}};
  unsigned nextStep = 0;
  int64_t terms = 1;
  llvm::SmallVector<Value> arguments;
  std::vector<test::Buffer> memory;
  std::vector<std::pair<bool, size_t>> order; // whether a plane, and which
  for (mlir::Type type : kernel.getArgumentTypes()) {
    if (auto paged = mlir::dyn_cast<PagedType>(type)) {
      makeState(paged);
      arguments.push_back(state);
      for (size_t i = 0; i < planes.size(); ++i)
        order.push_back({true, i});
      continue;
    }
    auto tensorType = mlir::cast<mlir::RankedTensorType>(type);
    Tensor tensor = *context.makeTensor(kernel, type);
    if (!tensor.isFloat() && hasState)
      llvm::copy(step[nextStep++], tensor.mutableInts().begin());
    else
      fillRandom(tensor, seed++, /*below=*/size);
    if (tensor.isFloat())
      terms = std::max(terms, tensor.getShape().back());
    order.push_back({false, memory.size()});
    memory.push_back(toBuffer(tensor, tensorType));
    arguments.push_back(std::move(tensor));
  }
  for (mlir::Type type : kernel.getResultTypes()) {
    if (mlir::isa<PagedType>(type))
      continue;
    order.push_back({false, memory.size()});
    memory.push_back(
        toBuffer(*context.makeTensor(kernel, type), mlir::cast<mlir::RankedTensorType>(type)));
  }
  std::vector<const test::Buffer *> buffers;
  for (auto [isPlane, i] : order)
    buffers.push_back(isPlane ? &planes[i] : &memory[i]);

  auto expected = interpreter->run(kernel, arguments, {}, sizes);
  ASSERT_TRUE(mlir::succeeded(expected));
  std::map<std::string, int64_t> byName;
  for (const auto &entry : sizes)
    byName[entry.getKey().str()] = entry.getValue();
  std::string variant = compiled.run(buffers, byName);

  size_t outputs = llvm::count_if(kernel.getResultTypes(), llvm::IsaPred<mlir::RankedTensorType>);
  auto output = memory.end() - outputs;
  // Each operation of a kernel rounds its result, or does not where they are fused.
  int64_t roundings =
      std::distance(kernel.getBody().front().begin(), kernel.getBody().front().end()) - 1;
  for (Value &result : *expected) {
    if (result.isState()) {
      state = result.state();
      continue;
    }
    const Tensor &tensor = result.tensor();
    std::vector<float> found = output->toFloats(elementName(tensor.getElementType()));
    ++output;
    std::vector<float> wanted(tensor.floats().begin(), tensor.floats().end());
    double tolerance = getTolerance(tensor.getElementType(), terms, roundings);
    double error = test::maxError(found, wanted);
    EXPECT_LE(error, tolerance) << kernel.getSymName().str() << ", sizes " << size << ", variant "
                                << variant;
  }
}

class KernelsTest : public testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(KernelsTest, AgreeWithTheInterpreter) {
  auto [checkpoint, dtype] = GetParam();
  mlir::MLIRContext context;
  context.loadDialect<AdaptDialect, mlir::func::FuncDialect>();
  ImportOptions import;
  import.path = std::string(ADAPT_SOURCE_DIR "/test/e2e/data/") + checkpoint;
  import.familyDirectories = {ADAPT_SOURCE_DIR "/models"};
  import.dtype = dtype;
  auto module = importCheckpoint(&context, import);
  ASSERT_TRUE(module);
  auto target = loadTarget(&context, "cpu", {ADAPT_SOURCE_DIR "/targets"});
  ASSERT_TRUE(mlir::succeeded(target));
  (*module)->setAttr("adapt.target", target->toAttribute(&context, {}));
  mlir::PassManager passes(&context, mlir::ModuleOp::getOperationName(),
                           mlir::OpPassManager::Nesting::Implicit);
  buildSimplifyPipeline(passes);
  buildMapPipeline(passes);
  buildFusePipeline(passes);
  ASSERT_TRUE(mlir::succeeded(passes.run(*module)));

  KernelComparison comparison(*module, target->blockTokens);
  auto kernels = llvm::to_vector(module->getOps<KernelOp>());
  ASSERT_GE(kernels.size(), 10u);
  for (KernelOp kernel : kernels) {
    std::string text;
    llvm::raw_string_ostream os(text);
    kernel->print(os, mlir::OpPrintingFlags().useLocalScope());
    test::Kernel compiled(text);
    // One token, a few, more than a tile of any variant.
    for (int64_t size : {1, 7, 40})
      comparison.run(kernel, compiled, size);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, KernelsTest,
    testing::Values(std::pair("tiny-llama", "float32"), std::pair("tiny-llama", "bfloat16"),
                    std::pair("tiny-qwen3", "float32"), std::pair("tiny-qwen3", "bfloat16")),
    [](const auto &info) {
      std::string name = std::string(info.param.first) + "_" + info.param.second;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

} // namespace
