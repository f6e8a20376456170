#include "Commands.h"
#include "adapt/Import/Onnx.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>

using namespace adapt;

void adapt::addOptions(CLI::App &app, CommandOptions &options) {
  CompileOptions &compile = options.compile;
  auto addPhase = [&](const char *name, std::optional<Phase> &field, const char *help) {
    app.add_option_function<std::string>(
           name, [&field](const std::string &value) { field = parsePhase(value); }, help)
        ->check(CLI::IsMember({"import", "simplify", "shard", "map", "fuse", "plan", "emit"}));
  };
  app.add_option("model", compile.input,
                 "folder of the checkpoint (config.json, *.safetensors), or an .onnx file");
  app.add_option("-o,--output", compile.output, "the bundle; default: the model's name + .bundle");
  app.add_option("--target", compile.target,
                 "what to compile for: cpu, or cpu:NAME for another CPU; cuda:sm_90, hip:gfx942, …")
      ->capture_default_str();
  app.add_flag("--sim", compile.simulation,
               "of a GPU: also kernels.sim.so, for adapt-run --device=sim");
  app.add_option("--dtype", compile.dtype, "type of activations, weights and state")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}))
      ->capture_default_str();
  app.add_option("--max-num-tokens", compile.maxNumTokens, "most tokens in one step")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24))
      ->capture_default_str();
  app.add_option("--max-batch-size", compile.maxBatchSize, "most sequences in one step")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  app.add_option("--max-seq-len", compile.maxSeqLen, "longest sequence; default: the model's")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 32));
  app.add_option_function<std::vector<std::string>>(
         "--shape",
         [&compile](const std::vector<std::string> &sizes) {
           for (const std::string &size : sizes) {
             auto [name, value] = llvm::StringRef(size).split('=');
             int64_t number = 0;
             if (name.empty() || value.getAsInteger(10, number) || number < 1)
               throw CLI::ValidationError("--shape", "'" + size + "' is not NAME=N with N from 1");
             compile.shape[name.str()] = number;
           }
         },
         "most that named sizes of a graph can be: batch=8,seq=512")
      ->delimiter(',');
  app.add_option("--tp", compile.tp, "tensor-parallel ranks, which share each layer")
      ->check(CLI::Range(int64_t(1), int64_t(1024)))
      ->capture_default_str();
  app.add_option("--pp", compile.pp, "pipeline stages, each with some of the layers")
      ->check(CLI::Range(int64_t(1), int64_t(1024)))
      ->capture_default_str();
  app.add_flag("!--no-padding", compile.allowPadding,
               "refuse where --tp does not divide heads or sizes, instead of padding with zeros");
  app.add_option_function<std::string>(
         "--weights",
         [&compile](const std::string &mode) { compile.referenceWeights = mode == "reference"; },
         "converted: stored as the kernels want them; reference: read from the checkpoint at load")
      ->check(CLI::IsMember({"converted", "reference"}));
  addPhase("--compile-to", compile.compileTo, "stop after this phase and print the IR");
  addPhase("--compile-from", compile.compileFrom, "the input is the IR at the end of this phase");
  app.add_option("--checkpoint", compile.checkpoint, "with --compile-from: where the weights are");
  app.add_option("--dump-phases", compile.dumpPhases, "write each phase's IR into this folder");
  app.add_option("--family-dir", compile.familyDirectories, "folder of model families");
  app.add_option("--target-dir", compile.targetDirectories, "folder of targets");
  app.add_option("--kernel-cache", compile.kernelCache, "folder of compiled kernels");
  app.add_flag("!--no-kernel-cache", compile.useKernelCache, "compile every kernel anew");
  app.add_option("--threads", compile.threads, "default: as many as there are cores");
  app.add_flag("--json", options.json, "for machines, on stdout");
}

