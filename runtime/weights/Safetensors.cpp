#include "weights/Safetensors.h"

#include "weights/JsonStream.h"

#include "fmt/format.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace adapt::weights {

//===----------------------------------------------------------------------===//
// Data types
//===----------------------------------------------------------------------===//

// All that version 0.8 of the reference implementation knows.
static constexpr DataType kDataTypes[] = {
    {"BF16", 16, schema::BF16},
    {"F32", 32, schema::F32},
    {"F16", 16, schema::F16},
    {"F64", 64, schema::F64},
    {"BOOL", 8, schema::BOOL},
    {"U8", 8, schema::U8},
    {"I8", 8, schema::I8},
    {"U16", 16, schema::U16},
    {"I16", 16, schema::I16},
    {"U32", 32, schema::U32},
    {"I32", 32, schema::I32},
    {"U64", 64, schema::U64},
    {"I64", 64, schema::I64},
    {"F8_E4M3", 8, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"F8_E5M2", 8, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"F8_E8M0", 8, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"F8_E4M3FNUZ", 8, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"F8_E5M2FNUZ", 8, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"F6_E2M3", 6, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"F6_E3M2", 6, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"F4", 4, schema::ELEMENT_TYPE_UNSPECIFIED},
    {"C64", 64, schema::ELEMENT_TYPE_UNSPECIFIED},
};

const DataType *findDataType(std::string_view name) {
  for (const DataType &type : kDataTypes)
    if (type.name == name)
      return &type;
  return nullptr;
}

/// Bytes of a tensor; nothing if that overflows or ends within a byte.
static std::optional<uint64_t> storedBytes(const DataType &type, absl::Span<const int64_t> shape) {
  std::optional<uint64_t> count = countElements(shape);
  std::optional<uint64_t> bits = count ? checkedMul(*count, type.bits) : std::nullopt;
  if (!bits || *bits % 8)
    return std::nullopt;
  return *bits / 8;
}

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

/// Fills a SafetensorsFile from the events of the JSON parser. Wrong structure stops the parse;
/// wrong values are collected.
class HeaderHandler : public JsonHandler {
public:
  HeaderHandler(SafetensorsFile &file, uint64_t dataBytes) : file(file), dataBytes(dataBytes) {}
  Problems problems;

  bool start_object(size_t) override {
    switch (place) {
    case Place::Start:
      place = Place::Root;
      return true;
    case Place::TensorValue:
      place = Place::Tensor;
      seen = 0;
      return true;
    case Place::MetadataValue:
      place = Place::Metadata;
      return true;
    default:
      return unexpected("an object");
    }
  }

  bool key(std::string &name) override {
    if (place == Place::Root)
      return beginEntry(name);
    if (place == Place::Metadata) {
      if (!metadataKeys.insert(name).second)
        return fail("__metadata__ has " + quote(name) + " twice");
      file.metadataPairs.emplace_back(name, std::string());
      place = Place::MetadataString;
      return true;
    }
    Field next = name == "dtype"          ? Dtype
                 : name == "shape"        ? Shape
                 : name == "data_offsets" ? Offsets
                                          : None;
    if (next == None)
      return fail(tensor() + " has the unknown key " + quote(name));
    if (seen & next)
      return fail(tensor() + " has the key " + quote(name) + " twice");
    seen |= next;
    place = next == Dtype ? Place::DtypeValue : Place::ArrayStart;
    field = next;
    return true;
  }

  bool string(std::string &text) override {
    if (place == Place::MetadataString) {
      file.metadataPairs.back().second = text;
      place = Place::Metadata;
      return true;
    }
    if (place != Place::DtypeValue)
      return unexpected("the string " + quote(text));
    entry().type = findDataType(text);
    if (!entry().type)
      problems.add(tensor() + " has the unknown dtype " + quote(text));
    place = Place::Tensor;
    return true;
  }

  bool start_array(size_t) override {
    if (place != Place::ArrayStart)
      return unexpected("an array");
    place = Place::Array;
    offsetsSeen = 0;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (place != Place::Array)
      return unexpected(std::to_string(value));
    if (field == Shape) {
      if (value > uint64_t(INT64_MAX))
        return unexpected(std::to_string(value));
      file.shapes.push_back(int64_t(value));
      ++entry().rank;
      return true;
    }
    if (offsetsSeen == 2)
      return fail(tensor() + " has more than two data_offsets");
    (offsetsSeen++ ? entry().end : entry().begin) = value;
    return true;
  }

  bool end_array() override {
    if (field == Offsets && offsetsSeen != 2)
      return fail(tensor() + " has fewer than two data_offsets");
    place = Place::Tensor;
    return true;
  }

