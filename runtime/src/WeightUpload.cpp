#include "WeightUpload.h"

using namespace adapt;
using namespace adapt::rt;

namespace {
constexpr uint64_t kAlignment = 64;
} // namespace

absl::StatusOr<UploadedWeights>
rt::uploadWeights(Device &device, const std::vector<std::string> &names,
                  const std::function<absl::StatusOr<Region>(absl::string_view)> &param) {
  Problems problems;
  std::vector<Region> sources;
  uint64_t total = 0;
  for (const std::string &name : names) {
    absl::StatusOr<Region> region = param(name);
    if (!region.ok()) {
      problems.add(region.status().message());
      continue;
    }
    sources.push_back(*region);
    // Regions lie in memory: their sum does not overflow.
    total += (region->bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  ADAPT_RETURN_IF_ERROR(problems.status("weights are missing"));
  UploadedWeights result;
  ADAPT_ASSIGN_OR_RETURN(result.memory, device.allocate(total, "weights"));
  char *to = result.memory.data;
  for (size_t i = 0; i < names.size(); ++i) {
    ADAPT_RETURN_IF_ERROR(device.write(to, sources[i].data, sources[i].bytes));
    result.params[names[i]] = {to, sources[i].bytes};
    to += (sources[i].bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return result;
}
