#include "FamilyReader.h"
#include "Blocks/Block.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using Json = llvm::json::Value;

namespace adapt {
namespace {

/// Reads one family file. Problems are emitted; `failed` remembers that there were some.
class FamilyReader {
public:
  FamilyReader(Family &family) : family(family) {}

  LogicalResult read(const YamlNode &root) {
    YamlMap map(root, "a model family");
    readSchema(map);
    family.name = map.requireText("family").str();
    if (const YamlNode *node = map.require("recognise"))
      readRecognition(*node);
    if (const YamlNode *node = map.require("config"))
      readConfig(*node);
    if (const YamlNode *node = map.get("sizes"))
      readSizes(*node);
    if (const YamlNode *node = map.get("require"))
      readRequirements(*node);
    if (const YamlNode *node = map.require("model"))
      readModel(*node);
    if (const YamlNode *node = map.require("embedding"))
      family.embedding = readBlock(*node, BlockKind::Place::Embedding);
    if (const YamlNode *node = map.require("layers"))
      readLayers(*node);
    if (const YamlNode *node = map.require("head"))
      family.head = readBlock(*node, BlockKind::Place::Head);
    if (const YamlNode *node = map.get("ignore_tensors"))
      readIgnoredTensors(*node);
    finish(map);
    return failure(hasFailed);
  }

  /// The file that all families of a folder share.
  LogicalResult readCommon(const YamlNode &root) {
    YamlMap map(root, "the common file");
    readSchema(map);
    const YamlNode *ignore = map.require("ignore");
    if (ignore && expect(*ignore, YamlNode::Kind::Map, "'ignore'"))
      for (const YamlNode::Entry &entry : ignore->entries) {
        std::vector<Json> &values = family.ignoredKeys[entry.key];
        if (entry.value.isScalar() && entry.value.text == "any")
          continue;
        if (expect(entry.value, YamlNode::Kind::List,
                   "a key to ignore ('any' or a list of values)"))
          for (const YamlNode &item : entry.value.items)
            values.push_back(toJson(item));
      }
    finish(map);
    return failure(hasFailed);
  }

private:
  InFlightDiagnostic error(Location loc) {
    hasFailed = true;
    return emitError(loc);
  }
  void finish(YamlMap &map) { hasFailed |= failed(map.finish()); }

  bool expect(const YamlNode &node, YamlNode::Kind kind, StringRef what) {
    if (node.kind == kind)
      return true;
    YamlNode wanted(node.loc);
    wanted.kind = kind;
    error(node.loc) << what << " must be " << wanted.describe() << ", not " << node.describe();
    return false;
  }

  void readSchema(YamlMap &map) {
    const YamlNode *schema = map.require("schema");
    if (schema && toJson(*schema) != Json(kFamilySchema))
      error(schema->loc) << "schema version " << toString(toJson(*schema))
                         << "; this compiler reads version " << kFamilySchema;
  }

  std::vector<std::string> readNames(const YamlNode *node, StringRef what) {
    std::vector<std::string> names;
    if (node && expect(*node, YamlNode::Kind::List, what))
      for (const YamlNode &item : node->items)
        if (expect(item, YamlNode::Kind::Scalar, "an entry of " + what.str()))
          names.push_back(item.text);
    return names;
  }

  void readRecognition(const YamlNode &node) {
    YamlMap map(node, "'recognise'");
    family.modelTypes = readNames(map.get("model_type"), "'model_type'");
    family.architectures = readNames(map.get("architectures"), "'architectures'");
    finish(map);
    if (family.modelTypes.empty() && family.architectures.empty())
      error(node.loc) << "'recognise' names neither a model_type nor architectures";
  }

  //===--------------------------------------------------------------------===//
  // Config keys and expressions
  //===--------------------------------------------------------------------===//

