#include "adapt/Target/Target.h"
#include "adapt/Support/DataFiles.h"
#include "adapt/Support/Yaml.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace adapt {
namespace {

const std::vector<std::string> kElementTypes = {"f64", "f32", "f16", "bf16", "i64",
                                                "i32", "i16", "i8",  "ui8",  "i1"};

/// The operations of the dialect, without its name.
std::vector<std::string> getOperationNames(MLIRContext *context) {
  context->loadDialect<AdaptDialect>();
  std::vector<std::string> names;
  for (RegisteredOperationName name : context->getRegisteredOperationsByDialect("adapt"))
    names.push_back(name.stripDialect().str());
  return names;
}

/// Reads one target file. Problems are emitted; `hasFailed` remembers that there were some.
class TargetReader {
public:
  TargetReader(MLIRContext *context, Target &target) : context(context), target(target) {}

  LogicalResult read(const YamlNode &root, StringRef variant) {
    YamlMap map(root, "a target");
    if (StringRef schema = map.requireText("schema"); !schema.empty() && schema != kVersion)
      map.error(map.get("schema")->loc)
          << "schema version " << schema << "; this compiler reads version " << kVersion;
    StringRef name = map.requireText("target");
    if (!name.empty() && name != target.name)
      map.error(map.get("target")->loc)
          << "the file of target " << target.name << " describes '" << name << "'";
    if (const YamlNode *generator = map.require("code_generator")) {
      target.codeGenerator = generator->text;
      checkName(*generator, generator->text, {"cpu", "cuda", "hip", "none"}, "code generator");
    }
    readVariant(map, variant);
    target.elementTypes = readNames(map.require("element_types"), kElementTypes, "element type");
    std::vector<std::string> operations = getOperationNames(context);
    target.keeps = readNames(map.get("keeps"), operations, "operation");
    if (const YamlNode *ops = map.get("ops"); ops && ops->text != "all")
      target.ops = readNames(ops, operations, "operation");
    if (const YamlNode *layouts = map.get("weight_layouts"))
      readWeightLayouts(*layouts);
    if (const YamlNode *tokens = map.get("block_tokens"))
      target.blockTokens = readInteger(*tokens, "block_tokens", 1, 4096);
    readMemory(map.get("memory"));
    readLinks(map.get("links"));
    finish(map);
    return failure(hasFailed);
  }

private:
  static constexpr StringLiteral kVersion = "1";
  static_assert(kTargetSchema == 1);

  InFlightDiagnostic error(Location loc) {
    hasFailed = true;
    return emitError(loc);
  }
  void finish(YamlMap &map) { hasFailed |= failed(map.finish()); }

  bool checkName(const YamlNode &node, StringRef name, ArrayRef<std::string> known,
                 StringRef what) {
    if (llvm::is_contained(known, name))
      return true;
    error(node.loc) << "there is no " << what << " '" << name << "'" << didYouMean(name, known);
    return false;
  }

  bool expectList(const YamlNode *node, StringRef what) {
    if (!node)
      return false;
    if (node->kind != YamlNode::Kind::List)
      error(node->loc) << "'" << what << "' must be a list, not " << node->describe();
    return node->kind == YamlNode::Kind::List;
  }

  std::vector<std::string> readNames(const YamlNode *node, ArrayRef<std::string> known,
                                     StringRef what) {
    std::vector<std::string> names;
    if (expectList(node, (what + " list").str()))
      for (const YamlNode &item : node->items)
        if (checkName(item, item.text, known, what))
          names.push_back(item.text);
    return names;
  }

  int64_t readInteger(const YamlNode &node, StringRef what, int64_t min, int64_t max) {
    int64_t value;
    if (node.isScalar() && !StringRef(node.text).getAsInteger(10, value) && value >= min &&
        value <= max)
      return value;
    error(node.loc) << what << " must be an integer from " << min << " to " << max;
    return min;
  }

  /// "80 GiB", "1.5 TB" or a plain number; of bytes.
  std::optional<double> readBytes(const YamlNode *node, StringRef what) {
    if (!node)
      return std::nullopt;
    StringRef text = node->text, number = text.take_while([](char c) {
      return llvm::isDigit(c) || c == '.' || c == 'e' || c == '+';
    });
    StringRef unit = text.drop_front(number.size()).trim();
    double factor = llvm::StringSwitch<double>(unit)
                        .Cases({"", "B"}, 1)
                        .Case("kB", 1e3)
                        .Case("MB", 1e6)
                        .Case("GB", 1e9)
                        .Case("TB", 1e12)
                        .Case("KiB", 1024.0)
                        .Case("MiB", 1048576.0)
                        .Case("GiB", 1073741824.0)
                        .Case("TiB", 1099511627776.0)
                        .Default(0);
    double value;
    if (node->isScalar() && factor > 0 && !number.getAsDouble(value) && value * factor >= 1 &&
        value * factor <= 9e18)
      return value * factor;
    error(node->loc) << what << " must be a number of bytes, as 80 GiB or 900e9, not '" << text
                     << "'";
    return std::nullopt;
  }

  void readVariant(YamlMap &map, StringRef variant) {
    const YamlNode *node = map.get("variants");
    if (!node) {
      if (!variant.empty())
        error(map.getLoc()) << "the target " << target.name << " has no variants, so there is no '"
                            << target.name << ":" << variant << "'";
      return;
    }
    YamlMap variants(*node, "'variants'");
    variants.requireText("what");
    StringRef fallback = variants.requireText("default");
    finish(variants);
    target.variant = (variant.empty() ? fallback : variant).str();
  }

