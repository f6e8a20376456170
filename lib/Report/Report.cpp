#include "adapt/Report/Report.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/resource.h>

using namespace llvm;
using namespace adapt;

std::string adapt::formatBytes(uint64_t bytes) {
  static constexpr const char *kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = bytes;
  unsigned unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit)
    value /= 1000;
  return unit == 0 ? formatv("{0} B", bytes).str()
                   : formatv("{0:f1} {1}", value, kUnits[unit]).str();
}

uint64_t adapt::getPeakResidentBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024; // Linux counts KiB.
}

int64_t Report::getNumParameters() const {
  int64_t sum = 0;
  for (const auto &[part, count] : parameters)
    sum += count;
  return sum;
}

int64_t Report::getWeightBytes() const {
  int64_t sum = 0;
  for (const Rank &rank : ranks)
    sum += rank.weightBytes;
  return sum;
}

int64_t Report::getWireBytes(size_t step) const {
  int64_t sum = 0;
  for (const Communication &c : communication)
    sum += c.count * c.groups * c.bytes[step].second;
  return sum;
}

namespace {
json::Object toJson(const Report::Rank &rank) {
  json::Object object{{"pp_rank", rank.ppRank},
                      {"tp_rank", rank.tpRank},
                      {"resident_bytes", rank.weightBytes},
                      {"dynamic_arena_bytes", rank.arenaBytes},
                      {"state_bytes_per_token", rank.stateBytesPerToken}};
  if (rank.layers)
    object["layers"] = json::Array{rank.layers->first, rank.layers->second};
  return object;
}

json::Object toJson(const Report::Communication &c, ArrayRef<Report::StepCost> steps) {
  json::Array stepArray;
  for (const auto &[step, bytes] : zip_equal(steps, c.bytes))
    stepArray.push_back(json::Object{
        {"step", step.step}, {"payload_bytes", bytes.first}, {"wire_bytes", bytes.second}});
  json::Object object{{"kind", c.kind},     {"axis", c.axis},
                      {"stage", c.stage},   {"function", c.function},
                      {"buffer", c.what},   {"count", c.count},
                      {"groups", c.groups}, {"payload", c.payload},
                      {"wire", c.wire},     {"steps", std::move(stepArray)}};
  if (c.peer >= 0)
    object["peer"] = c.peer;
  return object;
}
} // namespace

json::Object Report::toJson() const {
  json::Object sizesObject, parametersObject, limitsObject;
  for (const auto &[key, value] : sizes)
    sizesObject[key] = value;
  for (const auto &[key, value] : parameters)
    parametersObject[key] = value;
  for (const auto &[key, value] : limits)
    limitsObject[key] = value;
  json::Array mappingArray, kernelArray, phaseArray;
  for (const Mapping &m : mapping)
    mappingArray.push_back(json::Object{{"operation", m.operation},
                                        {"implementation", m.implementation},
                                        {"in_module", m.inModule},
                                        {"in_step", m.inStep}});
  json::Array coverageArray;
  for (const Coverage &c : coverage)
    coverageArray.push_back(json::Object{{"operation", c.operation},
                                         {"library", c.library},
                                         {"generated", c.generated},
                                         {"composite", c.composite},
                                         {"missing", c.missing},
                                         {"reasons", json::Array(c.reasons)}});
  json::Array costArray;
  for (const StepCost &c : costs)
    costArray.push_back(json::Object{{"step", c.step},
                                     {"flops", c.flops},
                                     {"bytes_read", c.bytesRead},
                                     {"bytes_written", c.bytesWritten}});
  for (const Kernel &k : kernels)
    kernelArray.push_back(json::Object{
        {"name", k.name}, {"variants", json::Array(k.variants)}, {"launches", k.launches}});
  json::Array rankArray, communicationArray, wireArray;
  for (const Rank &rank : ranks)
    rankArray.push_back(::toJson(rank));
  for (const Communication &c : communication)
    communicationArray.push_back(::toJson(c, costs));
  for (size_t step = 0; step < costs.size(); ++step)
    wireArray.push_back(
        json::Object{{"step", costs[step].step}, {"wire_bytes", getWireBytes(step)}});
  for (const Phase &p : phases)
    phaseArray.push_back(json::Object{{"name", p.name},
                                      {"seconds", p.seconds},
                                      {"peak_bytes", static_cast<int64_t>(p.peakBytes)}});
  return json::Object{{"name", name},
                      {"family", family},
                      {"target", target},
                      {"dtype", dtype},
                      {"sizes", std::move(sizesObject)},
                      {"parameters", std::move(parametersObject)},
                      {"parameters_total", getNumParameters()},
                      {"coverage", std::move(coverageArray)},
                      {"mapping", std::move(mappingArray)},
                      {"costs", std::move(costArray)},
                      {"kernels", std::move(kernelArray)},
                      {"memory", json::Object{{"resident_bytes", weightBytes},
                                              {"dynamic_arena_bytes", arenaBytes},
                                              {"state_bytes_per_token", stateBytesPerToken},
                                              {"state_bytes_per_sequence", stateBytesPerSequence}}},
                      {"ranks", std::move(rankArray)},
                      {"communication", std::move(communicationArray)},
                      {"communication_total", std::move(wireArray)},
                      {"limits", std::move(limitsObject)},
                      {"phases", std::move(phaseArray)},
                      {"notes", json::Array(notes)}};
}

