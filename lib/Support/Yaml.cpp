#include "adapt/Support/Yaml.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

using namespace mlir;
using llvm::StringRef;

namespace adapt {

StringRef YamlNode::describe() const {
  switch (kind) {
  case Kind::Null:
    return "nothing";
  case Kind::Scalar:
    return "a value";
  case Kind::Map:
    return "a map";
  case Kind::List:
    return "a list";
  }
  return "";
}

namespace {

constexpr unsigned kMaxDepth = 64;
constexpr uint64_t kMaxFileBytes = 4 << 20;

/// Turns the parser's nodes, which can be read only once and in order, into a tree.
class Converter {
public:
  Converter(MLIRContext *context, const llvm::SourceMgr &sources, StringRef path)
      : context(context), sources(sources), path(path) {}

  Location getLoc(llvm::SMLoc place) {
    if (!place.isValid())
      return FileLineColLoc::get(context, path, 1, 1);
    auto [line, column] = sources.getLineAndColumn(place);
    return FileLineColLoc::get(context, path, line, column);
  }

  FailureOr<YamlNode> convert(llvm::yaml::Node *from, unsigned depth) {
    if (!from)
      return failure(); // the parser has said why
    Location loc = getLoc(from->getSourceRange().Start);
    if (depth > kMaxDepth)
      return emitError(loc) << "nested more than " << kMaxDepth << " levels deep";
    YamlNode node(loc);
    if (isa<llvm::yaml::NullNode>(from))
      return node;
    if (auto *scalar = dyn_cast<llvm::yaml::ScalarNode>(from)) {
      node.kind = YamlNode::Kind::Scalar;
      StringRef raw = scalar->getRawValue();
      // The parser lets a quote run to the end of the file.
      if (raw.starts_with("'") || raw.starts_with("\""))
        if (raw.size() < 2 || raw.back() != raw.front())
          return emitError(loc) << "a quote is not closed";
      llvm::SmallString<64> storage;
      node.text = scalar->getValue(storage).str();
      if (raw == "null" || raw == "~")
        node.kind = YamlNode::Kind::Null;
      return node;
    }
    if (auto *scalar = dyn_cast<llvm::yaml::BlockScalarNode>(from)) {
      node.kind = YamlNode::Kind::Scalar;
      node.text = scalar->getValue().str();
      return node;
    }
    if (auto *list = dyn_cast<llvm::yaml::SequenceNode>(from)) {
      node.kind = YamlNode::Kind::List;
      for (llvm::yaml::Node &item : *list) {
        FailureOr<YamlNode> converted = convert(&item, depth + 1);
        if (failed(converted))
          return failure();
        node.items.push_back(std::move(*converted));
      }
      return node;
    }
    if (auto *map = dyn_cast<llvm::yaml::MappingNode>(from)) {
      node.kind = YamlNode::Kind::Map;
      for (llvm::yaml::KeyValueNode &entry : *map)
        if (failed(convertEntry(entry, node, depth)))
          return failure();
      return node;
    }
    return emitError(loc) << "anchors and aliases are not supported here";
  }

private:
  LogicalResult convertEntry(llvm::yaml::KeyValueNode &entry, YamlNode &node, unsigned depth) {
    auto *key = dyn_cast_or_null<llvm::yaml::ScalarNode>(entry.getKey());
    if (!key)
      return entry.getKey() ? emitError(node.loc) << "a key must be a plain word" : failure();
    llvm::SmallString<64> storage;
    std::string text = key->getValue(storage).str();
    Location loc = getLoc(key->getSourceRange().Start);
    for (const YamlNode::Entry &other : node.entries)
      if (other.key == text)
        return emitError(loc) << "key '" << text << "' stands here twice";
    FailureOr<YamlNode> value = convert(entry.getValue(), depth + 1);
    if (failed(value))
      return failure();
    node.entries.push_back({std::move(text), loc, std::move(*value)});
    return success();
  }

