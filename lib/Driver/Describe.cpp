// Fills the report from the module.
#include "Driver/State.h"
#include "dialects/Program/ProgramDialect.h"
#include "passes/Common/Structure.h"
#include "passes/Map/Coverage.h"
#include "passes/Plan/MemoryReport.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
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

using SizeOf = llvm::function_ref<std::optional<int64_t>(StringRef symbol)>;

// The costs of all operations for a step of these sizes. On failure an error named each operation
// that has no cost.
FailureOr<Report::StepCost> addCosts(ModuleOp module, const llvm::Twine &step, SizeOf sizeOf) {
  Report::StepCost sum{step.str(), 0, 0, 0};
  auto evaluate = [&](AffineExpr expr) { return evaluateSize(expr, sizeOf).value_or(0); };
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

// The named sizes of a graph with their bounds; nullopt for a language model.
std::optional<std::map<std::string, std::pair<int64_t, int64_t>>> getGraphSizes(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  auto entry = main ? main->getAttrOfType<StringAttr>("adapt.entry") : StringAttr();
  auto limits = module->getAttrOfType<DictionaryAttr>("adapt.limits");
  if (!entry || entry.getValue() != "graph" || !limits)
    return std::nullopt;
  std::map<std::string, std::pair<int64_t, int64_t>> sizes;
  for (NamedAttribute limit : limits)
    if (auto range = dyn_cast<ArrayAttr>(limit.getValue()); range && range.size() == 2)
      sizes[limit.getName().str()] = {cast<IntegerAttr>(range[0]).getInt(),
                                      cast<IntegerAttr>(range[1]).getInt()};
  return sizes;
}

void describeGraph(ModuleOp module, const std::map<std::string, std::pair<int64_t, int64_t>> &sizes,
                   Report &report) {
  auto model = module->getAttrOfType<DictionaryAttr>("adapt.model");
  if (auto name = model ? model.getAs<StringAttr>("name") : StringAttr())
    report.name = name.str();
  report.family = "graph";
  report.dtype = "the graph's own types";
  report.limits.clear();
  report.notes.clear();
  for (const auto &[name, range] : sizes) {
    report.limits.push_back({name, range.second});
    if (range.first > 1)
      report.notes.push_back("the graph needs '" + name + "' to be at least " +
                             std::to_string(range.first));
  }
  int64_t count = 0;
  llvm::StringSet<> seen;
  module.walk([&](SourceOp source) {
    if (seen.insert(source.getName()).second)
      count += cast<RankedTensorType>(source.getType()).getNumElements();
  });
  report.parameters = {{"initialisers", count}};
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

Outcome Compiler::describeCoverage() {
  FailureOr<TargetInfo> target = TargetInfo::get(getModule());
  if (failed(target))
    return Outcome::Fault;
  report.target = options.target;
  report.coverage.clear();
  for (const auto &[name, row] : getCoverage(getModule(), *target)) {
    Report::Coverage out{name, row.library, row.generated, row.composite, row.missing, {}};
    for (const auto &[reason, nodes] : row.reasons)
      out.reasons.push_back(reason + ": " + llvm::join(nodes, ", "));
    report.coverage.push_back(std::move(out));
  }
  return Outcome::Done;
}

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
    auto add = [&](const llvm::Twine &step, SizeOf sizeOf) {
      auto cost = addCosts(module, step, sizeOf);
      if (succeeded(cost))
        report.costs.push_back(*cost);
      return cost;
    };
    if (auto sizes = getGraphSizes(module)) {
      for (bool largest : {false, true})
        if (failed(add(largest ? "largest sizes" : "smallest sizes", [&](StringRef symbol) {
              auto it = sizes->find(symbol.str());
              return it == sizes->end()
                         ? std::nullopt
                         : std::optional(largest ? it->second.second : it->second.first);
            })))
          return Outcome::Fault;
    } else {
      // One sequence, of which one token gives logits.
      for (int64_t tokens : {int64_t(1), options.maxNumTokens})
        if (failed(add(llvm::Twine(tokens) + (tokens == 1 ? " token" : " tokens"),
                       [&](StringRef symbol) {
                         return std::optional<int64_t>(symbol == "T" ? tokens : 1);
                       })))
          return Outcome::Fault;
    }
  }
  report.target = options.target;
  if (auto sizes = getGraphSizes(module)) {
    describeGraph(module, *sizes, report);
    return Outcome::Done;
  }
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
