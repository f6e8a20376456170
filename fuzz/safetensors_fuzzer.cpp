// Fuzzes the header of safetensors files: whatever the bytes, the file is refused with a message or
// every tensor lies within it. Built by the presets sanitize and runtime-sanitize:
//   fuzz/make_corpus.py corpus && build/runtime-sanitize/bin/safetensors_fuzzer \
//       -dict=fuzz/safetensors.dict -max_total_time=60 corpus
#include "weights/Safetensors.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace adapt::weights;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// Mutates as usual, and then mostly sets the header's length so that the JSON is reached: to all
/// of the rest, or to the first closing brace that may be the header's end.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  size = LLVMFuzzerMutate(data, size, maxSize);
  if (size < 8 || seed % 8 == 0)
    return size;
  uint64_t length = size - 8;
  if (seed % 8 > 2)
    for (size_t i = size; i-- > 8;)
      if (data[i] == '}') {
        length = i + 1 - 8;
        break;
      }
  for (int i = 0; i < 8; ++i)
    data[i] = uint8_t(length >> (8 * i));
  return size;
}

static void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const int fd = memfd_create("fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  require(fd >= 0 && ftruncate(fd, 0) == 0, "memfd");
  require(pwrite(fd, data, size, 0) == ssize_t(size), "pwrite");

  auto file = SafetensorsFile::open(path);
  if (!file.ok()) {
    require(!file.status().message().empty(), "an error has a message");
    return 0;
  }
  uint64_t total = 0;
  unsigned sum = 0;
  for (size_t i = 0; i < (*file)->size(); ++i) {
    TensorEntry entry = (*file)->tensor(i);
    require((*file)->find(entry.name) == i, "a tensor is found by its name");
    std::optional<uint64_t> count = countElements(entry.shape);
    require(count && *count * entry.type->bits == entry.bytes * 8, "bytes agree with the shape");
    auto bytes = (*file)->data(i);
    require(bytes.ok() && bytes->size() == entry.bytes, "data can be had");
    for (std::byte byte : *bytes)
      sum += unsigned(byte);
    total += entry.bytes;
  }
  require(total <= size, "tensors do not overlap");
  volatile unsigned sink = sum;
  (void)sink;
  return 0;
}