  MLIRContext *context;
  const llvm::SourceMgr &sources;
  StringRef path;
};

struct ParserErrors {
  MLIRContext *context;
  StringRef path;
  bool any = false;
};

void reportParserError(const llvm::SMDiagnostic &diagnostic, void *opaque) {
  auto &errors = *static_cast<ParserErrors *>(opaque);
  errors.any = true;
  unsigned line = std::max(diagnostic.getLineNo(), 1);
  emitError(FileLineColLoc::get(errors.context, errors.path, line, diagnostic.getColumnNo() + 1))
      << diagnostic.getMessage();
}

} // namespace

FailureOr<YamlNode> parseYaml(MLIRContext *context, StringRef text, StringRef path) {
  llvm::SourceMgr sources;
  ParserErrors errors{context, path};
  sources.setDiagHandler(reportParserError, &errors);
  llvm::yaml::Stream stream(llvm::MemoryBufferRef(text, path), sources, /*ShowColors=*/false);
  auto document = stream.begin();
  if (document == stream.end()) {
    if (!errors.any)
      emitError(FileLineColLoc::get(context, path, 1, 1)) << "the file is empty";
    return failure();
  }
  FailureOr<YamlNode> root = Converter(context, sources, path).convert(document->getRoot(), 0);
  if (stream.failed() || errors.any)
    return failure();
  if (succeeded(root) && root->kind == YamlNode::Kind::Null)
    return emitError(FileLineColLoc::get(context, path, 1, 1)) << "the file is empty";
  if (succeeded(root) && ++document != stream.end())
    return emitError(root->loc) << "the file holds more than one document";
  return root;
}

FailureOr<YamlNode> readYaml(MLIRContext *context, StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/true, /*IsVolatile=*/true);
  if (!buffer)
    return emitError(UnknownLoc::get(context))
           << path << ": cannot be read: " << buffer.getError().message();
  if ((*buffer)->getBufferSize() > kMaxFileBytes)
    return emitError(UnknownLoc::get(context)) << path << ": " << (*buffer)->getBufferSize()
                                               << " bytes; the limit is " << kMaxFileBytes;
  return parseYaml(context, (*buffer)->getBuffer(), path);
}

//===----------------------------------------------------------------------===//
// YamlMap
//===----------------------------------------------------------------------===//

YamlMap::YamlMap(const YamlNode &node, std::string name) : node(node), what(std::move(name)) {
  if (node.kind != YamlNode::Kind::Map)
    error(node.loc) << what << " must be a map, not " << node.describe();
}

InFlightDiagnostic YamlMap::error(Location loc) {
  failed = true;
  return emitError(loc);
}

const YamlNode *YamlMap::get(StringRef key) {
  known.push_back(key.str());
  for (const YamlNode::Entry &entry : node.entries)
    if (entry.key == key)
      return &entry.value;
  return nullptr;
}

const YamlNode *YamlMap::require(StringRef key) {
  const YamlNode *value = get(key);
  if (!value && node.kind == YamlNode::Kind::Map)
    error(node.loc) << what << " lacks the key '" << key << "'";
  return value;
}

StringRef YamlMap::requireText(StringRef key) {
  const YamlNode *value = require(key);
  if (!value)
    return {};
  if (!value->isScalar() || value->text.empty()) {
    error(value->loc) << "'" << key << "' must be a value, not "
                      << (value->isScalar() ? StringRef("empty") : value->describe());
    return {};
  }
  return value->text;
}

LogicalResult YamlMap::finish() {
  for (const YamlNode::Entry &entry : node.entries)
    if (!llvm::is_contained(known, entry.key))
      error(entry.loc) << what << " has no key '" << entry.key << "'"
                       << didYouMean(entry.key, known);
  return failure(failed);
}

//===----------------------------------------------------------------------===//
// Nearest words
//===----------------------------------------------------------------------===//

std::string getNearest(StringRef word, llvm::ArrayRef<std::string> candidates) {
  unsigned best = std::max<size_t>(word.size() / 3, 2) + 1;
  std::string nearest;
  for (const std::string &candidate : candidates) {
    unsigned distance = word.edit_distance_insensitive(candidate, /*AllowReplacements=*/true, best);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string didYouMean(StringRef word, llvm::ArrayRef<std::string> candidates) {
  std::string nearest = getNearest(word, candidates);
  return nearest.empty() ? "" : " (did you mean '" + nearest + "'?)";
}

} // namespace adapt
