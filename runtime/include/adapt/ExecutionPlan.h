// An entry point with all calls expanded and all buffers resolved to addresses: what a device runs.
#pragma once
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "adapt/Device.h"
#include "adapt/Program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace adapt::rt {

/// Bytes at an address of the device.
struct Region {
  char *data = nullptr;
  uint64_t bytes = 0;
};

/// Where the things that a program names lie. All regions must outlive the plan.
struct MemoryMap {
  /// A parameter by its full name ("layers.7.qkv").
  absl::FunctionRef<absl::StatusOr<Region>(absl::string_view)> param;
  absl::Span<const Region> states;    ///< one for each Program.states
  Region arena;                       ///< Program.arena_bytes
  absl::Span<const Region> arguments; ///< of the entry's function
};

/// A collective or transfer step of a function, with this run's sizes: shared by all calls.
struct ExchangeStep {
  enum class Kind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kSend, kReceive };
  Kind kind = Kind::kAllReduce;
  std::string where; ///< "function 'layer' step 3"
  std::string axis;  ///< of a collective
  size_t ranks = 0;  ///< of a collective: that the program was made for
  schema::ElementType element = schema::ELEMENT_TYPE_UNSPECIFIED; ///< of a collective
  uint32_t peerStage = 0, tag = 0;                                ///< of a transfer
  /// In elements, as in Step.Collective; of a transfer `inner` is bytes and `outer` 1.
  uint64_t outer = 0, inner = 0;
};

/// What ranks do together between two launches of a plan.
struct Exchange {
  uint32_t step;      ///< index in ExecutionPlan::exchangeSteps()
  size_t numLaunches; ///< so many of the plan's launches come before
  char *from, *to;    ///< addresses of the device; a transfer has one of them
};

class ExecutionPlan {
public:
  /// Expands the entry point. The program outlives nothing: all that is needed is copied.
  /// Errors: all parameters that are missing or too small, memory that is too small or not
  /// 64-byte aligned, more than Program::kMaxFlatSteps steps.
  static absl::StatusOr<ExecutionPlan>
  build(const Program &program, const schema::EntryPoint &entry, const MemoryMap &memory);

  /// Kernel symbols in use, in the order of LaunchShape::kernel, and the scratch they need.
  absl::Span<const std::string> kernelSymbols() const { return kernels; }
  uint64_t scratchBytes() const { return scratch; }

  /// Where the buffer of an input or output port lies.
  absl::StatusOr<Region> port(absl::string_view name) const;

  /// The parameters that the plan reads, each once, in the order of first use.
  absl::Span<const Region> params() const { return paramRegions; }

  /// Computes all sizes, picks the variants and grids for these symbols (in the order of
  /// Program.symbols), and gives the list to run; it is valid until the next call. Errors: symbols
  /// outside their bounds, sizes that overflow or are negative, copies that leave a buffer.
  absl::StatusOr<LaunchList> prepare(absl::Span<const int64_t> symbols);

  size_t numLaunches() const { return launches.size(); }

  /// In the order in which they come between the launches; their steps are those of the last
  /// prepare(). An executor runs both (Executor.h).
  absl::Span<const Exchange> exchanges() const { return exchangeList; }
  absl::Span<const ExchangeStep> exchangeSteps() const { return exchangeTable; }

private:
  friend class PlanBuilder;

  struct Guard {
    uint32_t size;
    int64_t min, max;
  };
  struct Variant {
    uint32_t kernel;
    std::vector<Guard> guards;
    std::vector<SizeExpr> grid; // over the kernel's sizes
    uint32_t threads;
  };
  struct Kernel {
    std::string name;
    std::vector<Variant> variants;
  };
  /// A launch or copy step of a function, whatever calls it.
  struct Shape {
    std::string where; // for errors
    int32_t kernel = -1;
    std::vector<SizeExpr> sizes; // over the program's symbols; of a copy: its bytes
    uint32_t firstSize = 0;
    uint32_t numBuffers = 0;
    uint64_t copyLimit = 0; // of the smallest buffer that a copy uses
  };
  /// The sizes of an exchange step, outer and inner, and what the smallest buffers allow.
  struct ExchangeSizes {
    SizeExpr outer, inner;
    uint64_t element = 1, fromParts = 1, toParts = 1; ///< bytes; ranks' parts in the buffers
    uint64_t fromLimit, toLimit;                      ///< bytes
  };
  struct Port {
    std::string name;
    Region region;
  };
  struct Symbol {
    std::string name;
    int64_t min, max;
  };

  absl::Status prepareLaunch(const Shape &shape, LaunchShape &result);
  absl::Status prepareExchange(const ExchangeSizes &sizes, ExchangeStep &step,
                               absl::Span<const int64_t> values);
  absl::Status prepareCopy(const Shape &shape, int64_t bytes, LaunchShape &result);

  std::vector<Symbol> symbols;
  std::vector<std::string> kernels; // symbols
  uint64_t scratch = 0;
  std::vector<Kernel> kernelTable;
  std::vector<Shape> shapes;
  std::vector<Launch> launches;
  std::vector<void *> buffers;
  std::vector<ExchangeStep> exchangeTable;
  std::vector<ExchangeSizes> exchangeSizes; // of each of the table
  std::vector<Exchange> exchangeList;
  std::vector<Port> ports;
  std::vector<Region> paramRegions;

  std::vector<int64_t> sizes; // of all shapes, this step's
  std::vector<LaunchShape> prepared;
  std::vector<int64_t> lastSymbols; // what `prepared` was made for
};

} // namespace adapt::rt