  void readConfig(const YamlNode &node) {
    if (!expect(node, YamlNode::Kind::Map, "'config'"))
      return;
    for (const YamlNode::Entry &entry : node.entries) {
      family.config[entry.key] = readConfigKey(entry);
      names.push_back(entry.key);
    }
  }

  ConfigKey readConfigKey(const YamlNode::Entry &entry) {
    ConfigKey key;
    auto readKind = [&](StringRef text, Location loc) {
      using Kind = ConfigKey::Kind;
      std::vector<std::string> kinds = {"size", "int", "float", "bool", "string", "map", "list"};
      auto found = llvm::find(kinds, text);
      if (found == kinds.end())
        error(loc) << "there is no kind '" << text << "'" << didYouMean(text, kinds)
                   << "; kinds are " << llvm::join(kinds, ", ");
      else
        key.kind = Kind(found - kinds.begin());
    };
    if (entry.value.isScalar()) {
      readKind(entry.value.text, entry.value.loc);
      return key;
    }
    YamlMap map(entry.value, "the config key '" + entry.key + "'");
    if (const YamlNode *kind = map.require("kind"))
      readKind(kind->text, kind->loc);
    auto readLimit = [&](StringRef name, std::optional<double> &limit) {
      if (const YamlNode *node = map.get(name)) {
        limit = toJson(*node).getAsNumber();
        if (!limit)
          error(node->loc) << "'" << name << "' must be a number";
      }
    };
    readLimit("min", key.min);
    readLimit("max", key.max);
    if (const YamlNode *optional = map.get("optional")) {
      key.isOptional = optional->text == "true";
      if (optional->text != "true" && optional->text != "false")
        error(optional->loc) << "'optional' must be true or false";
    }
    auto readValue = [&](const YamlNode &node) {
      Json value = toJson(node);
      if (std::string why = key.check(value); !why.empty())
        error(node.loc) << toString(value) << " " << why;
      return value;
    };
    if (const YamlNode *value = map.get("default"))
      key.defaultValue = readValue(*value);
    if (const YamlNode *allowed = map.get("allowed"))
      if (expect(*allowed, YamlNode::Kind::List, "'allowed'"))
        for (const YamlNode &item : allowed->items)
          key.allowed.push_back(readValue(item));
    finish(map);
    return key;
  }

  std::optional<FamilyExpr> readExpr(const YamlNode *node, StringRef what, bool inLayer = false) {
    if (!node)
      return std::nullopt;
    std::string text = node->kind == YamlNode::Kind::Null ? "null" : node->text;
    if (node->kind != YamlNode::Kind::Null && !expect(*node, YamlNode::Kind::Scalar, what))
      return std::nullopt;
    llvm::Expected<Expr> expr = Expr::parse(text);
    if (!expr) {
      error(node->loc) << llvm::toString(expr.takeError());
      return std::nullopt;
    }
    llvm::StringSet<> used;
    expr->collectNames(used);
    std::vector<std::string> unknown;
    for (const auto &name : used)
      if (!llvm::is_contained(names, name.getKey()) && !(inLayer && name.getKey() == "layer"))
        unknown.push_back(name.getKey().str());
    llvm::sort(unknown);
    for (const std::string &name : unknown)
      error(node->loc) << "in '" << text << "': '" << name
                       << "' is neither a config key nor a size of this family"
                       << didYouMean(name, names);
    if (!unknown.empty())
      return std::nullopt;
    return FamilyExpr{std::move(*expr), node->loc};
  }

  void readSizes(const YamlNode &node) {
    if (!expect(node, YamlNode::Kind::Map, "'sizes'"))
      return;
    for (const YamlNode::Entry &entry : node.entries) {
      if (std::optional<FamilyExpr> expr = readExpr(&entry.value, "a size"))
        family.sizes.emplace_back(entry.key, *expr);
      names.push_back(entry.key);
    }
  }