void adapt::checkCombinations(const CLI::App &app, const CommandOptions &options,
                              bool isSubcommand) {
  const CompileOptions &compile = options.compile;
  auto given = [&](const char *name) { return app.count(name) > 0; };
  auto refuse = [](const std::string &message) { throw CLI::ValidationError(message); };
  if (!compile.compileFrom) {
    if (given("--checkpoint"))
      refuse("--checkpoint goes with --compile-from; a folder to compile stands without an option");
    return;
  }
  if (isSubcommand)
    refuse("--compile-from does not go with plan and inspect, which read a checkpoint");
  if (*compile.compileFrom == Phase::Emit)
    refuse("--compile-from=emit: nothing comes after emit");
  if (compile.compileTo && *compile.compileTo <= *compile.compileFrom)
    refuse("--compile-to must name a phase after that of --compile-from");
  for (const char *option : {"--dtype", "--family-dir"})
    if (given(option))
      refuse(std::string(option) + " does not go with --compile-from: the IR has it already");
  if (*compile.compileFrom >= Phase::Plan)
    for (const char *option : {"--max-num-tokens", "--max-batch-size", "--max-seq-len"})
      if (given(option))
        refuse(std::string(option) + " does not go with --compile-from=plan: it was planned for");
}

namespace {
// Whether all of stdout was written; a full disk must not look like success.
bool flushOutput() {
  llvm::raw_fd_ostream &os = llvm::outs();
  os.flush();
  if (!os.has_error())
    return true;
  llvm::errs() << "error: cannot write to stdout: " << os.error().message() << '\n';
  os.clear_error();
  return false;
}

int finish(Outcome outcome, const CommandOptions &options, const Compiler &compiler) {
  if (outcome == Outcome::Done && options.json)
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(compiler.getReport().toJson()))
                 << '\n';
  return flushOutput() ? static_cast<int>(outcome) : 1;
}
} // namespace

int adapt::runCompile(CommandOptions &options) {
  CompileOptions &compile = options.compile;
  bool isWritten = !compile.compileTo || *compile.compileTo == Phase::Emit;
  compile.showProgress = isWritten && llvm::sys::Process::StandardErrIsDisplayed();
  Compiler compiler(compile);
  Outcome outcome = compiler.run();
  if (outcome == Outcome::Done && !isWritten) {
    compiler.getModule().print(llvm::outs());
    return flushOutput() ? 0 : 1;
  }
  if (outcome == Outcome::Done)
    llvm::errs() << "wrote " << compiler.getOutput() << " ("
                 << formatBytes(compiler.getReport().getWeightBytes())
                 << (compile.referenceWeights ? " of weights by reference, " : " of weights, ")
                 << compiler.getReport().kernels.size() << " kernels)\n";
  return finish(outcome, options, compiler);
}

namespace {
// A table a stage: its ranks hold the same.
void printRanks(const Report &report) {
  llvm::raw_ostream &os = llvm::outs();
  auto row = [&](llvm::StringRef name, int64_t bytes) {
    os << llvm::formatv("  {0,-44}{1,12}  ({2} bytes)\n", name, formatBytes(bytes), bytes);
  };
  int64_t maxSeqLen = 0;
  for (const auto &[limit, value] : report.limits)
    if (limit == "max_seq_len")
      maxSeqLen = value;
  for (size_t first = 0; first < report.ranks.size();) {
    const Report::Rank &rank = report.ranks[first];
    size_t next = first;
    while (next < report.ranks.size() && report.ranks[next].ppRank == rank.ppRank)
      ++next;
    os << "bytes on rank " << first;
    if (next - first > 1)
      os << ", and on each of the ranks to " << next - 1;
    if (report.ranks.size() > next - first && rank.layers)
      os << ": layers " << rank.layers->first << " to " << rank.layers->second;
    os << '\n';
    row("resident: weights", rank.weightBytes);
    row("dynamic: activations", rank.arenaBytes);
    row("dynamic: state of a token", rank.stateBytesPerToken);
    row("dynamic: state of a sequence of max_seq_len", rank.stateBytesPerToken * maxSeqLen);
    first = next;
  }
}

void printCommunication(const Report &report) {
  llvm::raw_ostream &os = llvm::outs();
  for (size_t step = 0; step < report.costs.size() && !report.communication.empty(); ++step) {
    os << "on the wire in a step of " << report.costs[step].step << ": "
       << formatBytes(report.getWireBytes(step)) << " (" << report.getWireBytes(step)
       << " bytes)\n";
    for (const Report::Communication &c : report.communication) {
      os << "  " << c.count * c.groups << " x " << c.kind << " over " << c.axis << ", " << c.what
         << " in @" << c.function << ", stage " << c.stage;
      if (c.peer >= 0)
        os << " to " << c.peer;
      os << ": " << c.wire << " = " << c.bytes[step].second << " bytes\n";
    }
  }
}
} // namespace