  void readWeightLayouts(const YamlNode &node) {
    if (node.kind != YamlNode::Kind::Map) {
      error(node.loc) << "'weight_layouts' must be a map, not " << node.describe();
      return;
    }
    for (const YamlNode::Entry &entry : node.entries) {
      if (!llvm::is_contained(target.elementTypes, entry.key))
        error(entry.loc) << "'" << entry.key << "' is not among the target's element types"
                         << didYouMean(entry.key, target.elementTypes);
      if (!expectList(&entry.value, entry.key))
        continue;
      if (entry.value.items.size() != 2) {
        error(entry.value.loc) << "a layout is two numbers: rows and columns that stand together";
        continue;
      }
      target.weightLayouts[entry.key] = {readInteger(entry.value.items[0], "rows", 1, 1024),
                                         readInteger(entry.value.items[1], "columns", 1, 1024)};
    }
  }

  void readMemory(const YamlNode *node) {
    if (!expectList(node, "memory"))
      return;
    for (const YamlNode &item : node->items) {
      YamlMap map(item, "a memory");
      Target::Memory memory;
      memory.name = map.requireText("name").str();
      if (std::optional<double> bytes = readBytes(map.get("bytes"), "'bytes'"))
        memory.bytes = int64_t(*bytes);
      memory.bytesPerSecond = readBytes(map.get("bytes_per_second"), "'bytes_per_second'");
      finish(map);
      target.memory.push_back(std::move(memory));
    }
  }

  void readLinks(const YamlNode *node) {
    if (!expectList(node, "links"))
      return;
    for (const YamlNode &item : node->items) {
      YamlMap map(item, "a link");
      Target::Link link;
      link.name = map.requireText("name").str();
      link.bytesPerSecond = readBytes(map.get("bytes_per_second"), "'bytes_per_second'");
      finish(map);
      target.links.push_back(std::move(link));
    }
  }

  MLIRContext *context;
  Target &target;
  bool hasFailed = false;
};

SmallVector<std::string> getFolders(ArrayRef<std::string> directories) {
  SmallVector<std::string> folders(directories);
  if (std::string installed = findDataDirectory("targets"); !installed.empty())
    folders.push_back(installed);
  return folders;
}

} // namespace

bool Target::hasElementType(Type type) const {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return llvm::is_contained(elementTypes, text);
}

DictionaryAttr Target::toAttribute(MLIRContext *context, ArrayRef<NamedAttribute> processor) const {
  context->loadDialect<AdaptDialect>();
  Builder builder(context);
  auto names = [&](ArrayRef<std::string> texts) {
    return builder.getStrArrayAttr(SmallVector<StringRef>(texts.begin(), texts.end()));
  };
  NamedAttrList attributes;
  attributes.append(processor.begin(), processor.end());
  attributes.set("name", builder.getStringAttr(name));
  attributes.set("block_tokens", builder.getI64IntegerAttr(blockTokens));
  attributes.set("keeps", names(keeps));
  attributes.set("ops", ops ? Attribute(names(*ops)) : builder.getStringAttr("all"));
  NamedAttrList layouts;
  for (const auto &[element, layout] : weightLayouts)
    layouts.set(element, PackedAttr::get(context, layout[0], layout[1]));
  attributes.set("weight_layouts", layouts.getDictionary(context));
  return attributes.getDictionary(context);
}

std::vector<std::string> listTargets(ArrayRef<std::string> directories) {
  std::vector<std::string> names;
  for (const std::string &folder : getFolders(directories))
    for (const std::string &file : listFiles(folder, ".yaml"))
      names.push_back(llvm::sys::path::stem(file).str());
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

FailureOr<Target> loadTarget(MLIRContext *context, StringRef spec,
                             ArrayRef<std::string> directories) {
  auto [name, variant] = spec.split(':');
  for (const std::string &folder : directories)
    if (!llvm::sys::fs::is_directory(folder))
      return emitError(UnknownLoc::get(context)) << folder << ": not a folder of targets";
  std::vector<std::string> known = listTargets(directories);
  // Only names that are files of a folder are opened, so a name is never a path.
  if (!llvm::is_contained(known, name))
    return emitError(UnknownLoc::get(context))
           << "there is no target '" << name << "'" << didYouMean(name, known) << "; there are "
           << (known.empty() ? "none: share/adaptc/targets was not found beside the program"
                             : llvm::join(known, ", "));
  if (variant.empty() && spec.contains(':'))
    return emitError(UnknownLoc::get(context)) << "the target '" << spec << "' names no variant";
  Target target;
  target.name = name.str();
  for (const std::string &folder : getFolders(directories)) {
    SmallString<256> path(folder);
    llvm::sys::path::append(path, name + ".yaml");
    if (!llvm::sys::fs::exists(path))
      continue;
    target.path = std::string(path);
    FailureOr<YamlNode> root = readYaml(context, path);
    if (failed(root) || failed(TargetReader(context, target).read(*root, variant)))
      return failure();
    return target;
  }
  return emitError(UnknownLoc::get(context)) << "the file of target '" << name << "' is gone";
}

} // namespace adapt