  void readRequirements(const YamlNode &node) {
    if (!expect(node, YamlNode::Kind::List, "'require'"))
      return;
    for (const YamlNode &item : node.items) {
      YamlMap map(item, "a requirement");
      std::optional<FamilyExpr> expr = readExpr(map.require("expr"), "'expr'");
      std::string message = map.requireText("message").str();
      finish(map);
      if (expr)
        family.requirements.push_back({*expr, message});
    }
  }

  void readModel(const YamlNode &node) {
    YamlMap map(node, "'model'");
    family.vocabSize = readExpr(map.require("vocab_size"), "'vocab_size'");
    family.hiddenSize = readExpr(map.require("hidden_size"), "'hidden_size'");
    family.maxSeqLen = readExpr(map.require("max_seq_len"), "'max_seq_len'");
    if (const YamlNode *rope = map.require("rope")) {
      YamlMap ropeMap(*rope, "'rope'");
      std::optional<FamilyExpr> size = readExpr(ropeMap.require("size"), "'size'"),
                                theta = readExpr(ropeMap.require("theta"), "'theta'"),
                                scaling = readExpr(ropeMap.require("scaling"), "'scaling'");
      finish(ropeMap);
      if (size && theta && scaling)
        family.rope = RopeSpec{*size, *theta, *scaling};
    }
    finish(map);
  }

  //===--------------------------------------------------------------------===//
  // Blocks and tensors
  //===--------------------------------------------------------------------===//

  void readLayers(const YamlNode &node) {
    YamlMap map(node, "'layers'");
    family.layerCount = readExpr(map.require("count"), "'count'");
    const YamlNode *variants = map.require("variants");
    finish(map);
    if (!variants || !expect(*variants, YamlNode::Kind::List, "'variants'"))
      return;
    if (variants->items.empty())
      error(variants->loc) << "there are no variants";
    for (const YamlNode &item : variants->items) {
      YamlMap variant(item, "a variant of layers");
      LayerVariant result;
      result.when = readExpr(variant.get("when"), "'when'", /*inLayer=*/true);
      const YamlNode *blocks = variant.require("blocks");
      finish(variant);
      if (!blocks || !expect(*blocks, YamlNode::Kind::List, "'blocks'"))
        continue;
      for (const YamlNode &blockNode : blocks->items) {
        std::optional<BlockSpec> block = readBlock(blockNode, BlockKind::Place::Layer);
        if (!block)
          continue;
        for (const BlockSpec &other : result.blocks)
          if (other.name == block->name)
            error(block->loc) << "two blocks of a layer are called '" << block->name
                              << "'; give one a 'name'";
        result.blocks.push_back(std::move(*block));
      }
      family.variants.push_back(std::move(result));
    }
  }

