// The device that a bundle is to run on, by name.
#pragma once
#include "adapt/Device.h"

#include <memory>
#include <string>

namespace adapt::rt {

struct Manifest;

struct OpenDeviceOptions {
  /// cpu, cuda, hip, or sim (sim-cuda or sim-hip, as the bundle's target); empty: the bundle's
  /// target.
  std::string device;
  /// Of sim: forward, reverse, permuted, or permuted:SEED; empty: forward.
  std::string laneOrder;
  int threads = 0;        ///< of the host, on cpu and sim; 0: one for each core
  bool pin = true;        ///< on cpu, as in CpuDeviceOptions
  bool pinCaller = false; ///< the same
  CpuShare share;         ///< of several ranks on this machine
  int index = 0;          ///< on cuda and hip: which of the machine's devices
};

/// Errors: names that are none, a lane order for a device without one, and what the device says.
absl::StatusOr<std::unique_ptr<Device>> openDevice(const Manifest &manifest,
                                                   const OpenDeviceOptions &options);

} // namespace adapt::rt
