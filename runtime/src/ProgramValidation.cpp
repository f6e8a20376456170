// What must hold in a program before anything of it is used. A program comes from a file: nothing
// in it is trusted, and every problem is reported, not only the first.
#include "adapt/Program.h"
#include "adapt/Version.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

#include <algorithm>

using namespace adapt;
using namespace adapt::rt;

namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMaxScratchBytes = uint64_t(1) << 30;
constexpr int kMaxRank = 16;
constexpr uint32_t kMaxThreads = 1024; // of a block, on every GPU
constexpr uint32_t kMaxSharedBytes = uint32_t(1) << 20;
constexpr int kMaxGpuArguments = 512;  // CUDA passes 4 KiB of them
constexpr int64_t kMaxRanks = 1 << 20; // of a mesh's axis

using Lookup = absl::FunctionRef<std::optional<uint32_t>(absl::string_view)>;

/// offset + bytes ≤ limit, without overflow.
bool fits(uint64_t offset, uint64_t bytes, uint64_t limit) {
  return offset <= limit && bytes <= limit - offset;
}

class Validator {
public:
  explicit Validator(const schema::Program &program) : program(program) {}

  absl::Status run() {
    if (program.version() != kProgramVersion)
      return absl::InvalidArgumentError(absl::StrCat(
          "program version ", program.version(), ", but this runtime reads version ",
          kProgramVersion, ": compile the model again with the adaptc of this version"));
    checkSymbols();
    for (const schema::Kernel &kernel : program.kernels())
      checkKernel(kernel);
    if (hasCpuKernels && hasGpuKernels)
      problems.add("some kernels have threads, as of a GPU, and some have none, as of a CPU");
    checkNames("kernel", program.kernels());
    checkStates();
    for (const schema::Function &function : program.functions())
      checkFunction(function);
    checkNames("function", program.functions());
    checkRecursion();
    if (program.entries().empty())
      problems.add("no entry point");
    for (const schema::EntryPoint &entry : program.entries())
      checkEntry(entry);
    checkNames("entry point", program.entries());
    return problems.status("program is not valid");
  }

private:
  template <typename Range> void checkNames(absl::string_view what, const Range &range) {
    absl::flat_hash_set<std::string> seen;
    for (const auto &item : range) {
      if (item.name().empty())
        problems.add(what, " without a name");
      else if (!seen.insert(item.name()).second)
        problems.add("two ", what, "s named '", item.name(), "'");
    }
  }

  void checkSymbols() {
    checkNames("symbol", program.symbols());
    for (int i = 0; i < program.symbols_size(); ++i) {
      const schema::Symbol &symbol = program.symbols(i);
      symbolIndex.try_emplace(symbol.name(), i);
      if (symbol.min() < 0 || symbol.min() > symbol.max())
        problems.add("symbol '", symbol.name(), "': bounds ", symbol.min(), " to ", symbol.max());
      if (meshAxis(symbol.name()) && symbol.min() != 0)
        problems.add("symbol '", symbol.name(), "': coordinates of the mesh begin at 0, not at ",
                     symbol.min());
      maxima.push_back(symbol.max());
    }
  }

  std::optional<uint32_t> findSymbol(absl::string_view name) const {
    auto it = symbolIndex.find(name);
    return it == symbolIndex.end() ? std::nullopt : std::optional<uint32_t>(it->second);
  }

  /// The expression, or nothing after reporting why not.
  template <typename Where>
  std::optional<SizeExpr> compile(const schema::Expr &expr, Lookup lookup, const Where &where) {
    absl::StatusOr<SizeExpr> result = SizeExpr::compile(expr, lookup);
    if (result.ok())
      return *std::move(result);
    problems.add(where, ": ", result.status().message());
    return std::nullopt;
  }