namespace {
void heading(raw_ostream &os, StringRef text, StringRef columns) {
  os << "\n## " << text << "\n\n| " << columns << " |\n|";
  for (size_t i = 0; i <= columns.count('|'); ++i)
    os << " --- |";
  os << '\n';
}
} // namespace

std::string Report::toMarkdown() const {
  std::string text;
  raw_string_ostream os(text);
  os << "# " << name << " on " << target << "\n\nFamily " << family << ", computed in " << dtype
     << ".\n";
  heading(os, "Structure", "size | value");
  for (const auto &[key, value] : sizes)
    os << "| " << key << " | " << value << " |\n";
  heading(os, "Parameters", "part | number");
  for (const auto &[key, value] : parameters)
    os << "| " << key << " | " << value << " |\n";
  os << "| in all | " << getNumParameters() << " |\n";
  heading(os, "Operations", "operation | runs as | in the module | in a step");
  for (const Mapping &m : mapping)
    os << "| " << m.operation << " | " << m.implementation << " | " << m.inModule << " | "
       << m.inStep << " |\n";
  heading(os, "Cost of a step", "step | operations | bytes read | bytes written");
  for (const StepCost &c : costs)
    os << "| " << c.step << " | " << c.flops << " | " << formatBytes(c.bytesRead) << " | "
       << formatBytes(c.bytesWritten) << " |\n";
  os << "\nBefore fusion, and without the traffic of state.\n";
  if (!kernels.empty()) {
    heading(os, "Kernels", "kernel | launches in a step | variants");
    for (const Kernel &k : kernels) {
      os << "| " << k.name << " | " << k.launches << " | ";
      interleave(k.variants, os, "; ");
      os << " |\n";
    }
  }
  heading(os, "Memory", "region | bytes");
  os << "| resident (weights) | " << formatBytes(weightBytes) << " |\n";
  os << "| dynamic: activations | " << formatBytes(arenaBytes) << " |\n";
  os << "| dynamic: state of a token | " << formatBytes(stateBytesPerToken) << " |\n";
  os << "| dynamic: state of a full sequence | " << formatBytes(stateBytesPerSequence) << " |\n";
  if (ranks.size() > 1) {
    heading(os, "Ranks", "rank | stage | layers | weights | activations | state of a token");
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Rank &rank = ranks[i];
      os << "| " << i << " | " << rank.ppRank << " | ";
      if (rank.layers)
        os << rank.layers->first << " to " << rank.layers->second;
      os << " | " << formatBytes(rank.weightBytes) << " | " << formatBytes(rank.arenaBytes) << " | "
         << formatBytes(rank.stateBytesPerToken) << " |\n";
    }
  }
  if (!communication.empty()) {
    heading(os, "Communication",
            "what | stage | where | times a step | bytes, once | on the wire, once");
    for (const Communication &c : communication)
      os << "| " << c.kind << " over " << c.axis << " of " << c.what << " | " << c.stage << " | "
         << c.function << " | " << c.count << " | " << c.payload << " | " << c.wire << " |\n";
    os << '\n';
    for (size_t step = 0; step < costs.size(); ++step)
      os << "A step of " << costs[step].step << ": " << formatBytes(getWireBytes(step))
         << " on the wire.\n";
  }
  heading(os, "Limits", "limit | value");
  for (const auto &[key, value] : limits)
    os << "| " << key << " | " << value << " |\n";
  if (!phases.empty()) {
    heading(os, "Phases", "phase | seconds | peak memory");
    for (const Phase &p : phases)
      os << "| " << p.name << formatv(" | {0:f3} | ", p.seconds) << formatBytes(p.peakBytes)
         << " |\n";
  }
  os << "\n## Notes\n\n";
  if (notes.empty())
    os << "Nothing is padded, replicated, dropped or approximated.\n";
  for (const std::string &note : notes)
    os << "- " << note << '\n';
  return text;
}
