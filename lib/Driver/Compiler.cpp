#include "adapt/Driver/Compiler.h"
#include "Driver/State.h"
#include "adapt/Support/Version.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Pipelines.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include <chrono>
#include <thread>

using namespace mlir;
using namespace adapt;

StringRef adapt::getName(Phase phase) {
  static constexpr const char *kNames[] = {"import", "simplify", "shard", "map",
                                           "fuse",   "plan",     "emit"};
  return kNames[static_cast<unsigned>(phase)];
}

std::optional<Phase> adapt::parsePhase(StringRef name) {
  for (Phase phase : kPhases)
    if (getName(phase) == name)
      return phase;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

namespace {
// Locations in a checkpoint's import name layers and files, not lines of a source.
void printDiagnostic(Diagnostic &diagnostic) {
  static constexpr const char *kNames[] = {"note", "warning", "error", "remark"};
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](Diagnostic &d) {
    Location location = d.getLocation();
    if (auto file = dyn_cast<FileLineColLoc>(location)) {
      os << file.getFilename().getValue() << ':' << file.getLine() << ':' << file.getColumn()
         << ": ";
    } else if (auto name = dyn_cast<NameLoc>(location)) {
      os << name.getName().getValue() << ": ";
    } else if (!isa<UnknownLoc>(location)) {
      os << location << ": ";
    }
    os << kNames[static_cast<unsigned>(d.getSeverity())] << ": " << d.str() << '\n';
  };
  print(diagnostic);
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
  // Names of tensors and files may hold what a terminal should not see.
  for (unsigned char c : text)
    if (c == '\n' || (c >= ' ' && c != 0x7f))
      llvm::errs() << c;
    else
      llvm::errs() << llvm::formatv("\\x{0:x-2}", unsigned(c));
}
} // namespace

//===----------------------------------------------------------------------===//
// Compiler
//===----------------------------------------------------------------------===//

Compiler::Compiler(CompileOptions given) : options(std::move(given)) {
  if (options.threads == 0)
    options.threads = std::max(1u, std::thread::hardware_concurrency());
  state = std::make_unique<State>();
  state->context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    printDiagnostic(diagnostic);
    return success();
  });
}

Compiler::~Compiler() = default;

ModuleOp Compiler::getModule() { return state->module.get(); }

Outcome Compiler::run() { return runPhases(options.compileTo.value_or(Phase::Emit)); }

Outcome Compiler::plan() {
  options.compileTo = Phase::Plan;
  return run();
}

Outcome Compiler::runPhases(Phase last) {
  if (Outcome outcome = state->prepare(options); outcome != Outcome::Done)
    return outcome;
  for (Phase phase : kPhases) {
    if (phase > last)
      break;
    if (options.compileFrom && phase <= *options.compileFrom && phase != Phase::Import)
      continue;
    if (options.showProgress)
      llvm::errs() << llvm::formatv("{0,-10}", getName(phase));
    auto start = std::chrono::steady_clock::now();
    Outcome outcome = runPhase(phase);
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (options.showProgress)
      llvm::errs() << (outcome == Outcome::Done ? llvm::formatv("{0:f2} s\n", seconds).str()
                                                : std::string("failed\n"));
    if (outcome != Outcome::Done)
      return outcome;
    report.phases.push_back({getName(phase).str(), seconds, getPeakResidentBytes()});
    if (phase == Phase::Emit)
      if (Outcome written = state->writeReports(options, report); written != Outcome::Done)
        return written;
  }
  return Outcome::Done;
}

Outcome Compiler::runPhase(Phase phase) {
  PassManager manager(&state->context, ModuleOp::getOperationName(),
                      OpPassManager::Nesting::Implicit);
  switch (phase) {
  case Phase::Import:
    if (Outcome outcome = import(); outcome != Outcome::Done)
      return outcome;
    if (!options.compileFrom)
      buildImportPipeline(manager);
    break;
  case Phase::Simplify:
    buildSimplifyPipeline(manager);
    break;
  case Phase::Shard:
    buildShardPipeline(manager, options.allowPadding);
    break;
  case Phase::Map:
    buildMapPipeline(manager);
    break;
  case Phase::Fuse:
    buildFusePipeline(manager);
    break;
  case Phase::Plan:
    buildPlanPipeline(manager, state->generator.get());
    break;
  case Phase::Emit:
    return emit();
  }
  if (manager.size() != 0 && failed(manager.run(*state->module)))
    return Outcome::Refused;
  // What was read stands for the phase that it is the end of.
  if (phase == Phase::Import && options.compileFrom)
    phase = *options.compileFrom;
  if (phase == Phase::Import || phase == Phase::Fuse)
    state->keepBytecode(phase);
  if (phase == Phase::Simplify)
    if (Outcome outcome = describeCoverage(); outcome != Outcome::Done)
      return outcome;
  if (phase == Phase::Map || phase == Phase::Plan)
    if (Outcome outcome = describe(); outcome != Outcome::Done)
      return outcome;
  if (phase == Phase::Plan)
    if (Outcome outcome = checkMemory(); outcome != Outcome::Done)
      return outcome;
  if (options.dumpPhases.empty())
    return Outcome::Done;
  SmallString<256> path(options.dumpPhases);
  if (std::error_code code = llvm::sys::fs::create_directories(path)) {
    emitError(UnknownLoc::get(&state->context))
        << "cannot make the folder " << path << ": " << code.message();
    return Outcome::Refused;
  }
  llvm::sys::path::append(
      path, llvm::formatv("{0}-{1}.mlir", static_cast<unsigned>(phase), getName(phase)).str());
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (!code)
    state->module->print(file);
  file.flush();
  if (code || file.has_error()) {
    emitError(UnknownLoc::get(&state->context))
        << "cannot write " << path << ": " << (code ? code : file.error()).message();
    file.clear_error();
    return Outcome::Refused;
  }
  return Outcome::Done;
}
