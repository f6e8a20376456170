// Expands calls and resolves buffers: from a Program to an ExecutionPlan, or to the list of
// parameters that one needs.
#include "adapt/ExecutionPlan.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

#include <algorithm>
#include <functional>
#include <limits>

using namespace adapt;
using namespace adapt::rt;

namespace {

constexpr uint64_t kAlignment = 64;

bool aligned(const Region &region) {
  return reinterpret_cast<uintptr_t>(region.data) % kAlignment == 0;
}

std::optional<int64_t> findBinding(const schema::Step::Call *call, absl::string_view index) {
  if (!call)
    return std::nullopt;
  for (const auto &[name, value] : call->bindings())
    if (name == index)
      return value;
  return std::nullopt;
}

} // namespace

namespace adapt::rt {

class PlanBuilder {
public:
  PlanBuilder(const Program &program, const MemoryMap &memory)
      : program(program.get()), memory(memory) {}

  absl::StatusOr<ExecutionPlan> build(const schema::EntryPoint &entry);

private:
  /// A function being expanded: its place in the arena and what its arguments and indices are.
  struct Frame {
    const schema::Function &function;
    uint32_t index;
    Region arena;
    absl::Span<const Region> arguments;
    const schema::Step::Call *call; // null for the entry
  };

  absl::Status checkMemory(const schema::Function &function);
  absl::Status addKernels();
  absl::Status expand(const Frame &frame);
  absl::Status expandCall(const Frame &frame, const std::vector<Region> &regions,
                          const schema::Step::Call &call);
  std::vector<Region> resolve(const Frame &frame);
  Region resolveParam(const Frame &frame, const schema::Buffer &buffer);
  absl::StatusOr<uint32_t> shapeOf(const Frame &frame, int step);
  absl::StatusOr<uint32_t> exchangeOf(const Frame &frame, int step);
  absl::Status addExchange(const Frame &frame, int step, const std::vector<Region> &regions);
  absl::StatusOr<SizeExpr> compile(const schema::Expr &expr);
  bool isActivation(const Region &region) const;
  absl::Status count(size_t n) {
    steps += n;
    if (steps > Program::kMaxFlatSteps)
      return absl::InvalidArgumentError(
          absl::StrCat("the program expands to more than ", Program::kMaxFlatSteps, " steps"));
    return absl::OkStatus();
  }

