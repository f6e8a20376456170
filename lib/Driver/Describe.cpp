// Fills the report from the module.
#include "Driver/State.h"
#include "dialects/Program/ProgramDialect.h"
#include "passes/Common/Structure.h"
#include "passes/Map/Coverage.h"
#include "passes/Plan/CommunicationReport.h"
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

/// The sizes of a step that is reported.
struct StepSizes {
  std::string name;
  std::function<std::optional<int64_t>(StringRef symbol)> sizeOf;
};

// The costs of all operations for a step of these sizes. On failure an error named each operation
// that has no cost.
FailureOr<Report::StepCost> addCosts(ModuleOp module, const StepSizes &step) {
  Report::StepCost sum{step.name, 0, 0, 0};
  auto evaluate = [&](AffineExpr expr) { return evaluateSize(expr, step.sizeOf).value_or(0); };
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
  auto limits = module->getAttrOfType<DictionaryAttr>("adapt.limits");
  if (!isGraph(module) || !limits)
    return std::nullopt;
  std::map<std::string, std::pair<int64_t, int64_t>> sizes;
  for (NamedAttribute limit : limits)
    if (auto range = dyn_cast<ArrayAttr>(limit.getValue()); range && range.size() == 2)
      sizes[limit.getName().str()] = {cast<IntegerAttr>(range[0]).getInt(),
                                      cast<IntegerAttr>(range[1]).getInt()};
  return sizes;
}