  void checkKernel(const schema::Kernel &kernel) {
    std::string where = absl::StrCat("kernel '", kernel.name(), "'");
    absl::flat_hash_map<std::string, uint32_t> sizes;
    for (const std::string &size : kernel.sizes())
      if (!sizes.try_emplace(size, sizes.size()).second)
        problems.add(where, ": two sizes named '", size, "'");
    auto lookup = [&](absl::string_view name) -> std::optional<uint32_t> {
      auto it = sizes.find(name);
      return it == sizes.end() ? std::nullopt : std::optional<uint32_t>(it->second);
    };
    if (kernel.variants().empty())
      problems.add(where, ": no variant");
    else if (!kernel.variants().rbegin()->guards().empty())
      problems.add(where, ": the last variant has guards, so that no variant may fit");
    for (int v = 0; v < kernel.variants_size(); ++v) {
      const schema::Kernel::Variant &variant = kernel.variants(v);
      std::string at = absl::StrCat(where, " variant ", v);
      if (variant.symbol().empty() || variant.symbol().find('\0') != std::string::npos)
        problems.add(at, ": no symbol");
      for (const schema::Kernel::Guard &guard : variant.guards()) {
        if (!sizes.contains(guard.size()))
          problems.add(at, ": guard on unknown size '", guard.size(), "'");
        if (guard.min() > guard.max())
          problems.add(at, ": guard on '", guard.size(), "' from ", guard.min(), " to ",
                       guard.max(), " can never hold");
      }
      if (variant.grid_size() < 1 || variant.grid_size() > 3)
        problems.add(at, ": grid of ", variant.grid_size(), " extents, 1 to 3 are possible");
      for (const schema::Expr &extent : variant.grid())
        compile(extent, lookup, absl::StrCat(at, " grid"));
      if (variant.scratch_bytes() > kMaxScratchBytes)
        problems.add(at, ": ", variant.scratch_bytes(), " bytes of scratch, at most ",
                     kMaxScratchBytes, " are possible");
      (variant.threads() ? hasGpuKernels : hasCpuKernels) = true;
      if (variant.threads() > kMaxThreads)
        problems.add(at, ": blocks of ", variant.threads(), " threads, at most ", kMaxThreads,
                     " are possible");
      if (variant.shared_bytes() > kMaxSharedBytes)
        problems.add(at, ": ", variant.shared_bytes(), " bytes of shared memory, at most ",
                     kMaxSharedBytes, " are possible");
      if (variant.threads() && variant.scratch_bytes())
        problems.add(at, ": ", variant.scratch_bytes(),
                     " bytes of scratch, a GPU's kernel has none");
      if (!variant.threads() && variant.shared_bytes())
        problems.add(at, ": ", variant.shared_bytes(),
                     " bytes of shared memory, a CPU's kernel has none");
    }
  }

  void checkStates() {
    checkNames("state", program.states());
    for (const schema::State &state : program.states()) {
      if (!elementBytes(state.element()))
        problems.add("state '", state.name(), "': unknown element type ",
                     static_cast<int>(state.element()));
      if (state.bytes_per_block() == 0 || state.bytes_per_block() % kAlignment)
        problems.add("state '", state.name(), "': ", state.bytes_per_block(),
                     " bytes a block, must be a positive multiple of ", kAlignment);
    }
  }

  void checkFunction(const schema::Function &function) {
    std::string where = absl::StrCat("function '", function.name(), "'");
    absl::flat_hash_set<std::string> indices;
    for (const std::string &index : function.indices())
      if (index.empty() || !indices.insert(index).second)
        problems.add(where, ": index '", index, "' is empty or appears twice");
    for (int b = 0; b < function.buffers_size(); ++b)
      checkBuffer(function, function.buffers(b), indices,
                  absl::StrCat(where, " buffer ", b, " '", function.buffers(b).name(), "'"));
    for (int s = 0; s < function.steps_size(); ++s)
      checkStep(function, function.steps(s), absl::StrCat(where, " step ", s));
  }

