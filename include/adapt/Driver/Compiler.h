// The compiler as one call: a checkpoint in, a bundle out, phase by phase.
#pragma once

#include "adapt/Report/Report.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adapt {

/// In the order in which they run. docs/architecture.md says what holds when each ends.
enum class Phase { Import, Simplify, Shard, Map, Fuse, Plan, Emit };
constexpr Phase kPhases[] = {Phase::Import, Phase::Simplify, Phase::Shard, Phase::Map,
                             Phase::Fuse,   Phase::Plan,     Phase::Emit};
llvm::StringRef getName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

struct CompileOptions {
  std::string input;  ///< a checkpoint's folder, a .onnx file, or with compileFrom a .mlir(bc) file
  std::string output; ///< the bundle; empty: the model's name plus ".bundle"
  std::string target = "cpu";
  std::string dtype = "auto"; ///< auto, float32, bfloat16, float16
  std::vector<std::string> familyDirectories, targetDirectories; ///< empty: those installed
  std::optional<Phase> compileTo;
  std::optional<Phase> compileFrom; ///< the phase that the input is the end of
  std::string checkpoint;           ///< with compileFrom: where the weights are
  std::string dumpPhases;           ///< a folder, or empty
  bool simulation = false;          ///< of a GPU: kernels.sim.so too
  bool referenceWeights = false;    ///< recipes into the checkpoint instead of converted weights
  int64_t maxNumTokens = 512, maxBatchSize = 16;
  int64_t maxSeqLen = 0;    ///< 0: the model's
  int64_t tp = 1, pp = 1;   ///< ranks that share each layer; stages of layers
  bool allowPadding = true; ///< of heads and elements that the ranks do not divide
  /// Most that named sizes of a graph's inputs can be.
  std::map<std::string, int64_t> shape;
  std::string kernelCache; ///< a folder; empty: the user's cache folder
  bool useKernelCache = true;
  unsigned threads = 0; ///< 0: as many as there are
  bool showProgress = false;
};

/// Why a compilation ended.
enum class Outcome {
  Done = 0,
  Refused = 1, ///< the input cannot be done; diagnostics said why
  Fault = 3    ///< an invariant of ours is broken; diagnostics said which
};

class Compiler {
public:
  explicit Compiler(CompileOptions options);
  ~Compiler();

  /// Runs the phases up to `compileTo` (or all) and, at `emit`, writes the bundle.
  Outcome run();
  /// Runs up to `plan` without writing anything.
  Outcome plan();

  /// The module as the last phase left it.
  mlir::ModuleOp getModule();
  const Report &getReport() const { return report; }
  const std::string &getOutput() const { return options.output; }

private:
  struct State;
  Outcome runPhases(Phase last);
  Outcome runPhase(Phase phase);
  Outcome import();
  /// Instead of an import, with compileFrom: reads and checks the IR.
  Outcome resume();
  /// Sets the options to the limits that a plan was made within.
  Outcome keepLimits();
  Outcome emit();
  /// Fills the report from the module.
  Outcome describe();
  /// How the target runs each operation, or why not; after the phase simplify.
  Outcome describeCoverage();
  /// Refuses what the target's memory cannot hold.
  Outcome checkMemory();
  bool isWritten() const { return options.compileTo.value_or(Phase::Emit) == Phase::Emit; }

  CompileOptions options;
  Report report;
  std::unique_ptr<State> state;
};

} // namespace adapt
