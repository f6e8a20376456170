#include "adapt/Executor.h"

using namespace adapt;
using namespace adapt::rt;
using Kind = ExchangeStep::Kind;

const char *rt::toString(Kind kind) {
  switch (kind) {
  case Kind::kAllReduce:
    return "all_reduce";
  case Kind::kAllGather:
    return "all_gather";
  case Kind::kReduceScatter:
    return "reduce_scatter";
  case Kind::kSend:
    return "send";
  case Kind::kReceive:
    return "receive";
  }
  return "unknown";
}

absl::Status Executor::check(const ExecutionPlan &plan) const {
  Problems problems;
  for (const ExchangeStep &step : plan.exchangeSteps()) {
    if (!ranks) {
      problems.add(step.where, ": exchanges with other ranks, but there are none");
    } else if (step.kind == Kind::kSend || step.kind == Kind::kReceive) {
      uint32_t stages = static_cast<uint32_t>(ranks->mesh().pp);
      if (step.peerStage >= stages || step.peerStage == static_cast<uint32_t>(ranks->ppRank()))
        problems.add(step.where, ": a transfer between stage ", ranks->ppRank(), " and stage ",
                     step.peerStage, " of ", stages);
    } else if (absl::StatusOr<Group> group = ranks->group(step.axis); !group.ok()) {
      problems.add(step.where, ": ", group.status().message());
    } else if (group->ranks.size() != step.ranks) {
      problems.add(step.where, ": was made for ", step.ranks, " ranks along '", step.axis,
                   "', there are ", group->ranks.size());
    }
  }
  return problems.status("the program does not fit the ranks");
}

absl::StatusOr<uint64_t> Executor::exchange(const ExchangeStep &step, const Exchange &at) {
  bool isTransfer = step.kind == Kind::kSend || step.kind == Kind::kReceive;
  Group group;
  if (!isTransfer) {
    ADAPT_ASSIGN_OR_RETURN(group, ranks->group(step.axis));
  }
  uint64_t width = isTransfer ? 1 : elementBytes(step.element);
  uint64_t innerBytes = step.inner * width, part = step.outer * innerBytes;
  uint64_t whole = part * std::max<size_t>(1, group.ranks.size());
  uint64_t fromBytes = step.kind == Kind::kReduceScatter ? whole : part;
  uint64_t toBytes = step.kind == Kind::kAllGather ? whole : part;

  const char *from = at.from;
  char *to = at.to;
  bool isStaged = !device.hostAccessible();
  if (isStaged && at.from) {
    hostFrom.resize(fromBytes);
    ADAPT_RETURN_IF_ERROR(device.read(hostFrom.data(), at.from, fromBytes));
    from = hostFrom.data();
  }
  if (isStaged && at.to) {
    hostTo.resize(toBytes);
    to = hostTo.data();
  }
  uint64_t bytes = 0;
  int peer = ranks->mesh().rank(static_cast<int>(step.peerStage), ranks->tpRank());
  switch (step.kind) {
  case Kind::kAllReduce: {
    ADAPT_ASSIGN_OR_RETURN(
        bytes, ranks->allReduce(group, step.element, from, to, step.outer * step.inner));
    break;
  }
  case Kind::kAllGather: {
    ADAPT_ASSIGN_OR_RETURN(bytes, ranks->allGather(group, from, to, step.outer, innerBytes));
    break;
  }
  case Kind::kReduceScatter: {
    ADAPT_ASSIGN_OR_RETURN(
        bytes, ranks->reduceScatter(group, step.element, from, to, step.outer, step.inner));
    break;
  }
  case Kind::kSend:
    ADAPT_RETURN_IF_ERROR(ranks->send(peer, step.tag, {from, part}));
    bytes = part;
    break;
  case Kind::kReceive:
    ADAPT_RETURN_IF_ERROR(ranks->receive(peer, step.tag, absl::MakeSpan(to, part)));
    break;
  }
  if (isStaged && at.to)
    ADAPT_RETURN_IF_ERROR(device.write(at.to, hostTo.data(), toBytes));
  return bytes;
}

absl::Status Executor::run(const ExecutionPlan &plan, const LaunchList &list) {
  absl::Span<const ExchangeStep> steps = plan.exchangeSteps();
  if (sent.empty())
    for (const ExchangeStep &step : steps)
      sent.push_back({step.where, step.kind, 0, 0});
  size_t done = 0;
  auto launchTo = [&](size_t end) -> absl::Status {
    if (end == done)
      return absl::OkStatus();
    LaunchList segment = list;
    segment.launches = list.launches.subspan(done, end - done);
    done = end;
    return device.run(segment);
  };
  for (const Exchange &at : plan.exchanges()) {
    ADAPT_RETURN_IF_ERROR(launchTo(at.numLaunches));
    absl::StatusOr<uint64_t> bytes = exchange(steps[at.step], at);
    if (!bytes.ok())
      return bytes.status();
    ++sent[at.step].times;
    sent[at.step].bytes += *bytes;
  }
  return launchTo(list.launches.size());
}