  void checkBuffer(const schema::Function &function, const schema::Buffer &buffer,
                   const absl::flat_hash_set<std::string> &indices, const std::string &where) {
    uint64_t element = elementBytes(buffer.element());
    if (!element)
      problems.add(where, ": unknown element type ", static_cast<int>(buffer.element()));
    checkShape(buffer, element, where);
    switch (buffer.storage_case()) {
    case schema::Buffer::kArenaOffset:
      if (buffer.arena_offset() % kAlignment)
        problems.add(where, ": arena offset ", buffer.arena_offset(), " is not a multiple of ",
                     kAlignment);
      if (!fits(buffer.arena_offset(), buffer.bytes(), function.arena_bytes()))
        problems.add(where, ": bytes ", buffer.arena_offset(), " + ", buffer.bytes(),
                     " leave the function's arena of ", function.arena_bytes());
      break;
    case schema::Buffer::kArgument:
      if (buffer.argument() >= function.num_arguments())
        problems.add(where, ": argument ", buffer.argument(), " of ", function.num_arguments());
      break;
    case schema::Buffer::kParam: {
      auto value = [&](absl::string_view index) {
        return indices.contains(index) ? std::optional<int64_t>(0) : std::nullopt;
      };
      absl::StatusOr<std::string> name = fillTemplate(buffer.param(), value);
      if (!name.ok())
        problems.add(where, ": ", name.status().message());
      break;
    }
    case schema::Buffer::kState:
      if (buffer.state() >= static_cast<uint32_t>(program.states_size()))
        problems.add(where, ": state ", buffer.state(), " of ", program.states_size());
      break;
    case schema::Buffer::STORAGE_NOT_SET:
      problems.add(where, ": no storage");
      break;
    }
  }

  /// The shape's size at the symbols' maxima must lie within `bytes`.
  void checkShape(const schema::Buffer &buffer, uint64_t element, const std::string &where) {
    if (buffer.shape_size() > kMaxRank) {
      problems.add(where, ": rank ", buffer.shape_size(), ", at most ", kMaxRank);
      return;
    }
    int64_t bytes = static_cast<int64_t>(element);
    for (const schema::Expr &extent : buffer.shape()) {
      std::optional<SizeExpr> expr = compile(
          extent, [&](absl::string_view name) { return findSymbol(name); },
          absl::StrCat(where, " shape"));
      if (!expr)
        return;
      std::optional<int64_t> size = expr->evaluate(maxima);
      if (!size || *size < 0 || __builtin_mul_overflow(bytes, *size, &bytes)) {
        problems.add(where, ": its shape has no size at the symbols' maxima");
        return;
      }
    }
    // Params and states (and arguments bound to them) may leave their size to their owner.
    bool sized = buffer.storage_case() == schema::Buffer::kArenaOffset || buffer.bytes() != 0;
    if (sized && static_cast<uint64_t>(bytes) > buffer.bytes())
      problems.add(where, ": its shape needs ", bytes, " bytes at the symbols' maxima, it has ",
                   buffer.bytes());
  }

  bool checkBufferIndex(const schema::Function &function, uint32_t index,
                        const std::string &where) {
    if (index < static_cast<uint32_t>(function.buffers_size()))
      return true;
    problems.add(where, ": buffer ", index, " of ", function.buffers_size());
    return false;
  }

  void checkStep(const schema::Function &function, const schema::Step &step,
                 const std::string &where) {
    auto symbol = [&](absl::string_view name) { return findSymbol(name); };
    switch (step.kind_case()) {
    case schema::Step::kLaunch: {
      const schema::Step::Launch &launch = step.launch();
      for (uint32_t index : launch.buffers())
        checkBufferIndex(function, index, where);
      for (const schema::Expr &size : launch.sizes())
        compile(size, symbol, absl::StrCat(where, " size"));
      if (launch.kernel() >= static_cast<uint32_t>(program.kernels_size())) {
        problems.add(where, ": kernel ", launch.kernel(), " of ", program.kernels_size());
        break;
      }
      const schema::Kernel &kernel = program.kernels(launch.kernel());
      if (launch.sizes_size() != kernel.sizes_size())
        problems.add(where, ": ", launch.sizes_size(), " sizes for kernel '", kernel.name(),
                     "', which has ", kernel.sizes_size());
      if (hasGpuKernels && launch.buffers_size() + launch.sizes_size() > kMaxGpuArguments)
        problems.add(where, ": ", launch.buffers_size(), " buffers and ", launch.sizes_size(),
                     " sizes, a GPU's kernel has at most ", kMaxGpuArguments, " arguments");
      break;
    }
    case schema::Step::kCall:
      checkCall(function, step.call(), where);
      break;
    case schema::Step::kCopy: {
      const schema::Step::Copy &copy = step.copy();
      checkBufferIndex(function, copy.from(), where);
      checkBufferIndex(function, copy.to(), where);
      compile(copy.bytes(), symbol, absl::StrCat(where, " bytes"));
      break;
    }
    case schema::Step::kCollective:
      checkCollective(function, step.collective(), absl::StrCat(where, " (collective)"));
      break;
    case schema::Step::kTransfer:
      checkTransfer(function, step.transfer(), absl::StrCat(where, " (transfer)"));
      break;
    case schema::Step::KIND_NOT_SET:
      problems.add(where, ": none of launch, call, copy, collective and transfer (made by a newer "
                          "adaptc?)");
      break;
    }
  }

