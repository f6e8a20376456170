// Runs a graph: named tensors in, named tensors out, sizes by those of the inputs.
#pragma once
#include "absl/types/span.h"
#include "adapt/Device.h"
#include "adapt/ExecutionPlan.h"
#include "adapt/Executor.h"
#include "adapt/ModelStage.h"
#include "adapt/Program.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adapt::rt {

class Bundle;

class GraphModel {
public:
  struct Options {
    bool poison = false; ///< fill the arena with NaN patterns before each run, to find bad reads
  };
  struct Port {
    std::string name;
    schema::ElementType element = schema::ELEMENT_TYPE_UNSPECIFIED;
    /// Each axis as text: "batch", "2", "(past + seq)".
    std::vector<std::string> shape;
  };
  /// A dense row-major tensor that lies with the caller.
  struct Input {
    std::string name;
    schema::ElementType element = schema::ELEMENT_TYPE_UNSPECIFIED;
    std::vector<int64_t> shape;
    const void *data = nullptr;
  };
  struct Output {
    std::string name;
    schema::ElementType element = schema::ELEMENT_TYPE_UNSPECIFIED;
    std::vector<int64_t> shape;
    std::vector<std::byte> data;
  };

  static absl::StatusOr<std::unique_ptr<GraphModel>> create(std::unique_ptr<Device> device,
                                                            const Program &program,
                                                            ModelSource source,
                                                            const Options &options);
  /// Weights, program and kernels of a bundle of one rank.
  static absl::StatusOr<std::unique_ptr<GraphModel>>
  load(const Bundle &bundle, std::unique_ptr<Device> device, const Options &options);

  absl::Span<const Port> inputs() const { return inputPorts; }
  absl::Span<const Port> outputs() const { return outputPorts; }
  uint64_t arenaBytes() const { return arena.bytes; }

  /// Every input must be given, in any order. Errors, all at once: unknown, missing or repeated
  /// names, other types and ranks, sizes that contradict each other or lie outside of the bounds
  /// that the bundle was compiled for.
  absl::StatusOr<std::vector<Output>> run(absl::Span<const Input> inputs);

private:
  struct Bound {
    Region region;
    std::vector<SizeExpr> shape;
    std::vector<int32_t> symbols; ///< the axis is this symbol alone, or -1
  };
  struct Symbol {
    std::string name;
    int64_t min, max;
  };

  GraphModel() = default;
  absl::Status bindPorts(const Program &program, const schema::EntryPoint &entry);
  absl::Status bindSizes(absl::Span<const Input *const> inputs);

  std::unique_ptr<Device> dev;
  std::shared_ptr<void> weights;
  Memory arena;
  ExecutionPlan plan;
  std::unique_ptr<Executor> executor;
  std::vector<Port> inputPorts, outputPorts;
  std::vector<Bound> boundInputs, boundOutputs;
  std::vector<Symbol> symbolTable;
  std::vector<int64_t> symbols; // this run's values
  bool isPoisoned = false;
};

/// "batch", "2 * (seq + 1)".
std::string sizeText(const schema::Expr &expr);

} // namespace adapt::rt
