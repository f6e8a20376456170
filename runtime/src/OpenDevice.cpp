#include "adapt/OpenDevice.h"
#include "adapt/Bundle.h"

#include "absl/strings/numbers.h"

using namespace adapt;
using namespace adapt::rt;

namespace {

absl::Status readLaneOrder(absl::string_view text, SimDeviceOptions &sim) {
  absl::string_view name = text.substr(0, text.find(':'));
  bool hasSeed = name.size() != text.size();
  if (name == "reverse" && !hasSeed)
    sim.order = LaneOrder::kReverse;
  else if (name == "permuted" &&
           (!hasSeed || absl::SimpleAtoi(text.substr(name.size() + 1), &sim.seed)))
    sim.order = LaneOrder::kPermuted;
  else if (!text.empty() && text != "forward")
    return absl::InvalidArgumentError(absl::StrCat(
        "lane order '", text, "': possible are forward, reverse, permuted and permuted:SEED"));
  return absl::OkStatus();
}

} // namespace

absl::StatusOr<std::unique_ptr<Device>> rt::openDevice(const Manifest &manifest,
                                                       const OpenDeviceOptions &options) {
  const std::string &target = manifest.targetName;
  const std::string &name = options.device.empty() ? target : options.device;
  if (!options.laneOrder.empty() && name != "sim")
    return absl::InvalidArgumentError(
        absl::StrCat("device '", name, "' has no lane order, only sim has one"));
  if (name == "cpu") {
    CpuDeviceOptions cpu;
    cpu.threads = options.threads;
    cpu.pin = options.pin;
    cpu.pinCaller = options.pinCaller;
    cpu.share = options.share;
    return createCpuDevice(cpu);
  }
  if (name == "cuda" || name == "hip") {
    GpuDeviceOptions gpu;
    gpu.hip = name == "hip";
    gpu.index = options.index;
    absl::StatusOr<std::unique_ptr<Device>> device = createGpuDevice(gpu);
    if (device.ok() || device.status().code() != absl::StatusCode::kNotFound)
      return device;
    return absl::NotFoundError(absl::StrCat(device.status().message(),
                                            ": --device=sim runs bundles that were compiled with "
                                            "--sim without one"));
  }
  if (name == "sim") {
    if (target != "cuda" && target != "hip")
      return absl::FailedPreconditionError(
          absl::StrCat("the bundle was compiled for target '", target,
                       "', which is not simulated: compile with --target=cuda or --target=hip and "
                       "--sim, or use --device=",
                       target));
    SimDeviceOptions sim;
    sim.hip = target == "hip";
    sim.threads = options.threads;
    sim.share = options.share;
    ADAPT_RETURN_IF_ERROR(readLaneOrder(options.laneOrder, sim));
    return createSimDevice(sim);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no device '", name, "': this runtime has cpu, cuda, hip and sim"));
}
