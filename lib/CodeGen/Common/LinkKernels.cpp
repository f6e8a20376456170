#include "LinkKernels.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace adapt::codegen {
namespace {
// An anonymous file of these bytes; -1 and errno on failure.
int createMemoryFile(StringRef bytes) {
  int fd = memfd_create("kernel.o", MFD_CLOEXEC);
  if (fd < 0)
    return -1;
  while (!bytes.empty()) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      close(fd);
      return -1;
    }
    bytes = bytes.drop_front(written);
  }
  return fd;
}
} // namespace

Expected<std::string> linkShared(ArrayRef<std::string> objects) {
  SmallVector<int> files;
  scope_exit closeAll([&] {
    for (int fd : files)
      close(fd);
  });
  // Kernels may call memcpy, memmove and memset; the process that loads them has these.
  std::vector<std::string> args = {
      "ld.lld",      "-shared", "--threads=1", "--build-id=none", "-z",
      "noexecstack", "-z",      "now",         "--strip-debug",   "--hash-style=gnu"};
  for (const std::string &object : objects) {
    int fd = createMemoryFile(object);
    if (fd < 0)
      return createStringError(std::error_code(errno, std::generic_category()),
                               "cannot hold a compiled kernel in memory");
    files.push_back(fd);
    args.push_back("/proc/self/fd/" + std::to_string(fd));
  }
  SmallString<128> path;
  if (std::error_code error = sys::fs::createTemporaryFile("adapt-kernels", "so", path))
    return createStringError(error, "cannot create a temporary file to link kernels into");
  FileRemover remover(path);
  args.push_back("-o");
  args.push_back(std::string(path));

  std::vector<const char *> argv;
  for (const std::string &arg : args)
    argv.push_back(arg.c_str());
  std::string messages;
  raw_string_ostream os(messages);
  lld::Result result = lld::lldMain(argv, os, os, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return createStringError("linking the kernels failed: " + messages);
  auto file = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return createStringError(file.getError(), "cannot read the linked kernels");
  return (*file)->getBuffer().str();
}

} // namespace adapt::codegen
