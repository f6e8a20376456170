// ptxas, where there is one.
#include "DeviceCode.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace llvm;

namespace adapt::gpu {

std::string findPtxas() {
  if (auto path = sys::findProgramByName("ptxas"))
    return *path;
  auto findIn = [](StringRef folder) -> std::string {
    SmallString<256> path(folder);
    sys::path::append(path, "bin", "ptxas");
    return sys::fs::can_execute(path) ? std::string(path) : "";
  };
  if (auto home = sys::Process::GetEnv("CUDA_HOME"))
    if (std::string path = findIn(*home); !path.empty())
      return path;
  auto environment = sys::Process::GetEnv("VIRTUAL_ENV");
  if (!environment)
    return "";
  // lib/python3.*/site-packages/nvidia/*/bin/ptxas
  auto list = [](StringRef folder) {
    SmallVector<std::string> paths;
    std::error_code error;
    for (sys::fs::directory_iterator it(folder, error), end; it != end && !error;
         it.increment(error))
      paths.push_back(it->path());
    llvm::sort(paths);
    return paths;
  };
  for (const std::string &python : list(*environment + "/lib"))
    for (const std::string &package : list(python + "/site-packages/nvidia"))
      if (std::string path = findIn(package); !path.empty())
        return path;
  return "";
}

namespace {
// ptxas -v: "Compiling entry function 'NAME' for 'sm_90'", then "N bytes stack frame, N bytes spill
// stores, N bytes spill loads", "Used N registers, …, N bytes smem".
std::vector<KernelResources> parseReport(StringRef text) {
  std::vector<KernelResources> result;
  Regex entry("Compiling entry function '([^']*)'"), stack("([0-9]+) bytes stack frame"),
      stores("([0-9]+) bytes spill stores"), loads("([0-9]+) bytes spill loads"),
      registers("Used ([0-9]+) registers"), shared("([0-9]+) bytes smem");
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    SmallVector<StringRef> groups;
    if (entry.match(line, &groups)) {
      result.emplace_back().symbol = groups[1].str();
      continue;
    }
    if (result.empty())
      continue;
    auto add = [&](Regex &pattern, unsigned &to) {
      unsigned value = 0;
      if (pattern.match(line, &groups) && !groups[1].getAsInteger(10, value))
        to += value;
    };
    add(stack, result.back().scratchBytes);
    add(stores, result.back().spills);
    add(loads, result.back().spills);
    add(registers, result.back().registers);
    add(shared, result.back().sharedBytes);
  }
  return result;
}
} // namespace

Expected<std::pair<std::string, std::vector<KernelResources>>>
assemblePtx(StringRef ptx, StringRef ptxas, const GpuTarget &target) {
  SmallString<128> source, output, messages;
  for (auto [suffix, path] :
       {std::pair("ptx", &source), std::pair("cubin", &output), std::pair("txt", &messages)})
    if (std::error_code error = sys::fs::createTemporaryFile("adapt-kernels", suffix, *path))
      return createStringError(error, "cannot create a temporary file for ptxas");
  FileRemover removeSource(source), removeOutput(output), removeMessages(messages);
  if (Error error = writeToOutput(source, [&](raw_ostream &os) {
        os << ptx;
        return Error::success();
      }))
    return error;
  std::string arch = "-arch=" + target.arch;
  StringRef args[] = {ptxas, "-v", arch, source, "-o", output};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(messages), StringRef(messages)};
  std::string problem;
  int status =
      sys::ExecuteAndWait(ptxas, args, std::nullopt, redirects, /*SecondsToWait=*/600, 0, &problem);
  auto text = MemoryBuffer::getFile(messages);
  StringRef said = text ? (*text)->getBuffer() : "";
  if (status != 0)
    return createStringError(
        ptxas + " refuses the kernels: " + (said.empty() ? StringRef(problem) : said.trim()));
  auto cubin = MemoryBuffer::getFile(output, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!cubin)
    return createStringError(cubin.getError(), "cannot read what ptxas wrote");
  return std::pair((*cubin)->getBuffer().str(), parseReport(said));
}

} // namespace adapt::gpu