  const schema::Program &program;
  const MemoryMap &memory;
  ExecutionPlan plan;
  absl::flat_hash_map<std::pair<uint32_t, int>, uint32_t> shapeIndex;    // (function, step)
  absl::flat_hash_map<std::pair<uint32_t, int>, uint32_t> exchangeIndex; // the same
  absl::flat_hash_map<std::string, uint32_t> symbolIndex;
  absl::flat_hash_map<std::string, Region> paramRegions;
  Problems problems;
  uint64_t steps = 0;
};

absl::StatusOr<ExecutionPlan> PlanBuilder::build(const schema::EntryPoint &entry) {
  const schema::Function &function = program.functions(entry.function());
  ADAPT_RETURN_IF_ERROR(checkMemory(function));
  for (const schema::Symbol &symbol : program.symbols()) {
    symbolIndex.emplace(symbol.name(), plan.symbols.size());
    plan.symbols.push_back({symbol.name(), symbol.min(), symbol.max()});
  }
  ADAPT_RETURN_IF_ERROR(addKernels());
  Frame frame{function, entry.function(), memory.arena, memory.arguments, nullptr};
  ADAPT_RETURN_IF_ERROR(expand(frame));
  std::vector<Region> regions = resolve(frame);
  for (const auto *ports : {&entry.inputs(), &entry.outputs()})
    for (const schema::EntryPoint::Port &port : *ports)
      plan.ports.push_back({port.name(), regions[port.buffer()]});
  ADAPT_RETURN_IF_ERROR(problems.status("the program's buffers cannot be bound"));
  return std::move(plan);
}

absl::Status PlanBuilder::checkMemory(const schema::Function &function) {
  if (memory.arena.bytes < program.arena_bytes() || !aligned(memory.arena))
    return absl::InvalidArgumentError(absl::StrCat("arena of ", memory.arena.bytes,
                                                   " bytes, the program needs ",
                                                   program.arena_bytes(), ", 64-byte aligned"));
  if (memory.states.size() != static_cast<size_t>(program.states_size()))
    return absl::InvalidArgumentError(absl::StrCat(memory.states.size(), " states given, the ",
                                                   "program has ", program.states_size()));
  if (memory.arguments.size() != function.num_arguments())
    return absl::InvalidArgumentError(absl::StrCat(memory.arguments.size(),
                                                   " arguments given, function '", function.name(),
                                                   "' has ", function.num_arguments()));
  for (int s = 0; s < program.states_size(); ++s)
    if (memory.states[s].bytes < program.states(s).bytes_per_block() || !aligned(memory.states[s]))
      problems.add("state '", program.states(s).name(), "': ", memory.states[s].bytes,
                   " bytes, one block has ", program.states(s).bytes_per_block());
  for (const schema::Buffer &buffer : function.buffers()) {
    if (buffer.storage_case() != schema::Buffer::kArgument)
      continue;
    const Region &region = memory.arguments[buffer.argument()];
    if (region.bytes < buffer.bytes() || !aligned(region))
      problems.add("argument '", buffer.name(), "': ", region.bytes, " bytes, it has ",
                   buffer.bytes());
  }
  return problems.status("the memory given does not fit the program");
}

absl::Status PlanBuilder::addKernels() {
  absl::flat_hash_map<std::string, uint32_t> known;
  for (const schema::Kernel &kernel : program.kernels()) {
    ExecutionPlan::Kernel &result = plan.kernelTable.emplace_back();
    result.name = kernel.name();
    auto sizeIndex = [&](absl::string_view name) -> std::optional<uint32_t> {
      for (int i = 0; i < kernel.sizes_size(); ++i)
        if (kernel.sizes(i) == name)
          return i;
      return std::nullopt;
    };
    for (const schema::Kernel::Variant &variant : kernel.variants()) {
      auto [it, isNew] = known.try_emplace(variant.symbol(), plan.kernels.size());
      if (isNew)
        plan.kernels.push_back(variant.symbol());
      ExecutionPlan::Variant &out = result.variants.emplace_back();
      out.kernel = it->second;
      out.threads = variant.threads();
      for (const schema::Kernel::Guard &guard : variant.guards())
        out.guards.push_back({*sizeIndex(guard.size()), guard.min(), guard.max()});
      for (const schema::Expr &extent : variant.grid()) {
        ADAPT_ASSIGN_OR_RETURN(SizeExpr expr, SizeExpr::compile(extent, sizeIndex));
        out.grid.push_back(std::move(expr));
      }
      plan.scratch = std::max(plan.scratch, variant.scratch_bytes());
    }
  }
  return absl::OkStatus();
}

Region PlanBuilder::resolveParam(const Frame &frame, const schema::Buffer &buffer) {
  absl::StatusOr<std::string> name = fillTemplate(
      buffer.param(), [&](absl::string_view index) { return findBinding(frame.call, index); });
  if (!name.ok()) {
    problems.add("function '", frame.function.name(), "': ", name.status().message());
    return {};
  }
  auto [it, isNew] = paramRegions.try_emplace(*name);
  if (isNew) {
    absl::StatusOr<Region> region = memory.param(*name);
    if (!region.ok()) {
      problems.add(region.status().message());
    } else if (!aligned(*region) || (region->bytes && !region->data)) {
      problems.add("parameter '", *name, "' is not 64-byte aligned");
    } else {
      it->second = *region;
      plan.paramRegions.push_back(*region);
    }
  }
  // A missing parameter was reported when it was first asked for.
  if (it->second.data && it->second.bytes < buffer.bytes())
    problems.add("parameter '", *name, "' has ", it->second.bytes, " bytes, buffer '",
                 buffer.name(), "' needs ", buffer.bytes());
  return it->second;
}

std::vector<Region> PlanBuilder::resolve(const Frame &frame) {
  std::vector<Region> regions;
  regions.reserve(frame.function.buffers_size());
  for (const schema::Buffer &buffer : frame.function.buffers()) {
    switch (buffer.storage_case()) {
    case schema::Buffer::kArenaOffset:
      regions.push_back({frame.arena.data + buffer.arena_offset(), buffer.bytes()});
      break;
    case schema::Buffer::kArgument:
      regions.push_back(frame.arguments[buffer.argument()]);
      break;
    case schema::Buffer::kParam:
      regions.push_back(resolveParam(frame, buffer));
      break;
    case schema::Buffer::kState:
      regions.push_back(memory.states[buffer.state()]);
      break;
    case schema::Buffer::STORAGE_NOT_SET: // refused by validate()
      regions.push_back({});
      break;
    }
  }
  return regions;
}

absl::StatusOr<SizeExpr> PlanBuilder::compile(const schema::Expr &expr) {
  return SizeExpr::compile(expr, [&](absl::string_view name) -> std::optional<uint32_t> {
    auto found = symbolIndex.find(name);
    return found == symbolIndex.end() ? std::nullopt : std::optional<uint32_t>(found->second);
  });
}

absl::StatusOr<uint32_t> PlanBuilder::exchangeOf(const Frame &frame, int index) {
  auto [it, isNew] = exchangeIndex.try_emplace({frame.index, index}, plan.exchangeTable.size());
  if (!isNew)
    return it->second;
  constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  ExchangeStep step;
  ExecutionPlan::ExchangeSizes sizes{{}, {}, 1, 1, 1, kNoLimit, kNoLimit};
  step.where = absl::StrCat("function '", frame.function.name(), "' step ", index);
  if (const schema::Step &source = frame.function.steps(index); source.has_transfer()) {
    const schema::Step::Transfer &transfer = source.transfer();
    step.kind = transfer.direction() == schema::Step::Transfer::SEND ? ExchangeStep::Kind::kSend
                                                                     : ExchangeStep::Kind::kReceive;
    step.peerStage = transfer.peer_stage();
    step.tag = transfer.tag();
    schema::Expr one;
    one.set_constant(1);
    ADAPT_ASSIGN_OR_RETURN(sizes.outer, compile(one));
    ADAPT_ASSIGN_OR_RETURN(sizes.inner, compile(transfer.bytes()));
  } else {
    const schema::Step::Collective &collective = source.collective();
    step.axis = collective.axis();
    step.element = frame.function.buffers(collective.from()).element();
    sizes.element = elementBytes(step.element);
    ADAPT_ASSIGN_OR_RETURN(sizes.outer, compile(collective.outer()));
    ADAPT_ASSIGN_OR_RETURN(sizes.inner, compile(collective.inner()));
    uint64_t ranks = plan.symbols[symbolIndex.at(step.axis + "_rank")].max + 1;
    step.ranks = ranks;
    switch (collective.kind()) {
    case schema::Step::Collective::ALL_GATHER:
      step.kind = ExchangeStep::Kind::kAllGather;
      sizes.toParts = ranks;
      break;
    case schema::Step::Collective::REDUCE_SCATTER:
      step.kind = ExchangeStep::Kind::kReduceScatter;
      sizes.fromParts = ranks;
      break;
    default: // others were refused by validate()
      step.kind = ExchangeStep::Kind::kAllReduce;
      break;
    }
  }
  plan.exchangeTable.push_back(std::move(step));
  plan.exchangeSizes.push_back(std::move(sizes));
  return it->second;
}

/// Whether it lies in the arena or in an argument of the entry: neither a weight nor state.
bool PlanBuilder::isActivation(const Region &region) const {
  auto holds = [&](const Region &outer) {
    return region.data >= outer.data && region.bytes <= outer.bytes &&
           static_cast<uint64_t>(region.data - outer.data) <= outer.bytes - region.bytes;
  };
  return holds(memory.arena) ||
         std::any_of(memory.arguments.begin(), memory.arguments.end(), holds);
}

absl::Status PlanBuilder::addExchange(const Frame &frame, int index,
                                      const std::vector<Region> &regions) {
  ADAPT_ASSIGN_OR_RETURN(uint32_t number, exchangeOf(frame, index));
  const schema::Step &step = frame.function.steps(index);
  ExchangeStep::Kind kind = plan.exchangeTable[number].kind;
  ExecutionPlan::ExchangeSizes &sizes = plan.exchangeSizes[number];
  Region from, to;
  if (step.has_transfer()) {
    (kind == ExchangeStep::Kind::kSend ? from : to) = regions[step.transfer().buffer()];
  } else {
    from = regions[step.collective().from()];
    to = regions[step.collective().to()];
    bool inPlace = kind == ExchangeStep::Kind::kAllReduce && from.data == to.data;
    if (!inPlace && from.data < to.data + to.bytes && to.data < from.data + from.bytes)
      problems.add(plan.exchangeTable[number].where, ": its buffers overlap");
  }
  for (const Region &region : {from, to})
    if (region.data && !isActivation(region))
      problems.add(plan.exchangeTable[number].where, ": exchanges what is no activation");
  if (from.data)
    sizes.fromLimit = std::min(sizes.fromLimit, from.bytes);
  if (to.data)
    sizes.toLimit = std::min(sizes.toLimit, to.bytes);
  plan.exchangeList.push_back({number, plan.launches.size(), from.data, to.data});
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> PlanBuilder::shapeOf(const Frame &frame, int step) {
  auto [it, isNew] = shapeIndex.try_emplace({frame.index, step}, plan.shapes.size());
  if (!isNew)
    return it->second;
  ExecutionPlan::Shape shape;
  shape.where = absl::StrCat("function '", frame.function.name(), "' step ", step);
  auto add = [&](const schema::Expr &expr) -> absl::Status {
    ADAPT_ASSIGN_OR_RETURN(SizeExpr size, compile(expr));
    shape.sizes.push_back(std::move(size));
    return absl::OkStatus();
  };
  const schema::Step &source = frame.function.steps(step);
  if (source.has_launch()) {
    shape.kernel = static_cast<int32_t>(source.launch().kernel());
    shape.numBuffers = static_cast<uint32_t>(source.launch().buffers_size());
    for (const schema::Expr &size : source.launch().sizes())
      ADAPT_RETURN_IF_ERROR(add(size));
  } else {
    shape.copyLimit = std::numeric_limits<uint64_t>::max();
    ADAPT_RETURN_IF_ERROR(add(source.copy().bytes()));
  }
  shape.firstSize = static_cast<uint32_t>(plan.sizes.size());
  plan.sizes.resize(plan.sizes.size() + shape.sizes.size());
  plan.shapes.push_back(std::move(shape));
  return it->second;
}

absl::Status PlanBuilder::expandCall(const Frame &frame, const std::vector<Region> &regions,
                                     const schema::Step::Call &call) {
  const schema::Function &callee = program.functions(call.function());
  std::vector<Region> arguments;
  for (uint32_t index : call.arguments())
    arguments.push_back(regions[index]);
  for (const schema::Buffer &buffer : callee.buffers())
    if (buffer.storage_case() == schema::Buffer::kArgument) {
      const Region &bound = arguments[buffer.argument()];
      if (bound.data && bound.bytes < buffer.bytes())
        problems.add("function '", frame.function.name(), "': call of '", callee.name(), "' binds ",
                     bound.bytes, " bytes to '", buffer.name(), "', which has ", buffer.bytes());
    }
  return expand({callee,
                 call.function(),
                 {frame.arena.data + call.arena_offset(), callee.arena_bytes()},
                 arguments,
                 &call});
}

absl::Status PlanBuilder::expand(const Frame &frame) {
  std::vector<Region> regions = resolve(frame);
  ADAPT_RETURN_IF_ERROR(count(1 + frame.function.buffers_size()));
  for (int s = 0; s < frame.function.steps_size(); ++s) {
    const schema::Step &step = frame.function.steps(s);
    if (step.has_call()) {
      ADAPT_RETURN_IF_ERROR(expandCall(frame, regions, step.call()));
      continue;
    }
    ADAPT_RETURN_IF_ERROR(count(1));
    if (step.has_collective() || step.has_transfer()) {
      ADAPT_RETURN_IF_ERROR(addExchange(frame, s, regions));
      continue;
    }
    ADAPT_ASSIGN_OR_RETURN(uint32_t shape, shapeOf(frame, s));
    if (plan.buffers.size() > std::numeric_limits<uint32_t>::max())
      return absl::InvalidArgumentError("the program's launches have too many buffers");
    plan.launches.push_back({shape, static_cast<uint32_t>(plan.buffers.size())});
    if (step.has_launch()) {
      for (uint32_t index : step.launch().buffers())
        plan.buffers.push_back(regions[index].data);
      continue;
    }
    const Region &from = regions[step.copy().from()], &to = regions[step.copy().to()];
    plan.buffers.push_back(from.data);
    plan.buffers.push_back(to.data);
    uint64_t &limit = plan.shapes[shape].copyLimit;
    limit = std::min({limit, from.bytes, to.bytes});
    // Threads copy pieces at the same time: the ranges may not overlap, whatever their length.
    uint64_t apart = from.data < to.data ? to.data - from.data : from.data - to.data;
    limit = std::min(limit, apart);
  }
  return absl::OkStatus();
}

} // namespace adapt::rt

absl::StatusOr<ExecutionPlan> ExecutionPlan::build(const Program &program,
                                                   const schema::EntryPoint &entry,
                                                   const MemoryMap &memory) {
  return PlanBuilder(program, memory).build(entry);
}

absl::StatusOr<std::vector<std::string>> Program::params(const schema::EntryPoint &entry) const {
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> seen;
  uint64_t steps = 0;
  // Validation bounds the depth of the recursion, the count its length.
  std::function<absl::Status(const schema::Function &, const schema::Step::Call *)> visit =
      [&](const schema::Function &function, const schema::Step::Call *call) -> absl::Status {
    if ((steps += 1 + function.steps_size() + function.buffers_size()) > kMaxFlatSteps)
      return absl::InvalidArgumentError(
          absl::StrCat("the program expands to more than ", kMaxFlatSteps, " steps"));
    for (const schema::Buffer &buffer : function.buffers()) {
      if (buffer.storage_case() != schema::Buffer::kParam)
        continue;
      ADAPT_ASSIGN_OR_RETURN(std::string name,
                             fillTemplate(buffer.param(), [&](absl::string_view index) {
                               return findBinding(call, index);
                             }));
      if (seen.insert(name).second)
        names.push_back(std::move(name));
    }
    for (const schema::Step &step : function.steps())
      if (step.has_call())
        ADAPT_RETURN_IF_ERROR(visit(proto.functions(step.call().function()), &step.call()));
    return absl::OkStatus();
  };
  ADAPT_RETURN_IF_ERROR(visit(proto.functions(entry.function()), nullptr));
  return names;
}
