#include "adapt/Communicator.h"
#include "TransportErrors.h"

#include "adapt/Program.h"
#include "weights/Cast.h"

#include <algorithm>
#include <cstring>

using namespace adapt;
using namespace adapt::rt;
using Message = Transport::Message;

namespace {

// Tags of transfers are those of the program; ours lie above.
enum Tag : uint32_t { kReduceTag = Program::kMaxTag, kGatherTag, kLengthTag, kBytesTag };

/// Strings from other ranks: descriptors of steps, errors.
constexpr uint64_t kMaxString = uint64_t(1) << 30;

constexpr absl::string_view kReportedUrl = "adapt.rt/reported";

absl::Status reportedElsewhere() {
  absl::Status status = absl::AbortedError("another rank has failed, and rank 0 reports it");
  status.SetPayload(kReportedUrl, absl::Cord("1"));
  return status;
}

/// Element `first` … of part p when `count` elements are cut into `parts`.
uint64_t firstOf(uint64_t count, size_t part, size_t parts) {
  return count / parts * part + std::min<uint64_t>(count % parts, part);
}

/// Adds `count` elements to f32 sums.
void accumulate(schema::ElementType element, const char *from, float *sums, uint64_t count) {
  auto add = [&](auto sample, auto widen) {
    using Stored = decltype(sample);
    for (uint64_t i = 0; i < count; ++i) {
      Stored value;
      std::memcpy(&value, from + i * sizeof(Stored), sizeof(Stored));
      sums[i] += widen(value);
    }
  };
  if (element == schema::F32)
    add(float(), [](float value) { return value; });
  else if (element == schema::BF16)
    add(uint16_t(), weights::bf16ToF32);
  else
    add(uint16_t(), weights::f16ToF32);
}

void addIntegers(const char *from, char *sums, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t sum, value;
    std::memcpy(&sum, sums + i * sizeof(sum), sizeof(sum));
    std::memcpy(&value, from + i * sizeof(value), sizeof(value));
    sum += value;
    std::memcpy(sums + i * sizeof(sum), &sum, sizeof(sum));
  }
}

} // namespace

absl::Status rt::silenceError(absl::Span<const uint8_t> silent, std::chrono::milliseconds timeout) {
  std::vector<size_t> ranks;
  for (size_t r = 0; r < silent.size(); ++r)
    if (silent[r])
      ranks.push_back(r);
  double seconds = std::chrono::duration<double>(timeout).count();
  if (ranks.empty())
    return absl::DeadlineExceededError(
        absl::StrCat("after ", seconds, " s all ranks still wait for each other"));
  return absl::DeadlineExceededError(absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                                                  absl::StrJoin(ranks, ", "),
                                                  " did not answer within ", seconds, " s"));
}

bool rt::isReported(const absl::Status &status) {
  return status.GetPayload(kReportedUrl).has_value();
}

absl::Status Communicator::exchange(absl::Span<const Message> sends,
                                    absl::Span<const Message> receives) {
  absl::Status status = transport.exchange(sends, receives);
  broken |= !status.ok();
  return status;
}

absl::StatusOr<Group> Communicator::group(absl::string_view axis) const {
  Group group;
  if (axis == "tp") {
    for (int t = 0; t < shape.tp; ++t)
      group.ranks.push_back(shape.rank(ppRank(), t));
    group.me = tpRank();
  } else if (axis == "pp") {
    for (int p = 0; p < shape.pp; ++p)
      group.ranks.push_back(shape.rank(p, tpRank()));
    group.me = ppRank();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("this runtime has no groups of ranks along the axis '", axis, "'"));
  }
  return group;
}

/// Sums the group's parts, in its order; this rank's own is `own`.
absl::Status Communicator::reduceParts(const Group &group, schema::ElementType element,
                                       const char *own, absl::Span<const Part> parts, char *to,
                                       uint64_t count) {
  auto partOf = [&](size_t r) { return static_cast<int>(r) == group.me ? own : parts[r].data(); };
  size_t ranks = group.ranks.size();
  if (element == schema::I32) {
    std::vector<char> sums(partOf(0), partOf(0) + count * sizeof(int32_t));
    for (size_t r = 1; r < ranks; ++r)
      addIntegers(partOf(r), sums.data(), count);
    std::copy(sums.begin(), sums.end(), to);
    return absl::OkStatus();
  }
  weights::CastFunction narrow = weights::castFunction(schema::F32, element);
  if (!narrow || !weights::isFloat(element) || element == schema::F64)
    return absl::InvalidArgumentError(
        absl::StrCat("no sums of elements of type ", schema::ElementType_Name(element)));
  // Beginning with -0, which changes nothing that it is added to.
  std::vector<float> sums(count, -0.0f);
  for (size_t r = 0; r < ranks; ++r)
    accumulate(element, partOf(r), sums.data(), count);
  narrow(reinterpret_cast<const std::byte *>(sums.data()), reinterpret_cast<std::byte *>(to),
         count);
  return absl::OkStatus();
}

