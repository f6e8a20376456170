#include "adapt/ExecutionPlan.h"

#include <limits>

using namespace adapt;
using namespace adapt::rt;

namespace {
constexpr uint64_t kCopyPiece = uint64_t(64) << 10;
constexpr uint64_t kMaxItems = uint64_t(1) << 40;
/// Blocks of a GPU along x, and along y and z: CUDA's limits.
constexpr int64_t kMaxBlocksX = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxBlocksYZ = 65535;
} // namespace

absl::StatusOr<Region> ExecutionPlan::port(absl::string_view name) const {
  for (const Port &port : ports)
    if (port.name == name)
      return port.region;
  return absl::NotFoundError(absl::StrCat("the entry point has no port '", name, "'"));
}

absl::Status ExecutionPlan::prepareLaunch(const Shape &shape, LaunchShape &result) {
  const Kernel &kernel = kernelTable[shape.kernel];
  absl::Span<const int64_t> mine(sizes.data() + shape.firstSize, shape.sizes.size());
  for (const Variant &variant : kernel.variants) {
    bool holds = true;
    for (const Guard &guard : variant.guards)
      holds &= guard.min <= mine[guard.size] && mine[guard.size] <= guard.max;
    if (!holds)
      continue;
    result.kind = LaunchShape::Kind::kKernel;
    result.kernel = variant.kernel;
    result.sizes = mine.data();
    result.numSizes = static_cast<uint32_t>(mine.size());
    result.numBuffers = shape.numBuffers;
    result.threads = variant.threads;
    result.gridRank = static_cast<uint32_t>(variant.grid.size());
    result.items = 1;
    for (size_t i = 0; i < 3; ++i) {
      int64_t extent = 1;
      if (i < variant.grid.size()) {
        std::optional<int64_t> value = variant.grid[i].evaluate(mine);
        if (!value || *value < 0 || *value > std::numeric_limits<uint32_t>::max())
          return absl::InvalidArgumentError(
              absl::StrCat(shape.where, ": grid extent ", i, " of kernel '", kernel.name, "' is ",
                           value ? absl::StrCat(*value) : "not computable", " for sizes ",
                           absl::StrJoin(mine, ", ")));
        extent = *value;
        int64_t limit = i + 1 == variant.grid.size() ? kMaxBlocksX : kMaxBlocksYZ;
        if (variant.threads && extent > limit)
          return absl::InvalidArgumentError(
              absl::StrCat(shape.where, ": grid extent ", i, " of kernel '", kernel.name, "' is ",
                           extent, " for sizes ", absl::StrJoin(mine, ", "), ", a GPU has at most ",
                           limit, " blocks there"));
      }
      result.grid[i] = static_cast<uint32_t>(extent);
      if (__builtin_mul_overflow(result.items, static_cast<uint64_t>(extent), &result.items) ||
          result.items > kMaxItems)
        return absl::InvalidArgumentError(
            absl::StrCat(shape.where, ": kernel '", kernel.name, "' has too many work items"));
    }
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(shape.where, ": no variant fits"));
}

absl::Status ExecutionPlan::prepareCopy(const Shape &shape, int64_t bytes, LaunchShape &result) {
  if (bytes < 0 || static_cast<uint64_t>(bytes) > shape.copyLimit)
    return absl::InvalidArgumentError(absl::StrCat(
        shape.where, ": copy of ", bytes, " bytes between buffers of at least ", shape.copyLimit));
  result.kind = LaunchShape::Kind::kCopy;
  result.numBuffers = 2;
  result.copyBytes = bytes;
  result.items = (result.copyBytes + kCopyPiece - 1) / kCopyPiece;
  return absl::OkStatus();
}

absl::Status ExecutionPlan::prepareExchange(const ExchangeSizes &sizes, ExchangeStep &step,
                                            absl::Span<const int64_t> values) {
  std::optional<int64_t> outer = sizes.outer.evaluate(values), inner = sizes.inner.evaluate(values);
  uint64_t part = 0, from = 0, to = 0;
  if (!outer || !inner || *outer < 0 || *inner < 0 ||
      __builtin_mul_overflow(static_cast<uint64_t>(*outer), static_cast<uint64_t>(*inner), &part) ||
      __builtin_mul_overflow(part, sizes.element, &part) ||
      __builtin_mul_overflow(part, sizes.fromParts, &from) ||
      __builtin_mul_overflow(part, sizes.toParts, &to) || from > sizes.fromLimit ||
      to > sizes.toLimit)
    return absl::InvalidArgumentError(absl::StrCat(
        step.where, ": an exchange of ", outer ? absl::StrCat(*outer) : "?", " * ",
        inner ? absl::StrCat(*inner) : "?", " elements of ", sizes.element,
        " bytes does not fit its buffers of ", sizes.fromLimit, " and ", sizes.toLimit));
  step.outer = static_cast<uint64_t>(*outer);
  step.inner = static_cast<uint64_t>(*inner);
  return absl::OkStatus();
}

absl::StatusOr<LaunchList> ExecutionPlan::prepare(absl::Span<const int64_t> values) {
  if (values.size() != symbols.size())
    return absl::InternalError(
        absl::StrCat(values.size(), " symbols for a program of ", symbols.size()));
  LaunchList list;
  list.shapes = prepared;
  list.launches = launches;
  list.buffers = buffers.data();
  if (!lastSymbols.empty() && values == lastSymbols)
    return list; // as in most steps of decoding within one block

  lastSymbols.clear();
  Problems problems;
  for (size_t i = 0; i < symbols.size(); ++i)
    if (values[i] < symbols[i].min || values[i] > symbols[i].max)
      problems.add("size '", symbols[i].name, "' is ", values[i], ", the program was made for ",
                   symbols[i].min, " to ", symbols[i].max);
  ADAPT_RETURN_IF_ERROR(problems.status("sizes out of bounds"));

  prepared.resize(shapes.size());
  for (size_t s = 0; s < shapes.size(); ++s) {
    const Shape &shape = shapes[s];
    for (size_t i = 0; i < shape.sizes.size(); ++i) {
      std::optional<int64_t> size = shape.sizes[i].evaluate(values);
      if (!size)
        return absl::InvalidArgumentError(
            absl::StrCat(shape.where, ": size ", i, " overflows or divides by zero"));
      sizes[shape.firstSize + i] = *size;
    }
    if (shape.kernel < 0)
      ADAPT_RETURN_IF_ERROR(prepareCopy(shape, sizes[shape.firstSize], prepared[s]));
    else
      ADAPT_RETURN_IF_ERROR(prepareLaunch(shape, prepared[s]));
  }
  for (size_t e = 0; e < exchangeTable.size(); ++e)
    ADAPT_RETURN_IF_ERROR(prepareExchange(exchangeSizes[e], exchangeTable[e], values));
  lastSymbols.assign(values.begin(), values.end());
  list.shapes = prepared;
  return list;
}
