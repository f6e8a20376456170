#include "adapt/Program.h"

#include "absl/strings/match.h"
#include "google/protobuf/stubs/logging.h"

#include <limits>

using namespace adapt;
using namespace adapt::rt;

uint64_t rt::elementBytes(schema::ElementType element) {
  switch (element) {
  case schema::F64:
  case schema::I64:
  case schema::U64:
    return 8;
  case schema::F32:
  case schema::I32:
  case schema::U32:
    return 4;
  case schema::F16:
  case schema::BF16:
  case schema::I16:
  case schema::U16:
    return 2;
  case schema::I8:
  case schema::U8:
  case schema::BOOL:
    return 1;
  default:
    return 0;
  }
}

std::optional<absl::string_view> rt::meshAxis(absl::string_view symbol) {
  for (absl::string_view axis : {"tp", "pp", "dp", "ep"})
    if (symbol.size() == axis.size() + 5 && absl::StartsWith(symbol, axis) &&
        absl::EndsWith(symbol, "_rank"))
      return symbol.substr(0, axis.size());
  return std::nullopt;
}

absl::StatusOr<std::string>
rt::fillTemplate(absl::string_view name,
                 absl::FunctionRef<std::optional<int64_t>(absl::string_view)> value) {
  std::string result;
  absl::string_view rest = name;
  while (!rest.empty()) {
    size_t brace = rest.find_first_of("{}");
    absl::StrAppend(&result, rest.substr(0, brace));
    if (brace == absl::string_view::npos)
      break;
    size_t close = rest.find_first_of("{}", brace + 1);
    if (rest[brace] == '}' || close == absl::string_view::npos || rest[close] == '{')
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", name, "': braces do not match"));
    absl::string_view index = rest.substr(brace + 1, close - brace - 1);
    std::optional<int64_t> number = value(index);
    if (!number)
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", name, "': no index '", index, "' here"));
    absl::StrAppend(&result, *number);
    rest.remove_prefix(close + 1);
  }
  if (result.empty())
    return absl::InvalidArgumentError("parameter without a name");
  return result;
}

absl::StatusOr<Program> Program::parse(absl::string_view bytes) {
  schema::Program proto;
  google::protobuf::LogSilencer silencer; // what is wrong is for our caller, not for stderr
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return absl::InvalidArgumentError(
        absl::StrCat("program: ", bytes.size(), " bytes that are no message adapt.schema.Program"));
  return create(std::move(proto));
}

absl::StatusOr<Program> Program::create(schema::Program proto) {
  ADAPT_RETURN_IF_ERROR(validate(proto));
  Program program;
  program.proto = std::move(proto);
  return program;
}

std::optional<uint32_t> Program::findSymbol(absl::string_view name) const {
  for (int i = 0; i < proto.symbols_size(); ++i)
    if (proto.symbols(i).name() == name)
      return i;
  return std::nullopt;
}

absl::StatusOr<const schema::EntryPoint *> Program::findEntry(absl::string_view name) const {
  std::vector<std::string> names;
  for (const schema::EntryPoint &entry : proto.entries()) {
    if (entry.name() == name)
      return &entry;
    names.push_back(entry.name());
  }
  return absl::NotFoundError(
      absl::StrCat("no entry point '", name, "'; the program has: ", absl::StrJoin(names, ", ")));
}