  /// A buffer whose bytes go to other ranks or come from them: activations of a known size.
  const schema::Buffer *checkExchanged(const schema::Function &function, uint32_t index,
                                       const std::string &where) {
    if (!checkBufferIndex(function, index, where))
      return nullptr;
    const schema::Buffer &buffer = function.buffers(index);
    if (buffer.storage_case() != schema::Buffer::kArenaOffset &&
        buffer.storage_case() != schema::Buffer::kArgument) {
      problems.add(where, ": buffer '", buffer.name(), "' is neither in the arena nor an argument");
      return nullptr;
    }
    if (buffer.bytes() == 0) {
      problems.add(where, ": buffer '", buffer.name(), "' has no bytes");
      return nullptr;
    }
    return &buffer;
  }

  /// The size at the symbols' maxima, not negative; nothing after reporting.
  std::optional<int64_t> maximum(const schema::Expr &expr, Lookup lookup,
                                 const std::string &where) {
    std::optional<SizeExpr> size = compile(expr, lookup, where);
    if (!size)
      return std::nullopt;
    std::optional<int64_t> value = size->evaluate(maxima);
    if (value && *value >= 0)
      return value;
    problems.add(where, ": has no value at the symbols' maxima");
    return std::nullopt;
  }

  void checkCollective(const schema::Function &function, const schema::Step::Collective &collective,
                       const std::string &where) {
    using Collective = schema::Step::Collective;
    const schema::Buffer *from = checkExchanged(function, collective.from(), where);
    const schema::Buffer *to = checkExchanged(function, collective.to(), where);
    if (!Collective::Kind_IsValid(collective.kind()))
      problems.add(where, ": unknown kind ", static_cast<int>(collective.kind()));
    std::string coordinate = absl::StrCat(collective.axis(), "_rank");
    std::optional<uint32_t> axis = findSymbol(coordinate);
    if (!meshAxis(coordinate))
      problems.add(where, ": the mesh has no axis '", collective.axis(), "'");
    else if (!axis)
      problems.add(where, ": the program has no symbol '", coordinate,
                   "', which says how many ranks take part");
    // A size that depends on the rank would not be the same on all.
    auto sameOnAll = [&](absl::string_view name) {
      return meshAxis(name) ? std::nullopt : findSymbol(name);
    };
    std::optional<int64_t> outer =
        maximum(collective.outer(), sameOnAll, absl::StrCat(where, " outer"));
    std::optional<int64_t> inner =
        maximum(collective.inner(), sameOnAll, absl::StrCat(where, " inner"));
    if (!from || !to)
      return;
    if (from->element() != to->element())
      problems.add(where, ": from '", from->name(), "' of type ",
                   schema::ElementType_Name(from->element()), " to '", to->name(), "' of type ",
                   schema::ElementType_Name(to->element()));
    switch (from->element()) {
    case schema::F32:
    case schema::BF16:
    case schema::F16:
    case schema::I32:
      break;
    default:
      problems.add(where, ": of type ", schema::ElementType_Name(from->element()),
                   ", possible are F32, BF16, F16 and I32");
      return;
    }
    if (collective.from() == collective.to() && collective.kind() != Collective::ALL_REDUCE)
      problems.add(where, ": from and to are the same buffer '", from->name(), "'");
    if (!outer || !inner || !axis)
      return;
    int64_t element = static_cast<int64_t>(elementBytes(from->element())), part, whole;
    if (__builtin_mul_overflow(*outer, *inner, &part) ||
        __builtin_mul_overflow(part, element, &part) || maxima[*axis] >= kMaxRanks ||
        __builtin_mul_overflow(part, maxima[*axis] + 1, &whole)) {
      problems.add(where, ": ", *outer, " * ", *inner, " elements of ", maxima[*axis],
                   " + 1 ranks are too many");
      return;
    }
    auto checkBytes = [&](const schema::Buffer &buffer, int64_t bytes) {
      if (static_cast<uint64_t>(bytes) > buffer.bytes())
        problems.add(where, ": needs ", bytes, " bytes of buffer '", buffer.name(),
                     "' at the symbols' maxima, it has ", buffer.bytes());
    };
    checkBytes(*from, collective.kind() == Collective::REDUCE_SCATTER ? whole : part);
    checkBytes(*to, collective.kind() == Collective::ALL_GATHER ? whole : part);
  }

