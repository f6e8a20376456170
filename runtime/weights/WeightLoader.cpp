#include "weights/WeightLoader.h"

#include "fmt/format.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <sys/mman.h>
#include <system_error>
#include <thread>

namespace adapt::weights {

namespace fs = std::filesystem;
using schema::WeightTable;

//===----------------------------------------------------------------------===//
// Arena
//===----------------------------------------------------------------------===//

absl::StatusOr<Arena> Arena::allocate(uint64_t bytes) {
  constexpr uint64_t kHugePage = uint64_t(2) << 20;
  Arena arena;
  if (bytes == 0)
    return arena;
  std::optional<uint64_t> padded = checkedAdd(bytes, 2 * kHugePage);
  if (!padded)
    return absl::ResourceExhaustedError(fmt::format("weights of {} bytes", bytes));
  uint64_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void *mapping = ::mmap(nullptr, rounded + kHugePage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return absl::ResourceExhaustedError(fmt::format("no memory for {} bytes of weights: {}", bytes,
                                                    std::generic_category().message(errno)));
  arena.mapping = mapping;
  arena.mappingBytes = rounded + kHugePage;
  uintptr_t address = reinterpret_cast<uintptr_t>(mapping);
  uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
  arena.base = static_cast<std::byte *>(mapping) + (aligned - address);
  arena.bytes = rounded;
  // Where the system has no huge pages this fails, and small pages serve.
  ::madvise(arena.base, rounded, MADV_HUGEPAGE);
  return arena;
}

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(mapping, other.mapping);
  std::swap(mappingBytes, other.mappingBytes);
  std::swap(base, other.base);
  std::swap(bytes, other.bytes);
  return *this;
}

Arena::~Arena() {
  if (mapping)
    ::munmap(mapping, mappingBytes);
}

void Arena::protect() {
  if (base)
    ::mprotect(base, bytes, PROT_READ);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

namespace {

/// Runs work(0) … work(count - 1) on some threads. The first error stops it.
absl::Status parallelFor(size_t count, unsigned threads,
                         const std::function<absl::Status(size_t)> &work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  absl::Status result;
  auto loop = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      absl::Status status = work(i);
      if (status.ok())
        continue;
      next = count;
      std::lock_guard<std::mutex> lock(mutex);
      result.Update(status);
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (size_t i = 1; i < std::min<size_t>(threads, count); ++i)
      helpers.emplace_back(loop);
  } catch (const std::system_error &) {
    // No more threads to be had; those that there are do the work.
  }
  loop();
  for (std::thread &helper : helpers)
    helper.join();
  return result;
}

/// Offsets of tensors one after the other in an arena; the last is the size of all.
absl::StatusOr<std::vector<uint64_t>> layOut(absl::Span<const uint64_t> sizes) {
  std::vector<uint64_t> offsets{0};
  for (uint64_t size : sizes) {
    std::optional<uint64_t> end = checkedAdd(offsets.back(), size);
    end = end ? checkedAdd(*end, kWeightAlignment - 1) : end;
    if (!end)
      return absl::InvalidArgumentError("weight table: the sum of all sizes overflows");
    offsets.push_back(*end / kWeightAlignment * kWeightAlignment);
  }
  return offsets;
}

/// Compares `stored` with the instances that there should be, and with the files' own headers.
void checkStored(const WeightTable &table, const std::vector<WeightInstance> &instances,
                 const std::vector<std::unique_ptr<SafetensorsFile>> &files, Problems &problems) {
  absl::flat_hash_map<std::string, const WeightInstance *> expected;
  for (const WeightInstance &instance : instances)
    expected[instance.name] = &instance;
  absl::flat_hash_set<std::string> seen;
  for (const WeightTable::Stored &stored : table.stored()) {
    std::string subject = "tensor " + quote(stored.name());
    auto found = expected.find(stored.name());
    if (found == expected.end()) {
      problems.add(subject + " is stored, but no param describes it");
      continue;
    }
    if (!seen.insert(stored.name()).second) {
      problems.add(subject + " is stored twice");
      continue;
    }
    if (stored.file() >= files.size()) {
      problems.add(fmt::format("{} is in file {} of {}", subject, stored.file(), files.size()));
      continue;
    }
    const WeightTable::Param &param = *found->second->param;
    const SafetensorsFile &file = *files[stored.file()];
    std::optional<size_t> index = file.find(stored.name());
    if (!index) {
      problems.add(fmt::format("{} is not in {}", subject, file.path()));
      continue;
    }
    // The header's sizes and offsets were checked against the file when it was opened.
    TensorEntry entry = file.tensor(*index);
    if (entry.type->element != param.type().element() ||
        entry.shape != absl::MakeConstSpan(physicalShape(param.type())))
      problems.add(fmt::format("{} should be {}, but is {} {} in {}", subject,
                               typeString(param.type()), entry.type->name, shapeString(entry.shape),
                               file.path()));
    else if (entry.offset != stored.offset() || entry.bytes != stored.bytes() ||
             entry.bytes != param.bytes())
      problems.add(fmt::format("{} should be {} bytes at {}, but is {} bytes at {} in {}", subject,
                               stored.bytes(), stored.offset(), entry.bytes, entry.offset,
                               file.path()));
    else if (stored.offset() % kWeightAlignment != 0)
      problems.add(fmt::format("{} at byte {} of {} is not aligned to {}", subject, stored.offset(),
                               file.path(), kWeightAlignment));
  }
  for (const WeightInstance &instance : instances)
    if (!seen.contains(instance.name))
      problems.add(fmt::format("tensor {} is not stored", quote(instance.name)));
}

} // namespace

absl::StatusOr<std::unique_ptr<LoadedWeights>> LoadedWeights::load(const WeightTable &table,
                                                                   const std::string &rankDirectory,
                                                                   const LoadOptions &options) {
  absl::StatusOr<std::vector<WeightInstance>> instances = expandInstances(table);
  if (!instances.ok())
    return instances.status();
  std::unique_ptr<LoadedWeights> weights(new LoadedWeights);
  absl::Status status;
  if (table.mode() == WeightTable::CONVERTED)
    status = weights->loadConverted(table, *instances, rankDirectory, options);
  else if (table.mode() == WeightTable::REFERENCE)
    status = weights->loadReference(table, *instances, options);
  else
    status =
        absl::InvalidArgumentError(fmt::format("weight table: unknown mode {}", int(table.mode())));
  if (!status.ok())
    return status;
  for (const auto &[name, bytes] : weights->tensors)
    weights->totalBytes += bytes.size();
  return weights;
}

absl::Status LoadedWeights::loadConverted(const WeightTable &table,
                                          const std::vector<WeightInstance> &instances,
                                          const std::string &rankDirectory,
                                          const LoadOptions &options) {
  Problems problems;
  std::vector<std::unique_ptr<SafetensorsFile>> headers;
  for (const WeightTable::WeightFile &file : table.files()) {
    if (!isInnerPath(file.path())) {
      problems.add(
          fmt::format("{} is not a file name below the rank's directory", quote(file.path())));
      continue;
    }
    auto opened = SafetensorsFile::open((fs::path(rankDirectory) / file.path()).string());
    if (!opened.ok())
      problems.add(std::string(toStd(opened.status().message())));
    else if ((*opened)->stamp().bytes != file.bytes())
      problems.add(fmt::format("{} should have {} bytes, but has {}", (*opened)->path(),
                               file.bytes(), (*opened)->stamp().bytes));
    else
      headers.push_back(std::move(*opened));
  }
  if (problems.empty())
    checkStored(table, instances, headers, problems);
  if (!problems.empty())
    return problems.status("weights of " + printable(rankDirectory, 4096),
                           absl::StatusCode::kDataLoss);

  std::vector<OpenedFile> opened;
  for (const auto &header : headers) {
    absl::StatusOr<OpenedFile> file = openForReading(header->path());
    if (!file.ok())
      return file.status();
    if (file->stamp != header->stamp())
      return absl::FailedPreconditionError(
          fmt::format("{}: has changed while it was loaded", header->path()));
    opened.push_back(std::move(*file));
  }

  if (!options.copyToArena) {
    for (size_t i = 0; i < opened.size(); ++i) {
      absl::StatusOr<MappedFile> mapped =
          MappedFile::map(opened[i].fd.get(), opened[i].stamp.bytes, headers[i]->path());
      if (!mapped.ok())
        return mapped.status();
      files.push_back(std::move(*mapped));
    }
    for (const WeightTable::Stored &stored : table.stored())
      tensors[stored.name()] =
          files[stored.file()].bytes().subspan(stored.offset(), stored.bytes());
    return absl::OkStatus();
  }

  std::vector<uint64_t> sizes;
  for (const WeightTable::Stored &stored : table.stored())
    sizes.push_back(stored.bytes());
  absl::StatusOr<std::vector<uint64_t>> offsets = layOut(sizes);
  if (!offsets.ok())
    return offsets.status();
  absl::StatusOr<Arena> allocated = Arena::allocate(offsets->back());
  if (!allocated.ok())
    return allocated.status();
  arena = std::move(*allocated);

  // Pieces of at most 4 MiB, so that threads share large tensors.
  constexpr uint64_t kPiece = uint64_t(4) << 20;
  struct Piece {
    int tensor;
    uint64_t begin;
  };
  std::vector<Piece> pieces;
  for (int i = 0; i < table.stored_size(); ++i) {
    for (uint64_t begin = 0; begin < table.stored(i).bytes(); begin += kPiece)
      pieces.push_back({i, begin});
    tensors[table.stored(i).name()] =
        absl::MakeConstSpan(arena.data() + (*offsets)[size_t(i)], table.stored(i).bytes());
  }
  absl::Status status = parallelFor(pieces.size(), options.threads, [&](size_t p) {
    const WeightTable::Stored &stored = table.stored(pieces[p].tensor);
    uint64_t begin = pieces[p].begin, bytes = std::min(kPiece, stored.bytes() - begin);
    std::byte *out = arena.data() + (*offsets)[size_t(pieces[p].tensor)] + begin;
    return readExactly(opened[stored.file()].fd.get(), stored.offset() + begin,
                       absl::MakeSpan(out, bytes), headers[stored.file()]->path());
  });
  if (status.ok())
    arena.protect();
  return status;
}

absl::Status LoadedWeights::loadReference(const WeightTable &table,
                                          const std::vector<WeightInstance> &instances,
                                          const LoadOptions &options) {
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
      openSources(table, options.bundleDirectory);
  if (!checkpoint.ok())
    return checkpoint.status();

  Problems problems;
  std::vector<Evaluation> evaluations;
  std::vector<uint64_t> sizes;
  for (const WeightInstance &instance : instances) {
    absl::StatusOr<Evaluation> evaluation = Evaluation::prepare(
        instance.param->recipe(), {instance.indices, options.symbols}, **checkpoint);
    if (!evaluation.ok()) {
      problems.add(
          fmt::format("tensor {}: {}", quote(instance.name), toStd(evaluation.status().message())));
      continue;
    }
    if (typeString(evaluation->type()) != typeString(instance.param->type()))
      problems.add(fmt::format("tensor {} should be {}, but its recipe makes {}",
                               quote(instance.name), typeString(instance.param->type()),
                               typeString(evaluation->type())));
    sizes.push_back(evaluation->bytes());
    evaluations.push_back(std::move(*evaluation));
  }
  if (!problems.empty())
    return problems.status("weights by reference");

  absl::StatusOr<std::vector<uint64_t>> offsets = layOut(sizes);
  if (!offsets.ok())
    return offsets.status();
  absl::StatusOr<Arena> allocated = Arena::allocate(offsets->back());
  if (!allocated.ok())
    return allocated.status();
  arena = std::move(*allocated);
  for (size_t i = 0; i < evaluations.size(); ++i) {
    absl::Span<std::byte> out = absl::MakeSpan(arena.data() + (*offsets)[i], sizes[i]);
    evaluations[i].read(out, options.threads);
    tensors[instances[i].name] = out;
  }
  arena.protect();
  return absl::OkStatus();
}

std::optional<absl::Span<const std::byte>> LoadedWeights::find(std::string_view name) const {
  auto found = tensors.find(toAbsl(name));
  if (found == tensors.end())
    return std::nullopt;
  return found->second;
}

} // namespace adapt::weights