// Each rank sums one part of the elements, and then all give their sums to each other: as many
// bytes as in a ring, in two exchanges.
absl::StatusOr<uint64_t> Communicator::allReduce(const Group &group, schema::ElementType element,
                                                 const char *from, char *to, uint64_t count) {
  size_t ranks = group.ranks.size();
  uint64_t width = elementBytes(element), sent = 0;
  auto begin = [&](size_t part) { return firstOf(count, part, ranks) * width; };
  uint64_t mine = begin(group.me + 1) - begin(group.me);
  std::vector<Message> sends, receives;
  scratch.resize(std::max(scratch.size(), ranks));
  for (size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == group.me)
      continue;
    scratch[r].resize(mine);
    uint64_t bytes = begin(r + 1) - begin(r);
    sends.push_back({group.ranks[r], kReduceTag, const_cast<char *>(from) + begin(r), bytes});
    receives.push_back({group.ranks[r], kReduceTag, scratch[r].data(), mine});
    sent += bytes + mine;
  }
  ADAPT_RETURN_IF_ERROR(exchange(sends, receives));
  ADAPT_RETURN_IF_ERROR(reduceParts(group, element, from + begin(group.me), scratch,
                                    to + begin(group.me), mine / width));
  sends.clear();
  receives.clear();
  for (size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == group.me)
      continue;
    sends.push_back({group.ranks[r], kGatherTag, to + begin(group.me), mine});
    receives.push_back({group.ranks[r], kGatherTag, to + begin(r), begin(r + 1) - begin(r)});
  }
  ADAPT_RETURN_IF_ERROR(exchange(sends, receives));
  return sent;
}

absl::StatusOr<uint64_t> Communicator::allGather(const Group &group, const char *from, char *to,
                                                 uint64_t outer, uint64_t innerBytes) {
  size_t ranks = group.ranks.size();
  uint64_t part = outer * innerBytes;
  if (part == 0)
    return 0; // on all ranks alike
  auto place = [&](size_t r, const char *source) {
    for (uint64_t o = 0; o < outer; ++o)
      std::copy_n(source + o * innerBytes, innerBytes, to + (o * ranks + r) * innerBytes);
  };
  std::vector<Message> sends, receives;
  scratch.resize(std::max(scratch.size(), ranks));
  for (size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == group.me)
      continue;
    // One row of parts is already in place.
    char *target = to + r * innerBytes;
    if (outer != 1) {
      scratch[r].resize(part);
      target = scratch[r].data();
    }
    sends.push_back({group.ranks[r], kGatherTag, const_cast<char *>(from), part});
    receives.push_back({group.ranks[r], kGatherTag, target, part});
  }
  ADAPT_RETURN_IF_ERROR(exchange(sends, receives));
  for (size_t r = 0; r < ranks; ++r)
    if (static_cast<int>(r) == group.me)
      place(r, from);
    else if (outer != 1)
      place(r, scratch[r].data());
  return part * (ranks - 1);
}

absl::StatusOr<uint64_t> Communicator::reduceScatter(const Group &group,
                                                     schema::ElementType element, const char *from,
                                                     char *to, uint64_t outer, uint64_t inner) {
  size_t ranks = group.ranks.size();
  uint64_t innerBytes = inner * elementBytes(element), part = outer * innerBytes;
  // The parts of the others, and ours, each in one run.
  std::vector<Part> packed(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    packed[r].resize(part);
    for (uint64_t o = 0; o < outer; ++o)
      std::copy_n(from + (o * ranks + r) * innerBytes, innerBytes,
                  packed[r].begin() + o * innerBytes);
  }
  std::vector<Message> sends, receives;
  scratch.resize(std::max(scratch.size(), ranks));
  for (size_t r = 0; r < ranks; ++r) {
    if (static_cast<int>(r) == group.me)
      continue;
    scratch[r].resize(part);
    sends.push_back({group.ranks[r], kReduceTag, packed[r].data(), part});
    receives.push_back({group.ranks[r], kReduceTag, scratch[r].data(), part});
  }
  ADAPT_RETURN_IF_ERROR(exchange(sends, receives));
  ADAPT_RETURN_IF_ERROR(
      reduceParts(group, element, packed[group.me].data(), scratch, to, outer * inner));
  return part * (ranks - 1);
}

absl::Status Communicator::send(int to, uint32_t tag, absl::Span<const char> bytes) {
  return exchange({{to, tag, const_cast<char *>(bytes.data()), bytes.size()}}, {});
}