  void checkTransfer(const schema::Function &function, const schema::Step::Transfer &transfer,
                     const std::string &where) {
    const schema::Buffer *buffer = checkExchanged(function, transfer.buffer(), where);
    if (!schema::Step::Transfer::Direction_IsValid(transfer.direction()))
      problems.add(where, ": unknown direction ", static_cast<int>(transfer.direction()));
    if (transfer.peer_stage() >= kMaxRanks)
      problems.add(where, ": stage ", transfer.peer_stage(), ", at most ", kMaxRanks,
                   " are possible");
    if (transfer.tag() >= Program::kMaxTag)
      problems.add(where, ": tag ", transfer.tag(), " is not less than ", Program::kMaxTag);
    std::optional<int64_t> bytes = maximum(
        transfer.bytes(), [&](absl::string_view name) { return findSymbol(name); },
        absl::StrCat(where, " bytes"));
    if (buffer && bytes && static_cast<uint64_t>(*bytes) > buffer->bytes())
      problems.add(where, ": needs ", *bytes, " bytes of buffer '", buffer->name(),
                   "' at the symbols' maxima, it has ", buffer->bytes());
  }

  void checkCall(const schema::Function &function, const schema::Step::Call &call,
                 const std::string &where) {
    if (call.function() >= static_cast<uint32_t>(program.functions_size())) {
      problems.add(where, ": function ", call.function(), " of ", program.functions_size());
      return;
    }
    const schema::Function &callee = program.functions(call.function());
    std::string at = absl::StrCat(where, " (call of '", callee.name(), "')");
    for (const std::string &index : callee.indices())
      if (!call.bindings().contains(index))
        problems.add(at, ": index '", index, "' is not bound");
    for (const auto &binding : call.bindings())
      if (std::find(callee.indices().begin(), callee.indices().end(), binding.first) ==
          callee.indices().end())
        problems.add(at, ": binds '", binding.first, "', which is no index of the function");
    if (call.arena_offset() % kAlignment)
      problems.add(at, ": arena offset ", call.arena_offset(), " is not a multiple of ",
                   kAlignment);
    if (!fits(call.arena_offset(), callee.arena_bytes(), function.arena_bytes()))
      problems.add(at, ": arena bytes ", call.arena_offset(), " + ", callee.arena_bytes(),
                   " leave the caller's arena of ", function.arena_bytes());
    if (static_cast<uint32_t>(call.arguments_size()) != callee.num_arguments()) {
      problems.add(at, ": ", call.arguments_size(), " arguments, the function has ",
                   callee.num_arguments());
      return;
    }
    for (uint32_t index : call.arguments())
      if (!checkBufferIndex(function, index, at))
        return;
    for (const schema::Buffer &buffer : callee.buffers()) {
      if (buffer.storage_case() != schema::Buffer::kArgument ||
          buffer.argument() >= callee.num_arguments())
        continue;
      const schema::Buffer &bound = function.buffers(call.arguments(buffer.argument()));
      if (bound.element() != buffer.element())
        problems.add(at, ": argument ", buffer.argument(), " '", buffer.name(), "' is of type ",
                     schema::ElementType_Name(buffer.element()), ", '", bound.name(),
                     "' was given, of type ", schema::ElementType_Name(bound.element()));
      if (bound.bytes() && buffer.bytes() > bound.bytes())
        problems.add(at, ": argument ", buffer.argument(), " '", buffer.name(), "' has ",
                     buffer.bytes(), " bytes, '", bound.name(), "' was given, of ", bound.bytes());
    }
  }

