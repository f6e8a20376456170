#include "adapt/CodeGen/KernelGenerator.h"
#include "dialects/Program/Export.h"
#include "passes/Common/Structure.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Plan/FunctionPlanner.h"
#include "passes/Plan/Passes.h"

namespace adapt {
#define GEN_PASS_DEF_PLANPROGRAM
#include "passes/Plan/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;
using program::kAlignment;

namespace {
/// One variant without guards and one work item, where no code generator is linked.
class OneVariant : public KernelGenerator {
public:
  FailureOr<SmallVector<KernelVariant>> getVariants(KernelOp kernel) override {
    KernelVariant variant;
    variant.symbol = kernel.getSymName().str();
    variant.grid.push_back(getAffineConstantExpr(1, kernel.getContext()));
    return SmallVector<KernelVariant>{variant};
  }
  FailureOr<CompiledKernels> compile(ModuleOp module) override {
    return module.emitError("no code generator is linked into this tool");
  }
};

struct PlanProgram : adapt::impl::PlanProgramBase<PlanProgram> {
  using Base::Base;
  explicit PlanProgram(KernelGenerator *generator) : generator(generator) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<TargetInfo> target = TargetInfo::get(module);
    FailureOr<SizeBounds> bounds = SizeBounds::get(module);
    FailureOr<SmallVector<func::FuncOp>> functions = getCalleesFirst(module);
    if (failed(target) || failed(bounds) || failed(functions) || failed(findVariants()))
      return signalPassFailure();
    SmallVector<Stage> stages;
    SmallVector<func::FuncOp> entries = getEntries(module);
    for (func::FuncOp entry : entries) {
      FailureOr<SmallVector<Stage>> found = getStages(entry);
      if (failed(found))
        return signalPassFailure();
      if (found->size() > 1 && entries.size() > 1) {
        entry.emitOpError() << "has pipeline stages, and the module another entry point";
        return signalPassFailure();
      }
      llvm::append_range(stages, *found);
    }
    if (stages.empty()) {
      module.emitError("the module has no entry point: no public function that nobody calls");
      return signalPassFailure();
    }
    if (entries.size() == stages.size()) {
      planProgram(stages, *functions, *bounds, target->blockTokens);
      return;
    }
    // A program per stage, of what it calls.
    for (const Stage &stage : stages) {
      llvm::DenseSet<Operation *> called{stage.function};
      for (func::FuncOp function : llvm::reverse(*functions))
        if (called.contains(function))
          function.walk([&](CallOp call) {
            called.insert(module.lookupSymbol<func::FuncOp>(call.getCallee()));
          });
      SmallVector<func::FuncOp> own;
      llvm::copy_if(*functions, std::back_inserter(own),
                    [&](func::FuncOp function) { return called.contains(function); });
      program::ModuleOp program = planProgram(stage, own, *bounds, target->blockTokens);
      program.setStage(stage.number);
      program.getBody().walk([](program::EntryOp entry) { entry.setName("main"); });
    }
  }

  /// One program of these entry points and functions, callees first.
  program::ModuleOp planProgram(ArrayRef<Stage> entries, ArrayRef<func::FuncOp> functions,
                                const SizeBounds &bounds, int64_t blockTokens) {
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    auto program = program::ModuleOp::create(builder, getOperation().getLoc(),
                                             /*stage=*/IntegerAttr(), builder.getI64IntegerAttr(0));
    program.getBody().emplaceBlock();
    ProgramPlan plan{program, bounds, {}};
    if (failed(addSymbols(plan, functions))) {
      signalPassFailure();
      return program;
    }
    addKernels(plan, functions);
    int64_t arenaBytes = 0;
    for (func::FuncOp function : functions) {
      const Stage *stage =
          llvm::find_if(entries, [&](const Stage &entry) { return entry.function == function; });
      bool isEntry = stage != entries.end();
      FunctionPlanner planner(plan, function, isEntry ? stage : nullptr);
      if (failed(planner.run())) {
        signalPassFailure();
        continue;
      }
      if (!isEntry)
        continue;
      arenaBytes = std::max(arenaBytes, plan.arenaBytes[function.getSymName()]);
      addEntry(plan, function, planner, blockTokens);
    }
    program.setArenaBytes(arenaBytes);
    return program;
  }