  bool end_object() override {
    if (place == Place::Tensor)
      endEntry();
    place = place == Place::Root ? Place::End : Place::Root;
    return true;
  }

protected:
  bool unexpected(std::string_view what) override {
    switch (place) {
    case Place::Start:
      return fail(fmt::format("the header is {}, not an object", what));
    case Place::MetadataValue:
      return fail(fmt::format("__metadata__ is {}, not an object", what));
    case Place::MetadataString:
      return fail(fmt::format("__metadata__ value of {} is {}, not a string",
                              quote(file.metadataPairs.back().first), what));
    case Place::TensorValue:
      return fail(fmt::format("{} is {}, not an object", tensor(), what));
    case Place::DtypeValue:
      return fail(fmt::format("{}: dtype is {}, not a string", tensor(), what));
    case Place::ArrayStart:
      return fail(fmt::format("{}: {} is {}, not an array", tensor(), fieldName(), what));
    case Place::Array:
      return fail(fmt::format("{}: {} holds {}, not an integer from 0 to 2^63 - 1", tensor(),
                              fieldName(), what));
    default:
      return fail(fmt::format("unexpected {}", what));
    }
  }

private:
  enum class Place {
    Start,
    Root,
    MetadataValue,
    Metadata,
    MetadataString,
    TensorValue,
    Tensor,
    DtypeValue,
    ArrayStart,
    Array,
    End
  };
  enum Field { None = 0, Dtype = 1, Shape = 2, Offsets = 4 };

  SafetensorsFile::Entry &entry() { return file.entries.back(); }
  std::string tensor() { return "tensor " + quote(file.nameOf(entry())); }
  std::string_view fieldName() const { return field == Shape ? "shape" : "data_offsets"; }

  bool beginEntry(const std::string &name) {
    if (name == "__metadata__") {
      if (metadataSeen)
        return fail("the header has '__metadata__' twice");
      metadataSeen = true;
      place = Place::MetadataValue;
      return true;
    }
    SafetensorsFile::Entry next;
    next.name = uint32_t(file.names.size());
    next.nameBytes = uint32_t(name.size());
    next.shape = uint32_t(file.shapes.size());
    file.names += name;
    file.entries.push_back(next);
    if (!file.byName.insert(uint32_t(file.entries.size() - 1)).second)
      problems.add(tensor() + " is there twice");
    place = Place::TensorValue;
    return true;
  }

  void endEntry() {
    const SafetensorsFile::Entry &e = entry();
    for (Field required : {Dtype, Shape, Offsets}) {
      if (!(seen & required))
        problems.add(fmt::format("{} has no {}", tensor(),
                                 required == Dtype   ? "dtype"
                                 : required == Shape ? "shape"
                                                     : "data_offsets"));
    }
    if (seen != (Dtype | Shape | Offsets))
      return;
    if (e.begin > e.end) {
      problems.add(
          fmt::format("{} has data_offsets [{}, {}] that run backwards", tensor(), e.begin, e.end));
      return;
    }
    if (e.end > dataBytes) {
      problems.add(fmt::format("{} ends at byte {} of the data, but the file holds {}", tensor(),
                               e.end, dataBytes));
      return;
    }
    if (!e.type)
      return;
    auto shape = absl::MakeConstSpan(file.shapes).subspan(e.shape, e.rank);
    std::optional<uint64_t> bytes = storedBytes(*e.type, shape);
    if (!bytes)
      problems.add(fmt::format("{}: shape {} of {} is not a possible number of bytes", tensor(),
                               shapeString(shape), e.type->name));
    else if (*bytes != e.end - e.begin)
      problems.add(fmt::format(
          "{}: shape {} of {} needs {} bytes, but data_offsets [{}, {}] are {}", tensor(),
          shapeString(shape), e.type->name, *bytes, e.begin, e.end, e.end - e.begin));
  }

  SafetensorsFile &file;
  uint64_t dataBytes;
  Place place = Place::Start;
  Field field = None;
  unsigned seen = 0;
  unsigned offsetsSeen = 0;
  bool metadataSeen = false;
  absl::flat_hash_set<std::string> metadataKeys;
};

//===----------------------------------------------------------------------===//
// SafetensorsFile
//===----------------------------------------------------------------------===//

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const std::string &path) {
  absl::StatusOr<OpenedFile> opened = openForReading(path);
  if (!opened.ok())
    return opened.status();
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  file->filePath = path;
  file->fileStamp = opened->stamp;
  if (absl::Status status = file->readHeader(*opened); !status.ok())
    return status;
  return file;
}