  /// Depth-first over the call graph, with the path on an explicit stack.
  void checkRecursion() {
    enum : uint8_t { kNew, kOpen, kDone };
    size_t count = program.functions_size();
    std::vector<uint8_t> mark(count, kNew);
    std::vector<int> height(count, 1); // functions on the longest chain of calls from here
    for (size_t root = 0; root < count; ++root) {
      if (mark[root] != kNew)
        continue;
      std::vector<std::pair<size_t, int>> path = {{root, 0}}; // function, next step
      mark[root] = kOpen;
      while (!path.empty()) {
        auto &[at, next] = path.back();
        const schema::Function &function = program.functions(at);
        if (next == function.steps_size()) {
          mark[at] = kDone;
          int reached = height[at];
          path.pop_back();
          if (!path.empty())
            height[path.back().first] = std::max(height[path.back().first], reached + 1);
          continue;
        }
        const schema::Step &step = function.steps(next++);
        if (step.kind_case() != schema::Step::kCall || step.call().function() >= count)
          continue;
        size_t callee = step.call().function();
        if (mark[callee] == kOpen) {
          problems.add("function '", program.functions(callee).name(),
                       "' calls itself, by way of '", function.name(), "'");
          return;
        }
        if (mark[callee] == kDone) {
          height[at] = std::max(height[at], height[callee] + 1);
          continue;
        }
        mark[callee] = kOpen;
        path.push_back({callee, 0});
      }
      if (height[root] > Program::kMaxCallDepth)
        problems.add("function '", program.functions(root).name(), "': calls nested ", height[root],
                     " deep, at most ", Program::kMaxCallDepth, " are possible");
    }
  }

  void checkEntry(const schema::EntryPoint &entry) {
    std::string where = absl::StrCat("entry point '", entry.name(), "'");
    if (entry.kind() != "language_model" && entry.kind() != "graph")
      problems.add(where, ": kind '", entry.kind(), "', known are language_model and graph");
    if (entry.function() >= static_cast<uint32_t>(program.functions_size())) {
      problems.add(where, ": function ", entry.function(), " of ", program.functions_size());
      return;
    }
    const schema::Function &function = program.functions(entry.function());
    if (!function.indices().empty())
      problems.add(where, ": function '", function.name(), "' has indices, which nothing binds");
    if (function.arena_bytes() > program.arena_bytes())
      problems.add(where, ": function '", function.name(), "' needs ", function.arena_bytes(),
                   " bytes of arena, the program has ", program.arena_bytes());
    std::vector<bool> bound(std::min<uint32_t>(function.num_arguments(), function.buffers_size()));
    auto checkPort = [&](const schema::EntryPoint::Port &port) {
      std::string at = absl::StrCat(where, " port '", port.name(), "'");
      if (!checkBufferIndex(function, port.buffer(), at))
        return;
      const schema::Buffer &buffer = function.buffers(port.buffer());
      if (buffer.bytes() == 0)
        problems.add(at, ": buffer '", buffer.name(), "' has no bytes");
      if (buffer.storage_case() == schema::Buffer::kArgument) {
        if (buffer.argument() < bound.size())
          bound[buffer.argument()] = true;
      } else if (buffer.storage_case() != schema::Buffer::kArenaOffset) {
        problems.add(at, ": buffer '", buffer.name(), "' is neither an argument nor in the arena");
      }
    };
    for (const schema::EntryPoint::Port &port : entry.inputs())
      checkPort(port);
    for (const schema::EntryPoint::Port &port : entry.outputs())
      checkPort(port);
    if (function.num_arguments() > bound.size() ||
        std::find(bound.begin(), bound.end(), false) != bound.end())
      problems.add(where, ": an argument of function '", function.name(),
                   "' is neither an input nor an output");
    absl::flat_hash_set<std::string> names;
    for (const auto *ports : {&entry.inputs(), &entry.outputs()})
      for (const schema::EntryPoint::Port &port : *ports)
        if (!names.insert(port.name()).second)
          problems.add(where, ": two ports named '", port.name(), "'");
  }

  const schema::Program &program;
  absl::flat_hash_map<std::string, uint32_t> symbolIndex;
  std::vector<int64_t> maxima;
  bool hasCpuKernels = false, hasGpuKernels = false;
  Problems problems;
};

} // namespace

absl::Status rt::validate(const schema::Program &program) { return Validator(program).run(); }