  LogicalResult addSymbols(ProgramPlan &plan, ArrayRef<func::FuncOp> functions) {
    llvm::SetVector<StringRef> symbols;
    for (func::FuncOp function : functions)
      for (StringRef symbol : getNames(function, AdaptDialect::kSymbols))
        symbols.insert(symbol);
    // A coordinate also says how many ranks take part in a collective.
    std::string coordinate = AdaptDialect::getCoordinate("tp");
    if (getMeshSize(getOperation(), "tp") > 1)
      symbols.insert(coordinate);
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.program.getBody().front());
    SmallVector<StringRef> missing;
    for (StringRef symbol : symbols) {
      const SizeBounds::Range *range = plan.bounds.find(symbol);
      if (range)
        program::SymbolOp::create(builder, plan.program.getLoc(), symbol, range->min, range->max);
      else
        missing.push_back(symbol);
    }
    if (missing.empty())
      return success();
    InFlightDiagnostic error = getOperation().emitError()
                               << SizeBounds::kAttribute << " gives no bounds of:";
    for (StringRef symbol : missing)
      error << " " << symbol;
    return error;
  }

  /// Asks the code generator once for each kernel.
  LogicalResult findVariants() {
    OneVariant oneVariant;
    KernelGenerator &source = generator ? *generator : oneVariant;
    LogicalResult result = success();
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      FailureOr<SmallVector<KernelVariant>> found = source.getVariants(kernel);
      if (failed(found))
        result = failure();
      else
        variants[kernel.getSymName()] = std::move(*found);
    }
    return result;
  }

  /// The kernels that the functions launch, in the module's order.
  void addKernels(ProgramPlan &plan, ArrayRef<func::FuncOp> functions) {
    llvm::DenseSet<StringRef> launched;
    for (func::FuncOp function : functions)
      function.walk([&](LaunchOp launch) { launched.insert(launch.getKernel()); });
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.program.getBody().front());
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      if (!launched.contains(kernel.getSymName()))
        continue;
      auto out = program::KernelOp::create(builder, kernel.getLoc(), kernel.getSymName(),
                                           builder.getStrArrayAttr(kernel.getSymbols()));
      OpBuilder inner = OpBuilder::atBlockBegin(&out.getBody().emplaceBlock());
      for (const KernelVariant &variant : variants[kernel.getSymName()]) {
        SmallVector<Attribute> guards;
        for (const KernelVariant::Guard &guard : variant.guards)
          guards.push_back(program::GuardAttr::get(
              builder.getContext(), builder.getStringAttr(guard.size), guard.min, guard.max));
        auto made = program::VariantOp::create(
            inner, kernel.getLoc(), variant.symbol,
            guards.empty() ? ArrayAttr() : builder.getArrayAttr(guards),
            DimsAttr::get(builder.getContext(), variant.grid), variant.scratchBytes,
            /*threads=*/IntegerAttr(), /*shared_bytes=*/IntegerAttr());
        if (variant.threads) {
          made.setThreads(variant.threads);
          made.setSharedBytes(variant.sharedBytes);
        }
      }
    }
  }

  void addEntry(ProgramPlan &plan, func::FuncOp function, const FunctionPlanner &planner,
                int64_t blockTokens) {
    OpBuilder builder = OpBuilder::atBlockEnd(&plan.program.getBody().front());
    Location loc = function.getLoc();
    // States stand before the functions.
    builder.setInsertionPoint(*plan.program.getBody().getOps<program::FunctionOp>().begin());
    for (const auto &[name, type] : planner.states) {
      int64_t bytes = type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
      if (llvm::MulOverflow(bytes, blockTokens, bytes) ||
          bytes > std::numeric_limits<int64_t>::max() - kAlignment) {
        function.emitOpError() << "a block of " << name << " takes more than 2^63 bytes";
        return signalPassFailure();
      }
      program::StateOp::create(builder, loc, name, type,
                               static_cast<int64_t>(llvm::alignTo(bytes, kAlignment)));
    }
    builder.setInsertionPointToEnd(&plan.program.getBody().front());
    auto addPorts = [&](ArrayRef<unsigned> ports, SmallVector<StringRef> &names,
                        SmallVector<int64_t> &buffers) {
      for (unsigned port : ports) {
        names.push_back(planner.getBufferName(port));
        buffers.push_back(port);
      }
    };
    SmallVector<StringRef> inputNames, outputNames;
    SmallVector<int64_t> inputs, outputs;
    addPorts(planner.inputs, inputNames, inputs);
    addPorts(planner.outputs, outputNames, outputs);
    program::EntryOp::create(builder, loc, function.getSymName(), function.getSymName(),
                             getEntryKind(function), builder.getStrArrayAttr(inputNames), inputs,
                             builder.getStrArrayAttr(outputNames), outputs, blockTokens);
  }

  KernelGenerator *generator = nullptr;
  llvm::StringMap<SmallVector<KernelVariant>> variants; ///< of each kernel
};
} // namespace

std::unique_ptr<Pass> adapt::createPlanProgram(KernelGenerator *generator) {
  return std::make_unique<PlanProgram>(generator);
}
