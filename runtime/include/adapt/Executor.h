// Runs a plan: launches on a device, and between them what ranks do together.
#pragma once
#include "adapt/Communicator.h"
#include "adapt/Device.h"
#include "adapt/ExecutionPlan.h"

#include <string>
#include <vector>

namespace adapt::rt {

class Executor {
public:
  /// What this rank has sent for one step of a function, over all its calls and runs.
  struct Traffic {
    std::string where; ///< as ExchangeStep::where
    ExchangeStep::Kind kind = ExchangeStep::Kind::kAllReduce;
    uint64_t times = 0, bytes = 0;
  };

  /// `ranks` is null where there is but one; it then must outlive the executor, as the device.
  Executor(Device &device, Communicator *ranks) : device(device), ranks(ranks) {}

  /// Errors: exchanges along axes that the mesh has not, with stages that it has not, or on one
  /// rank.
  absl::Status check(const ExecutionPlan &plan) const;

  /// Runs a prepared plan that was checked. Memory that the host cannot reach is copied through the
  /// host's for each exchange.
  absl::Status run(const ExecutionPlan &plan, const LaunchList &list);

  /// One entry for each of the plan's exchange steps that has run.
  absl::Span<const Traffic> traffic() const { return sent; }

private:
  absl::StatusOr<uint64_t> exchange(const ExchangeStep &step, const Exchange &at);

  Device &device;
  Communicator *ranks;
  std::vector<Traffic> sent;
  std::vector<char> hostFrom, hostTo;
};

const char *toString(ExchangeStep::Kind kind); ///< "all_reduce"

} // namespace adapt::rt