/// What is reported: a graph at its smallest and largest sizes, a language model's decode and
/// prefill of one sequence, of which one token gives logits.
std::vector<StepSizes> getSteps(ModuleOp module, int64_t maxNumTokens) {
  std::vector<StepSizes> steps;
  if (auto sizes = getGraphSizes(module)) {
    for (bool largest : {false, true})
      steps.push_back({largest ? "largest sizes" : "smallest sizes",
                       [sizes = *sizes, largest](StringRef symbol) -> std::optional<int64_t> {
                         auto it = sizes.find(symbol.str());
                         if (it == sizes.end())
                           return std::nullopt;
                         return largest ? it->second.second : it->second.first;
                       }});
    return steps;
  }
  for (int64_t tokens : {int64_t(1), maxNumTokens})
    steps.push_back({std::to_string(tokens) + (tokens == 1 ? " token" : " tokens"),
                     [tokens](StringRef symbol) -> std::optional<int64_t> {
                       return symbol == "T" ? tokens : 1;
                     }});
  return steps;
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

/// Kernels of all stages; each has the launches of all.
void describeKernels(ArrayRef<program::ModuleOp> programs, Report &report) {
  llvm::MapVector<StringRef, Report::Kernel> rows;
  for (program::ModuleOp program : programs) {
    llvm::StringMap<int64_t> launches;
    forEachStep(program, [&](Operation *step, DictionaryAttr) {
      if (auto launch = dyn_cast<program::LaunchOp>(step))
        ++launches[launch.getKernel()];
    });
    for (auto kernel : program.getOps<program::KernelOp>()) {
      auto [it, inserted] = rows.try_emplace(kernel.getSymName());
      Report::Kernel &row = it->second;
      row.launches += launches.lookup(kernel.getSymName());
      if (!inserted)
        continue;
      row.name = kernel.getSymName().str();
      for (auto variant : kernel.getBody().getOps<program::VariantOp>())
        row.variants.push_back(describeVariant(variant));
    }
  }
  report.kernels.clear();
  for (auto &[name, row] : rows)
    report.kernels.push_back(std::move(row));
}

/// What each rank holds; the regions of the largest.
LogicalResult describeRanks(ArrayRef<program::ModuleOp> programs, int64_t tp, Report &report) {
  report.ranks.clear();
  report.weightBytes = report.arenaBytes = report.stateBytesPerToken = 0;
  for (auto [stage, program] : llvm::enumerate(programs)) {
    auto memory = reportMemory(program);
    if (failed(memory))
      return failure();
    int64_t perToken =
        memory->blockTokens > 0 ? memory->stateBytesPerBlock / memory->blockTokens : 0;
    for (int64_t rank = 0; rank < tp; ++rank)
      report.ranks.push_back(
          {int64_t(stage), rank, memory->layers, memory->weights, memory->arena, perToken});
    report.weightBytes = std::max(report.weightBytes, memory->weights);
    report.arenaBytes = std::max(report.arenaBytes, memory->arena);
    report.stateBytesPerToken = std::max(report.stateBytesPerToken, perToken);
  }
  return success();
}

/// What the ranks send each other, in steps of each of the sizes.
void describeCommunication(ArrayRef<program::ModuleOp> programs, int64_t tp,
                           ArrayRef<StepSizes> steps, Report &report) {
  report.communication.clear();
  for (auto [stage, program] : llvm::enumerate(programs))
    for (const Communication &c : reportCommunication(program)) {
      Report::Communication row{c.kind,
                                c.axis,
                                int64_t(stage),
                                c.peer,
                                c.function,
                                c.buffer,
                                c.count,
                                c.peer < 0 ? 1 : tp,
                                toString(c.payload),
                                toString(c.wire),
                                {}};
      for (const StepSizes &step : steps)
        row.bytes.emplace_back(evaluateSize(c.payload, step.sizeOf).value_or(0),
                               evaluateSize(c.wire, step.sizeOf).value_or(0));
      report.communication.push_back(std::move(row));
    }
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
  std::vector<StepSizes> steps = getSteps(module, options.maxNumTokens);
  if (SmallVector<program::ModuleOp> programs(module.getOps<program::ModuleOp>());
      !programs.empty()) {
    int64_t tp = getMeshSize(module, "tp");
    describeKernels(programs, report);
    if (failed(describeRanks(programs, tp, report)))
      return Outcome::Refused;
    describeCommunication(programs, tp, steps, report);
  } else {
    report.mapping = countOperations(module);
    report.costs.clear();
    for (const StepSizes &step : steps) {
      auto cost = addCosts(module, step);
      if (failed(cost))
        return Outcome::Fault;
      report.costs.push_back(*cost);
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
    if (report.ranks.empty())
      report.stateBytesPerToken = model.getStateBytesPerToken();
  }
  if (llvm::MulOverflow(report.stateBytesPerToken, options.maxSeqLen, report.stateBytesPerSequence))
    return refuse(state->context, "the state of one sequence takes more than 2^63 bytes");
  report.notes.clear();
  if (auto padding = module->getAttrOfType<ArrayAttr>(AdaptDialect::kPadding))
    for (StringRef change : padding.getAsValueRange<StringAttr>())
      report.notes.push_back(change.str());
  if (getMeshSize(module, "pp") > 1)
    report.notes.push_back("the costs of a step are those of one tensor-parallel rank, all stages "
                           "together");
  else if (getMeshSize(module, "tp") > 1)
    report.notes.push_back("the costs of a step are those of one rank");
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
  if (!memory)
    return Outcome::Done;
  Outcome outcome = Outcome::Done;
  for (auto [number, rank] : llvm::enumerate(report.ranks)) {
    int64_t sequence = 0, needed = 0;
    bool overflow = llvm::MulOverflow(rank.stateBytesPerToken, options.maxSeqLen, sequence) ||
                    llvm::AddOverflow(rank.weightBytes, rank.arenaBytes, needed) ||
                    llvm::AddOverflow(needed, sequence, needed);
    // The ranks of a stage need the same.
    if (rank.tpRank != 0 || (!overflow && needed <= *memory->bytes))
      continue;
    std::string who = report.ranks.size() == 1 ? "" : "rank " + std::to_string(number) + " ";
    outcome = refuse(
        state->context,
        who + "does not fit into " + memory->name + " of " + formatBytes(*memory->bytes) +
            ": weights " + formatBytes(rank.weightBytes) + ", activations " +
            formatBytes(rank.arenaBytes) + " (smaller with --max-num-tokens), state of " +
            "one sequence " + formatBytes(sequence) + " (smaller with --max-seq-len), together " +
            (overflow ? "more than 2^63 bytes" : formatBytes(needed)));
  }
  return outcome;
}