  std::optional<BlockSpec> readBlock(const YamlNode &node, BlockKind::Place place) {
    if (!expect(node, YamlNode::Kind::Map, "a block"))
      return std::nullopt;
    YamlMap map(node, "a block");
    std::string kindName = map.requireText("block").str();
    std::vector<std::string> kinds;
    const BlockKind *kind = nullptr;
    for (const BlockKind *candidate : getBlockKinds())
      if (candidate->place == place) {
        kinds.push_back(candidate->name.str());
        if (candidate->name == kindName)
          kind = candidate;
      }
    if (!kind) {
      if (!kindName.empty())
        error(node.loc) << "there is no block '" << kindName << "' here"
                        << didYouMean(kindName, kinds) << "; there are " << llvm::join(kinds, ", ");
      return std::nullopt;
    }
    BlockSpec block{kindName, kindName, node.loc, {}};
    if (const YamlNode *name = map.get("name")) {
      block.name = name->text;
      if (block.name.empty() ||
          !llvm::all_of(block.name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
        error(name->loc) << "a block's name is of letters, digits and _, not '" << block.name
                         << "'";
    }
    inLayer = place == BlockKind::Place::Layer;
    for (const OptionSpec &option : kind->options) {
      const YamlNode *value = option.isRequired ? map.require(option.name) : map.get(option.name);
      if (!value)
        continue;
      if (std::optional<BlockOption> read = readOption(*value, option))
        block.options.emplace(option.name.str(), std::move(*read));
    }
    finish(map);
    return block;
  }

  std::optional<BlockOption> readOption(const YamlNode &node, const OptionSpec &option) {
    std::string what = "'" + option.name.str() + "'";
    switch (option.type) {
    case OptionSpec::Type::Expr:
      if (std::optional<FamilyExpr> expr = readExpr(&node, what, inLayer))
        return BlockOption(std::move(*expr));
      return std::nullopt;
    case OptionSpec::Type::Tensor:
      if (std::optional<TensorSpec> tensor = readTensor(node, what))
        return BlockOption(std::move(*tensor));
      return std::nullopt;
    case OptionSpec::Type::Linear: {
      YamlMap map(node, what);
      const YamlNode *weight = map.require("weight"), *bias = map.get("bias");
      finish(map);
      std::optional<TensorSpec> weightSpec, biasSpec;
      if (weight)
        weightSpec = readTensor(*weight, "'weight'");
      if (bias)
        biasSpec = readTensor(*bias, "'bias'", TensorPlace::Bias);
      if (!weightSpec || (bias && !biasSpec))
        return std::nullopt;
      return BlockOption(LinearSpec{std::move(*weightSpec), std::move(biasSpec)});
    }
    case OptionSpec::Type::Norm: {
      YamlMap map(node, what);
      std::optional<FamilyExpr> epsilon = readExpr(map.require("epsilon"), "'epsilon'", inLayer);
      const YamlNode *weight = map.require("weight");
      finish(map);
      std::optional<TensorSpec> tensor;
      if (weight)
        tensor = readTensor(*weight, "'weight'");
      if (!epsilon || !tensor)
        return std::nullopt;
      return BlockOption(NormSpec{std::move(*epsilon), std::move(*tensor)});
    }
    }
    return std::nullopt;
  }

  /// The only placeholder is {layer}, and only in layers.
  void checkTemplate(StringRef text, Location loc) {
    StringRef rest = text;
    while (true) {
      size_t open = rest.find_first_of("{}");
      if (open == StringRef::npos)
        return;
      rest = rest.drop_front(open);
      if (!inLayer || !rest.consume_front("{layer}")) {
        error(loc) << "in '" << text << "': "
                   << (inLayer ? "the only placeholder is {layer}"
                               : "there are no placeholders outside layers");
        return;
      }
    }
  }

  enum class TensorPlace { Weight, Bias, Part };

  std::optional<TensorSpec> readTensor(const YamlNode &node, std::string what,
                                       TensorPlace place = TensorPlace::Weight) {
    const bool isPart = place == TensorPlace::Part;
    TensorSpec tensor{node.loc, {}, {}, {}, {}, 0, {}};
    if (node.isScalar()) {
      tensor.source = node.text;
      checkTemplate(tensor.source, node.loc);
      if (isPart)
        error(node.loc) << "a part of a concat needs 'source' and 'shape'";
      return tensor;
    }
    YamlMap map(node, what);
    const YamlNode *concat = map.get("concat");
    if (concat)
      readConcat(*concat, tensor);
    else
      tensor.source = map.requireText("source").str();
    checkTemplate(tensor.source, node.loc);
    const YamlNode *when = map.get("when");
    tensor.when = readExpr(when, "'when'", inLayer);
    if (when && place != TensorPlace::Bias)
      error(when->loc) << what << ": only a bias can be absent";
    const YamlNode *shape = map.get("shape"), *steps = map.get("steps");
    if (shape && expect(*shape, YamlNode::Kind::List, "'shape'"))
      for (const YamlNode &item : shape->items)
        if (std::optional<FamilyExpr> expr = readExpr(&item, "a size", inLayer))
          tensor.shape.push_back(std::move(*expr));
    if (steps && expect(*steps, YamlNode::Kind::List, "'steps'"))
      for (const YamlNode &item : steps->items)
        readStep(item, tensor);
    if (!concat && !shape && (steps || isPart))
      error(node.loc) << what << ": a source with steps or in a concat needs its 'shape'";
    if (concat && shape)
      error(shape->loc) << what << ": a concat has no 'shape'; its parts have";
    finish(map);
    return tensor;
  }

  void readConcat(const YamlNode &node, TensorSpec &tensor) {
    YamlMap map(node, "'concat'");
    tensor.concatAxis = readAxis(map.require("axis"));
    const YamlNode *parts = map.require("of");
    finish(map);
    if (!parts || !expect(*parts, YamlNode::Kind::List, "'of'"))
      return;
    for (const YamlNode &part : parts->items)
      if (std::optional<TensorSpec> spec = readTensor(part, "a part", TensorPlace::Part))
        tensor.parts.push_back(std::move(*spec));
    if (tensor.parts.empty())
      error(parts->loc) << "a concat of nothing";
  }

  int64_t readAxis(const YamlNode *node) {
    if (!node)
      return 0;
    std::optional<int64_t> axis = toJson(*node).getAsInteger();
    if (axis && *axis >= 0 && *axis < 8)
      return *axis;
    error(node->loc) << "an axis is a number from 0 to 7";
    return 0;
  }

  void readStep(const YamlNode &node, TensorSpec &tensor) {
    YamlMap map(node, "a step");
    TensorSpec::Step step{TensorSpec::Step::Kind::Reshape, node.loc, 0, {}, {}};
    const YamlNode *slice = map.get("slice"), *transpose = map.get("transpose"),
                   *reshape = map.get("reshape");
    finish(map);
    auto addSize = [&](const YamlNode *size) {
      if (std::optional<FamilyExpr> expr = readExpr(size, "a size", inLayer))
        step.sizes.push_back(std::move(*expr));
    };
    if (!!slice + !!transpose + !!reshape != 1) {
      error(node.loc) << "a step is one of slice, transpose and reshape";
      return;
    }
    if (slice) {
      YamlMap options(*slice, "'slice'");
      step.kind = TensorSpec::Step::Kind::Slice;
      step.axis = readAxis(options.require("axis"));
      addSize(options.require("from"));
      addSize(options.require("size"));
      finish(options);
      if (step.sizes.size() != 2)
        return;
    } else if (transpose) {
      step.kind = TensorSpec::Step::Kind::Transpose;
      if (expect(*transpose, YamlNode::Kind::List, "'transpose'"))
        for (const YamlNode &item : transpose->items)
          step.permutation.push_back(readAxis(&item));
      SmallVector<int64_t> sorted = step.permutation;
      llvm::sort(sorted);
      for (auto [index, axis] : llvm::enumerate(sorted))
        if (axis != int64_t(index)) {
          error(node.loc) << "'transpose' must name each axis once";
          return;
        }
    } else if (expect(*reshape, YamlNode::Kind::List, "'reshape'")) {
      for (const YamlNode &item : reshape->items)
        addSize(&item);
    }
    tensor.steps.push_back(std::move(step));
  }

  void readIgnoredTensors(const YamlNode &node) {
    for (const std::string &text : readNames(&node, "'ignore_tensors'")) {
      llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(text);
      if (pattern)
        family.ignoredTensors.push_back(text);
      else
        error(node.loc) << "'" << text << "': " << llvm::toString(pattern.takeError());
    }
  }

  Family &family;
  std::vector<std::string> names; ///< what expressions may use
  bool inLayer = false;
  bool hasFailed = false;
};

} // namespace

LogicalResult readFamily(const YamlNode &root, Family &family) {
  return FamilyReader(family).read(root);
}

LogicalResult readIgnoredKeys(const YamlNode &root, Family &family) {
  return FamilyReader(family).readCommon(root);
}

} // namespace adapt