absl::Status Communicator::receive(int from, uint32_t tag, absl::Span<char> bytes) {
  return exchange({}, {{from, tag, bytes.data(), bytes.size()}});
}

absl::Status Communicator::broadcast(std::string &bytes) {
  uint64_t length = bytes.size();
  std::vector<Message> lengths, contents;
  if (rank() == 0) {
    for (int r = 1; r < size(); ++r) {
      lengths.push_back({r, kLengthTag, reinterpret_cast<char *>(&length), sizeof(length)});
      contents.push_back({r, kBytesTag, bytes.data(), length});
    }
    ADAPT_RETURN_IF_ERROR(exchange(lengths, {}));
    return exchange(contents, {});
  }
  ADAPT_RETURN_IF_ERROR(
      exchange({}, {{0, kLengthTag, reinterpret_cast<char *>(&length), sizeof(length)}}));
  if (length > kMaxString)
    return absl::InternalError(absl::StrCat("rank 0 sends a message of ", length, " bytes"));
  bytes.resize(length);
  return exchange({}, {{0, kBytesTag, bytes.data(), length}});
}

absl::StatusOr<std::vector<std::string>> Communicator::gather(absl::string_view bytes) {
  uint64_t length = bytes.size();
  if (rank() != 0) {
    ADAPT_RETURN_IF_ERROR(
        exchange({{0, kLengthTag, reinterpret_cast<char *>(&length), sizeof(length)}}, {}));
    ADAPT_RETURN_IF_ERROR(exchange({{0, kBytesTag, const_cast<char *>(bytes.data()), length}}, {}));
    return std::vector<std::string>();
  }
  std::vector<uint64_t> lengths(size());
  std::vector<Message> receives;
  for (int r = 1; r < size(); ++r)
    receives.push_back({r, kLengthTag, reinterpret_cast<char *>(&lengths[r]), sizeof(uint64_t)});
  ADAPT_RETURN_IF_ERROR(exchange({}, receives));
  std::vector<std::string> result(size());
  result[0] = std::string(bytes);
  receives.clear();
  for (int r = 1; r < size(); ++r) {
    if (lengths[r] > kMaxString)
      return absl::InternalError(
          absl::StrCat("rank ", r, " sends a message of ", lengths[r], " bytes"));
    result[r].resize(lengths[r]);
    receives.push_back({r, kBytesTag, result[r].data(), lengths[r]});
  }
  ADAPT_RETURN_IF_ERROR(exchange({}, receives));
  return result;
}

absl::Status Communicator::agree(const absl::Status &mine) {
  // One byte of the code, then the message.
  std::string text(1, static_cast<char>(mine.code()));
  absl::StrAppend(&text, mine.message());
  ADAPT_ASSIGN_OR_RETURN(std::vector<std::string> all, gather(text));
  std::string verdict(1, '\0');
  absl::Status status = mine;
  for (int r = size() - 1; rank() == 0 && r >= 0; --r) {
    if (all[r].empty() || all[r][0] == '\0')
      continue;
    verdict[0] = 1;
    // What rank 0 has met too does not come from where the others run.
    bool everywhere = all[r] == all[0];
    status = absl::Status(
        static_cast<absl::StatusCode>(all[r][0]),
        absl::StrCat(everywhere ? "" : absl::StrCat("rank ", r, ": "), all[r].substr(1)));
  }
  ADAPT_RETURN_IF_ERROR(broadcast(verdict));
  if (rank() == 0)
    return status;
  return verdict != std::string(1, '\0') ? reportedElsewhere() : absl::OkStatus();
}

absl::Status
Communicator::checkEqual(absl::Span<const std::pair<std::string, std::string>> namedValues) {
  // Separators that occur in neither names nor values: values are what we made.
  std::string text;
  for (const auto &[name, value] : namedValues)
    absl::StrAppend(&text, name, "\x1f", value, "\x1e");
  ADAPT_ASSIGN_OR_RETURN(std::vector<std::string> all, gather(text));
  Problems problems;
  for (size_t r = 1; r < all.size(); ++r) {
    absl::string_view rest = all[r];
    for (const auto &[name, value] : namedValues) {
      size_t end = rest.find('\x1e');
      absl::string_view field = rest.substr(0, end);
      size_t middle = field.find('\x1f');
      if (end == absl::string_view::npos || middle == absl::string_view::npos ||
          field.substr(0, middle) != name) {
        problems.add("rank ", r, " compares other things than rank 0");
        break;
      }
      if (field.substr(middle + 1) != value)
        problems.add(name, ": rank 0 has ", value, ", rank ", r, " has ", field.substr(middle + 1));
      rest.remove_prefix(end + 1);
    }
  }
  absl::Status found = problems.status("the ranks were not started alike");
  return agree(found.ok() ? found : absl::FailedPreconditionError(found.message()));
}
