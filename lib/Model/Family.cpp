#include "adapt/Model/Family.h"
#include "FamilyReader.h"
#include "adapt/Support/DataFiles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using Json = llvm::json::Value;

namespace adapt {

Json toJson(const YamlNode &node) {
  switch (node.kind) {
  case YamlNode::Kind::Null:
    return nullptr;
  case YamlNode::Kind::List: {
    llvm::json::Array items;
    for (const YamlNode &item : node.items)
      items.push_back(toJson(item));
    return Json(std::move(items));
  }
  case YamlNode::Kind::Map: {
    llvm::json::Object object;
    for (const YamlNode::Entry &entry : node.entries)
      object.try_emplace(entry.key, toJson(entry.value));
    return Json(std::move(object));
  }
  case YamlNode::Kind::Scalar:
    break;
  }
  StringRef text = node.text;
  int64_t integer;
  double number;
  if (text == "true" || text == "false")
    return text == "true";
  if (!text.getAsInteger(10, integer))
    return integer;
  if (!text.empty() && (llvm::isDigit(text[0]) || text[0] == '-' || text[0] == '.') &&
      !text.getAsDouble(number))
    return number;
  return text.str();
}

std::string ConfigKey::check(const Json &value) const {
  std::optional<int64_t> integer = value.getAsInteger();
  std::optional<double> number = value.getAsNumber();
  switch (kind) {
  case Kind::Size:
    if (!integer || *integer < 1 || *integer > INT32_MAX)
      return "must be an integer from 1 to " + std::to_string(INT32_MAX);
    break;
  case Kind::Int:
    if (!integer)
      return "must be an integer";
    break;
  case Kind::Float:
    if (!number)
      return "must be a number";
    break;
  case Kind::Bool:
    if (!value.getAsBoolean())
      return "must be true or false";
    break;
  case Kind::String:
    if (!value.getAsString())
      return "must be a string";
    break;
  case Kind::Map:
    if (!value.getAsObject())
      return "must be a map";
    break;
  case Kind::List:
    if (!value.getAsArray())
      return "must be a list";
    break;
  }
  if (number && min && *number < *min)
    return "must be at least " + toString(Json(*min));
  if (number && max && *number > *max)
    return "must be at most " + toString(Json(*max));
  return "";
}

FailureOr<Family> loadFamily(MLIRContext *context, StringRef path, StringRef common) {
  Family family;
  family.path = path.str();
  FailureOr<YamlNode> root = readYaml(context, path);
  bool hasFailed = failed(root) || failed(readFamily(*root, family));
  if (!common.empty()) {
    FailureOr<YamlNode> commonRoot = readYaml(context, common);
    hasFailed |= failed(commonRoot) || failed(readIgnoredKeys(*commonRoot, family));
  }
  if (hasFailed)
    return failure();
  return family;
}

FailureOr<std::vector<Family>> loadFamilies(MLIRContext *context,
                                            ArrayRef<std::string> directories) {
  SmallVector<std::string> folders(directories);
  std::string installed = findDataDirectory("models");
  if (!installed.empty())
    folders.push_back(installed);
  if (folders.empty())
    return emitError(UnknownLoc::get(context))
           << "no folder of model families: share/adaptc/models was not found beside the program; "
              "name one with --family-dir";
  std::vector<Family> families;
  bool hasFailed = false;
  for (const std::string &folder : folders) {
    if (!llvm::sys::fs::is_directory(folder)) {
      emitError(UnknownLoc::get(context)) << folder << ": not a folder of model families";
      hasFailed = true;
      continue;
    }
    // A folder without a common file of its own goes by the installation's.
    SmallString<256> common(folder);
    llvm::sys::path::append(common, "common.yaml");
    if (!llvm::sys::fs::exists(common)) {
      common = installed;
      if (!installed.empty())
        llvm::sys::path::append(common, "common.yaml");
    }
    for (const std::string &file : listFiles(folder, ".yaml")) {
      if (llvm::sys::path::filename(file) == "common.yaml")
        continue;
      FailureOr<Family> family = loadFamily(context, file, common);
      if (failed(family))
        hasFailed = true;
      else if (llvm::none_of(families, [&](const Family &f) { return f.name == family->name; }))
        families.push_back(std::move(*family));
    }
  }
  if (hasFailed)
    return failure();
  return families;
}

} // namespace adapt
