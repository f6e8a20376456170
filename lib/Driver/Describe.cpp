// Fills the report from the module.
#include "Driver/State.h"
#include "dialects/Program/ProgramDialect.h"
#include "passes/Common/Structure.h"
#include "passes/Plan/MemoryReport.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace adapt;

namespace {

// Operations by kind and by what runs them.
std::vector<Report::Mapping> countOperations(ModuleOp module) {
  llvm::MapVector<std::pair<StringRef, StringRef>, std::pair<int64_t, int64_t>> counts;
  auto forEachOp = [](func::FuncOp function, auto visit) {
    function.walk([&](Operation *op) {
      if (auto implementation = op->getAttrOfType<StringAttr>(kImplementation))
        visit(std::pair(op->getName().getStringRef(), implementation.getValue()));
    });
  };
  for (auto function : module.getOps<func::FuncOp>())
    forEachOp(function, [&](auto key) { ++counts[key].first; });
  forEachInstance(module, [&](func::FuncOp function, DictionaryAttr) {
    forEachOp(function, [&](auto key) { ++counts[key].second; });
  });
  std::vector<Report::Mapping> mapping;
  for (const auto &[key, count] : counts)
    mapping.push_back({key.first.str(), key.second.str(), count.first, count.second});
  llvm::sort(mapping, [](const auto &a, const auto &b) {
    return std::tie(a.operation, a.implementation) < std::tie(b.operation, b.implementation);
  });
  return mapping;
}

// The costs of all operations for a step of `tokens` tokens of one sequence, of which one gives
// logits. On failure an error named each operation that has no cost.
FailureOr<Report::StepCost> addCosts(ModuleOp module, const llvm::Twine &step, int64_t tokens) {
  Report::StepCost sum{step.str(), 0, 0, 0};
  auto evaluate = [&](AffineExpr expr) {
    auto value = evaluateSize(
        expr, [&](StringRef symbol) { return std::optional<int64_t>(symbol == "T" ? tokens : 1); });
    return value.value_or(0);
  };
  bool isComplete = true;
  forEachInstance(module, [&](func::FuncOp function, DictionaryAttr) {
    for (Operation &op : function.getBody().front()) {
      if (!isComputing(&op))
        continue;
      auto costed = dyn_cast<CostOpInterface>(op);
      if (!costed) {
        op.emitOpError("has no cost");
        isComplete = false;
        continue;
      }
      Cost cost = costed.getCost();
      sum.flops += evaluate(cost.flops);
      sum.bytesRead += evaluate(cost.bytesRead);
      sum.bytesWritten += evaluate(cost.bytesWritten);
    }
  });
  if (!isComplete)
    return failure();
  return sum;
}

std::string describeVariant(program::VariantOp variant) {
  std::string text = variant.getSymbol().str();
  llvm::raw_string_ostream os(text);
  if (auto guards = variant.getGuards())
    for (auto guard : guards->getAsRange<program::GuardAttr>())
      os << " when " << guard.getSize().getValue() << " from " << guard.getMin() << " to "
         << guard.getMax();
  return text;
}

// How often each function of the program runs in a step.
void countRuns(program::ModuleOp program, StringRef function, llvm::StringMap<int64_t> &launches) {
  auto op = program.lookupSymbol<program::FunctionOp>(function);
  for (Operation &step : op.getBody().front()) {
    if (auto launch = dyn_cast<program::LaunchOp>(step))
      ++launches[launch.getKernel()];
    else if (auto call = dyn_cast<program::CallOp>(step))
      countRuns(program, call.getCallee(), launches);
  }
}

void describeProgram(program::ModuleOp program, Report &report) {
  llvm::StringMap<int64_t> launches;
  for (auto entry : program.getOps<program::EntryOp>())
    countRuns(program, entry.getFunction(), launches);
  report.kernels.clear();
  for (auto kernel : program.getOps<program::KernelOp>()) {
    Report::Kernel row{kernel.getSymName().str(), {}, launches.lookup(kernel.getSymName())};
    for (auto variant : kernel.getBody().getOps<program::VariantOp>())
      row.variants.push_back(describeVariant(variant));
    report.kernels.push_back(std::move(row));
  }
  report.arenaBytes = program.getArenaBytes();
}
} // namespace

Outcome Compiler::describe() {
  ModuleOp module = getModule();
  if (auto programs = module.getOps<program::ModuleOp>(); !programs.empty()) {
    describeProgram(*programs.begin(), report);
    auto memory = reportMemory(module);
    if (failed(memory))
      return Outcome::Refused;
    report.weightBytes = memory->weights;
    if (memory->blockTokens > 0)
      report.stateBytesPerToken = memory->stateBytesPerBlock / memory->blockTokens;
  } else {
    report.mapping = countOperations(module);
    report.costs.clear();
    for (int64_t tokens : {int64_t(1), options.maxNumTokens}) {
      auto cost =
          addCosts(module, llvm::Twine(tokens) + (tokens == 1 ? " token" : " tokens"), tokens);
      if (failed(cost))
        return Outcome::Fault;
      report.costs.push_back(*cost);
    }
  }
  report.target = options.target;
  report.limits = {{"max_num_tokens", options.maxNumTokens},
                   {"max_batch_size", options.maxBatchSize},
                   {"max_seq_len", options.maxSeqLen}};
  auto attributes = module->getAttrOfType<DictionaryAttr>("adapt.model");
  report.name = attributes.getAs<StringAttr>("name").str();
  report.family = attributes.getAs<StringAttr>("family").str();
  report.dtype = attributes.getAs<StringAttr>("dtype").str();
  if (state->model) {
    const Model &model = *state->model;
    report.sizes = {{"layers", static_cast<int64_t>(model.layers.size())},
                    {"vocab_size", model.vocabSize}};
    report.sizes.insert(report.sizes.end(), model.sizes.begin(), model.sizes.end());
    report.parameters = model.countParameters();
    report.stateBytesPerToken = model.getStateBytesPerToken();
  }
  if (llvm::MulOverflow(report.stateBytesPerToken, options.maxSeqLen, report.stateBytesPerSequence))
    return refuse(state->context, "the state of one sequence takes more than 2^63 bytes");
  report.notes.clear();
  if (options.referenceWeights)
    report.notes.push_back("weights are recipes into the original files: they are read, cast and "
                           "packed each time the bundle is loaded");
  return Outcome::Done;
}

Outcome Compiler::checkMemory() {
  // The largest memory that the target's file limits holds weights, activations and state.
  const Target::Memory *memory = nullptr;
  for (const Target::Memory &tier : state->target->memory)
    if (tier.bytes && (!memory || *tier.bytes > *memory->bytes))
      memory = &tier;
  int64_t needed = report.weightBytes + report.arenaBytes + report.stateBytesPerSequence;
  if (!memory || needed <= *memory->bytes)
    return Outcome::Done;
  return refuse(state->context,
                "does not fit into " + memory->name + " of " + formatBytes(*memory->bytes) +
                    ": weights " + formatBytes(report.weightBytes) + ", activations " +
                    formatBytes(report.arenaBytes) + " (smaller with --max-num-tokens), state of " +
                    "one sequence " + formatBytes(report.stateBytesPerSequence) +
                    " (smaller with --max-seq-len), together " + formatBytes(needed));
}