int adapt::runPlan(CommandOptions &options) {
  Compiler compiler(options.compile);
  Outcome outcome = compiler.plan();
  if (outcome != Outcome::Done || options.json)
    return finish(outcome, options, compiler);
  const Report &report = compiler.getReport();
  llvm::raw_ostream &os = llvm::outs();
  os << report.name << " on " << report.target << ", " << report.dtype << ", "
     << report.getNumParameters() << " parameters\n";
  for (const auto &[limit, value] : report.limits)
    os << llvm::formatv("  {0,-44}{1,12}\n", limit, value);
  printRanks(report);
  for (const Report::StepCost &cost : report.costs)
    os << "a step of " << cost.step << ": " << cost.flops << " operations, "
       << formatBytes(cost.bytesRead) << " read and " << formatBytes(cost.bytesWritten)
       << " written before fusion, state not counted\n";
  printCommunication(report);
  for (const std::string &note : report.notes)
    os << "note: " << note << '\n';
  return flushOutput() ? 0 : 1;
}

namespace {
// Which operations the target runs, and how; printed also where some are missing.
void printCoverage(const Report &report) {
  llvm::raw_ostream &os = llvm::outs();
  os << llvm::formatv("{0,-30}{1,10}{2,11}{3,11}{4,9}\n", "operations on " + report.target,
                      "library", "generated", "composite", "missing");
  for (const Report::Coverage &row : report.coverage)
    os << llvm::formatv("  {0,-28}{1,10}{2,11}{3,11}{4,9}\n", row.operation, row.library,
                        row.generated, row.composite, row.missing);
  for (const Report::Coverage &row : report.coverage)
    for (const std::string &reason : row.reasons)
      os << "missing: " << row.operation << ", " << reason << '\n';
}
} // namespace

int adapt::runInspect(CommandOptions &options) {
  bool isGraph = isOnnxPath(options.compile.input);
  options.compile.compileTo = isGraph ? Phase::Simplify : Phase::Map;
  Compiler compiler(options.compile);
  Outcome outcome = compiler.run();
  if (isGraph && outcome == Outcome::Done && !options.json) {
    printCoverage(compiler.getReport());
    return flushOutput() ? 0 : 1;
  }
  if (outcome != Outcome::Done || options.json)
    return finish(outcome, options, compiler);
  const Report &report = compiler.getReport();
  llvm::raw_ostream &os = llvm::outs();
  os << report.name << ": family " << report.family << ", " << report.dtype << '\n';
  for (const auto &[size, value] : report.sizes)
    os << llvm::formatv("  {0,-30}{1,20}\n", size, value);
  os << "parameters\n";
  for (const auto &[part, count] : report.parameters)
    os << llvm::formatv("  {0,-30}{1,20}\n", part, count);
  os << llvm::formatv("  {0,-30}{1,20}\n", "in all", report.getNumParameters());
  os << "operations on " << report.target
     << llvm::formatv("{0,25}{1,12}\n", "runs as", "in a step");
  for (const Report::Mapping &row : report.mapping)
    os << llvm::formatv("  {0,-30}{1,12}{2,12}\n", row.operation, row.implementation, row.inStep);
  return flushOutput() ? 0 : 1;
}