absl::Status SafetensorsFile::readHeader(const OpenedFile &opened) {
  std::string subject = printable(filePath, 4096);
  auto invalid = [&](std::string why) {
    return absl::InvalidArgumentError(fmt::format("{}: not a safetensors file: {}", subject, why));
  };

  uint64_t fileBytes = fileStamp.bytes;
  if (fileBytes < 8)
    return invalid(fmt::format("it has {} bytes, and its header's length takes 8", fileBytes));
  unsigned char lengthBytes[8];
  absl::Status read = readExactly(
      opened.fd.get(), 0, absl::MakeSpan(reinterpret_cast<std::byte *>(lengthBytes), 8), filePath);
  if (!read.ok())
    return read;
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | lengthBytes[i];
  if (headerBytes > fileBytes - 8)
    return invalid(fmt::format("a header of {} bytes does not fit the {} bytes of the file",
                               headerBytes, fileBytes));
  if (headerBytes > kMaxHeaderBytes)
    return invalid(fmt::format("a header of {} bytes exceeds the format's limit of {}", headerBytes,
                               kMaxHeaderBytes));
  if (headerBytes == 0)
    return invalid("its header is empty");
  dataStart = 8 + headerBytes;

  JsonStream stream(opened.fd.get(), 8, headerBytes, filePath);
  if (stream.status().ok() && stream.peek() != '{')
    return invalid("its header does not begin with '{'");
  HeaderHandler handler(*this, fileBytes - dataStart);
  absl::Status parsed = parseJson(stream, handler, subject + ": header");
  if (!parsed.ok()) {
    if (handler.problems.empty())
      return parsed;
    handler.problems.add(std::string(toStd(parsed.message()).substr(subject.size() + 2)));
    return handler.problems.status(subject);
  }
  hash = stream.hash();
  names.shrink_to_fit();
  shapes.shrink_to_fit();
  entries.shrink_to_fit();
  // Offsets that are wrong by themselves would only make noise here.
  if (handler.problems.empty())
    checkCover(handler.problems);
  return handler.problems.status(subject);
}

void SafetensorsFile::checkCover(Problems &problems) const {
  std::vector<uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](uint32_t i) { return std::make_tuple(entries[i].begin, entries[i].end, i); };
  auto less = [&](uint32_t a, uint32_t b) { return key(a) < key(b); };
  if (!std::is_sorted(order.begin(), order.end(), less))
    std::sort(order.begin(), order.end(), less);

  uint64_t covered = 0;
  std::string_view before; // the tensor that ends there
  for (uint32_t i : order) {
    const Entry &entry = entries[i];
    std::string_view name = nameOf(entry);
    if (entry.begin < covered)
      problems.add(
          fmt::format("tensor {} at bytes [{}, {}] of the data overlaps {}, which ends at {}",
                      quote(name), entry.begin, entry.end, quote(before), covered));
    else if (entry.begin > covered)
      problems.add(fmt::format("bytes [{}, {}] of the data, before tensor {}, belong to no tensor",
                               covered, entry.begin, quote(name)));
    if (entry.end > covered) {
      covered = entry.end;
      before = name;
    }
  }
  uint64_t dataBytes = fileStamp.bytes - dataStart;
  if (covered < dataBytes)
    problems.add(
        fmt::format("the last {} bytes of the file belong to no tensor", dataBytes - covered));
}

TensorEntry SafetensorsFile::tensor(size_t index) const {
  const Entry &entry = entries[index];
  return {nameOf(entry), entry.type, absl::MakeConstSpan(shapes).subspan(entry.shape, entry.rank),
          dataStart + entry.begin, entry.end - entry.begin};
}

std::optional<size_t> SafetensorsFile::find(std::string_view name) const {
  auto found = byName.find(name);
  if (found == byName.end())
    return std::nullopt;
  return *found;
}

absl::StatusOr<absl::Span<const std::byte>> SafetensorsFile::data(size_t index) const {
  std::lock_guard<std::mutex> lock(mapMutex);
  if (!isMapped) {
    absl::StatusOr<OpenedFile> opened = openForReading(filePath);
    if (!opened.ok())
      return opened.status();
    if (opened->stamp != fileStamp)
      return absl::FailedPreconditionError(
          fmt::format("{}: has changed since its header was read", printable(filePath, 4096)));
    absl::StatusOr<MappedFile> mapping =
        MappedFile::map(opened->fd.get(), opened->stamp.bytes, filePath);
    if (!mapping.ok())
      return mapping.status();
    mapped = std::move(*mapping);
    isMapped = true;
  }
  TensorEntry entry = tensor(index);
  return mapped.bytes().subspan(entry.offset, entry.bytes);
}

} // namespace adapt::weights
