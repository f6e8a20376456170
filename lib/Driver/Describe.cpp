// Fills the report from the module.
#include "Driver/State.h"
#include "dialects/Program/ProgramDialect.h"
#include "passes/Common/Structure.h"
#include "passes/Plan/MemoryReport.h"
#include "llvm/ADT/MapVector.h"

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

void Compiler::describe() {
  ModuleOp module = getModule();
  if (auto programs = module.getOps<program::ModuleOp>(); !programs.empty()) {
    describeProgram(*programs.begin(), report);
    if (auto memory = reportMemory(module); succeeded(memory))
      report.weightBytes = memory->weights;
  } else {
    report.mapping = countOperations(module);
  }
  report.target = options.target;
  if (!state->model)
    return;
  const Model &model = *state->model;
  report.name = model.name;
  report.family = model.family;
  llvm::raw_string_ostream(report.dtype = "") << model.dtype;
  report.sizes = {{"layers", static_cast<int64_t>(model.layers.size())},
                  {"vocab_size", model.vocabSize}};
  report.sizes.insert(report.sizes.end(), model.sizes.begin(), model.sizes.end());
  report.parameters = model.countParameters();
  int64_t maxSeqLen = options.maxSeqLen ? options.maxSeqLen : model.maxSeqLen;
  report.stateBytesPerToken = model.getStateBytesPerToken();
  report.stateBytesPerSequence = report.stateBytesPerToken * maxSeqLen;
  report.limits = {{"max_num_tokens", options.maxNumTokens},
                   {"max_batch_size", options.maxBatchSize},
                   {"max_seq_len", maxSeqLen}};
  report.notes.clear();
  if (options.referenceWeights)
    report.notes.push_back("weights are recipes into the original files: they are read, cast and "
                           "packed each time the bundle is loaded");
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
