// Binds a family to a config.json and a checkpoint.
#include "Blocks/BlockBinder.h"
#include "Blocks/Head.h"
#include "adapt/Model/Model.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::json::Object;
using Json = llvm::json::Value;

namespace adapt {
namespace {

constexpr int64_t kMaxLayers = 10000;

std::string expandTemplate(StringRef text, int64_t layer) {
  std::string result;
  constexpr StringLiteral placeholder = "{layer}";
  while (true) {
    auto [before, after] = text.split(placeholder);
    result += before;
    if (before.size() == text.size())
      return result;
    result += std::to_string(layer);
    text = after;
  }
}

std::string showShape(ArrayRef<int64_t> shape) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(shape, os);
  return text + "]";
}

std::string showValues(ArrayRef<Json> values) {
  std::vector<std::string> texts;
  for (const Json &value : values)
    texts.push_back(toString(value));
  return llvm::join(texts, ", ");
}

bool contains(ArrayRef<Json> values, const Json &value) {
  return llvm::any_of(values, [&](const Json &other) {
    return other.getAsNumber() && value.getAsNumber() ? *other.getAsNumber() == *value.getAsNumber()
                                                      : other == value;
  });
}

/// Names of one kind of problem; long lists are cut.
struct NameList {
  std::vector<std::string> names;
  size_t total = 0;

  void add(std::string name) {
    constexpr size_t kMaxShown = 20;
    if (total++ < kMaxShown)
      names.push_back(std::move(name));
  }
  std::string show() const {
    std::string text;
    for (const std::string &name : names)
      text += "\n  " + name;
    if (total > names.size())
      text += "\n  and " + std::to_string(total - names.size()) + " more";
    return text;
  }
};

class ModelBinder {
public:
  ModelBinder(MLIRContext *context, const Family &family, const ModelConfig &config,
              const CheckpointTensors *tensors, Type dtype)
      : context(context), family(family), config(config), tensors(tensors), wantedType(dtype) {}

  FailureOr<Model> bind() {
    model.name = config.name;
    model.family = family.name;
    model.weightsAreAbsent = !tensors;
    if (failed(bindConfig()) || failed(bindSizes()) || failed(bindTokenIds()) ||
        failed(bindBlocks()))
      return failure();
    if (tensors && (failed(bindTie()) || failed(bindSources())))
      return failure();
    if (!tensors && headBlock()->isTied)
      tieHead();
    if (failed(bindType()))
      return failure();
    groupLayers();
    return std::move(model);
  }

private:
  InFlightDiagnostic error() { return emitError(UnknownLoc::get(context)) << config.path << ": "; }

  //===--------------------------------------------------------------------===//
  // Config
  //===--------------------------------------------------------------------===//

  LogicalResult bindConfig() {
    bool hasFailed = false;
    auto complain = [&]() {
      hasFailed = true;
      return error();
    };
    std::vector<std::string> known;
    for (const auto &[name, key] : family.config) {
      known.push_back(name);
      const Json *value = config.config.get(name);
      if (!value || value->kind() == Json::Null) {
        if (key.defaultValue)
          scope.set(name, *key.defaultValue);
        else if (key.isOptional)
          scope.set(name, nullptr);
        else
          complain() << name << (value ? " is null" : " is missing") << "; the family "
                     << family.name << " needs it";
        continue;
      }
      scope.set(name, *value);
      if (std::string why = key.check(*value); !why.empty())
        complain() << name << " = " << toString(*value) << ": " << why;
      else if (!key.allowed.empty() && !contains(key.allowed, *value))
        complain() << name << " = " << toString(*value) << " is not supported by the family "
                   << family.name << "; supported: " << showValues(key.allowed);
    }
    std::vector<std::string> keys;
    for (const auto &[key, value] : config.config)
      keys.push_back(StringRef(key).str());
    llvm::sort(keys);
    for (const std::string &key : keys) {
      if (family.config.count(key))
        continue;
      const Json &value = *config.config.get(key);
      auto ignored = family.ignoredKeys.find(key);
      if (ignored == family.ignoredKeys.end())
        complain() << key << " = " << toString(value) << " is not known to the family "
                   << family.name << didYouMean(key, known);
      else if (!ignored->second.empty() && value.kind() != Json::Null &&
               !contains(ignored->second, value))
        complain() << key << " = " << toString(value)
                   << " is not supported; supported: " << showValues(ignored->second);
    }
    return failure(hasFailed);
  }

  LogicalResult bindSizes() {
    for (const auto &[name, expr] : family.sizes) {
      std::optional<Json> value = scope.evaluate(expr);
      if (!value)
        return error() << "the size '" << name << "' of the family " << family.name
                       << " cannot be computed";
      scope.set(name, *value);
      if (std::optional<int64_t> size = value->getAsInteger())
        model.sizes.emplace_back(name, *size);
    }
    bool hasFailed = false;
    for (const Family::Requirement &requirement : family.requirements) {
      std::optional<Json> value = scope.evaluate(requirement.expr);
      if (value && value->getAsBoolean() == true)
        continue;
      hasFailed = true;
      InFlightDiagnostic diagnostic = error() << requirement.message;
      llvm::StringSet<> names;
      requirement.expr.expr.collectNames(names);
      std::vector<std::string> values;
      for (const auto &name : names)
        values.push_back(name.getKey().str() + " = " +
                         toString(scope.lookup(name.getKey()).value_or(nullptr)));
      llvm::sort(values);
      diagnostic << " (" << llvm::join(values, ", ") << ")";
    }
    std::optional<int64_t> vocab = scope.evaluateSize(*family.vocabSize, "vocab_size"),
                           hidden = scope.evaluateSize(*family.hiddenSize, "hidden_size"),
                           length = scope.evaluateSize(*family.maxSeqLen, "max_seq_len");
    if (hasFailed || !vocab || !hidden || !length)
      return failure();
    model.vocabSize = *vocab;
    model.hiddenSize = *hidden;
    model.maxSeqLen = *length;
    return bindRope();
  }

  LogicalResult bindRope() {
    std::optional<int64_t> size = scope.evaluateSize(family.rope->size, "rope's size");
    std::optional<Json> theta = scope.evaluate(family.rope->theta),
                        scaling = scope.evaluate(family.rope->scaling);
    if (!size || !theta || !scaling)
      return failure();
    if (!theta->getAsNumber())
      return error() << "rope's theta must be a number, not " << toString(*theta);
    auto frequencies = computeInverseFrequencies(*size, *theta->getAsNumber(), *scaling);
    if (!frequencies)
      return error() << llvm::toString(frequencies.takeError());
    model.inverseFrequencies = std::move(*frequencies);
    return success();
  }

  LogicalResult bindTokenIds() {
    auto bind = [&](StringRef key, std::vector<int64_t> &ids) {
      const Json *value = nullptr;
      StringRef where = "generation_config.json";
      if (config.generation)
        value = config.generation->get(key);
      if (!value || value->kind() == Json::Null) {
        value = config.config.get(key);
        where = "config.json";
      }
      if (!value || value->kind() == Json::Null)
        return success();
      SmallVector<Json> candidates;
      if (const llvm::json::Array *list = value->getAsArray())
        candidates.append(list->begin(), list->end());
      else
        candidates.push_back(*value);
      for (const Json &candidate : candidates) {
        std::optional<int64_t> id = candidate.getAsInteger();
        if (!id || *id < 0 || *id >= model.vocabSize)
          return LogicalResult(error() << where << " says " << key << " = " << toString(*value)
                                       << "; token ids go from 0 to " << model.vocabSize - 1);
        ids.push_back(*id);
      }
      return success();
    };
    bool hasFailed = failed(bind("bos_token_id", model.bosTokenIds));
    hasFailed |= failed(bind("eos_token_id", model.eosTokenIds));
    return failure(hasFailed);
  }

  //===--------------------------------------------------------------------===//
  // Blocks
  //===--------------------------------------------------------------------===//

  std::unique_ptr<Block> bindBlock(const BlockSpec &spec, StringRef prefix) {
    BlockBinder binder(scope, spec, prefix.str(), model.hiddenSize, model.vocabSize);
    std::unique_ptr<Block> block = findBlockKind(spec.kind)->bind(binder);
    return binder.finish(std::move(block));
  }

  LogicalResult bindBlocks() {
    std::optional<int64_t> count = scope.evaluateSize(*family.layerCount, "the number of layers");
    if (!count)
      return failure();
    if (*count > kMaxLayers)
      return error() << *count << " layers; the limit is " << kMaxLayers;
    bool hasFailed = false;
    model.embedding = bindBlock(*family.embedding, "");
    model.head = bindBlock(*family.head, "");
    hasFailed |= !model.embedding || !model.head;
    for (int64_t layer = 0; layer < *count && !hasFailed; ++layer) {
      scope.set("layer", layer);
      FailureOr<const LayerVariant *> variant = selectVariant(layer);
      if (failed(variant))
        return failure();
      layers.emplace_back();
      for (const BlockSpec &spec : (*variant)->blocks) {
        layers.back().push_back(bindBlock(spec, "layers.{layer}."));
        hasFailed |= !layers.back().back();
      }
    }
    return failure(hasFailed);
  }

  FailureOr<const LayerVariant *> selectVariant(int64_t layer) {
    std::vector<std::string> conditions;
    for (const LayerVariant &variant : family.variants) {
      if (!variant.when)
        return &variant;
      std::optional<Json> when = scope.evaluate(*variant.when);
      if (!when)
        return failure();
      if (!when->getAsBoolean())
        return emitError(variant.when->loc)
               << "'when' must be true or false, not " << toString(*when);
      if (*when->getAsBoolean())
        return &variant;
      conditions.push_back(variant.when->expr.getText().str());
    }
    InFlightDiagnostic diagnostic =
        error() << "layer " << layer << " is of no variant of the family " << family.name
                << ": none of these holds: '" << llvm::join(conditions, "', '") << "'";
    if (std::optional<Json> types = scope.lookup("layer_types"))
      if (const llvm::json::Array *list = types->getAsArray();
          list && uint64_t(layer) < list->size())
        diagnostic << " (layer_types[" << layer << "] = " << toString((*list)[layer]) << ")";
    return diagnostic;
  }

  //===--------------------------------------------------------------------===//
  // Head
  //===--------------------------------------------------------------------===//

  Head *headBlock() { return static_cast<Head *>(model.head.get()); }
  Weight &projection() { return model.head->weights[headBlock()->projection.weight]; }

  /// The head uses the embedding's table: one weight, one copy.
  void tieHead() {
    projection() = model.embedding->weights[0];
    model.isHeadTied = true;
  }

  /// config.json and the checkpoint may disagree on whether the head is the embedding. What is
  /// stored wins where it differs; a head that is missing is an error unless it is tied.
  LogicalResult bindTie() {
    const std::string &headName = projection().value.source;
    const std::string &tableName = model.embedding->weights[0].value.source;
    if (!headBlock()->isTied || headName.empty() || tableName.empty())
      return success();
    auto head = tensors->find(headName), table = tensors->find(tableName);
    if (!head) {
      tieHead();
      return success();
    }
    if (!table)
      return success(); // will be reported as missing
    bool isSame = head->dtype == table->dtype && head->shape == table->shape;
    if (isSame) {
      FailureOr<bool> same = tensors->haveSameData(headName, tableName);
      if (failed(same))
        return failure();
      isSame = *same;
    }
    if (isSame) {
      used.insert(headName);
      tieHead();
      return success();
    }
    emitWarning(UnknownLoc::get(context))
        << config.path << ": tie_word_embeddings is true, but the checkpoint's '" << headName
        << "' differs from '" << tableName << "'; the stored head is used";
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Sources
  //===--------------------------------------------------------------------===//

  void bindSource(WeightExpr &source, int64_t layer) {
    std::string name = expandTemplate(source.source, layer);
    used.insert(name);
    std::optional<CheckpointTensors::Tensor> tensor = tensors->find(name);
    if (!tensor) {
      missing.add(name + " " + showShape(source.shape));
      return;
    }
    if (tensor->shape != source.shape)
      misshapen.add(name + " is " + showShape(tensor->shape) + ", expected " +
                    showShape(source.shape));
    if (!tensor->element || !isa<FloatType>(tensor->element))
      untyped.add(name + " is " + tensor->dtype);
    source.element = tensor->element;
  }

  void forEachBlock(llvm::function_ref<void(Block &, int64_t layer)> visit) {
    visit(*model.embedding, 0);
    for (auto [layer, blocks] : llvm::enumerate(layers))
      for (std::unique_ptr<Block> &block : blocks)
        visit(*block, layer);
    visit(*model.head, 0);
  }

  LogicalResult bindSources() {
    forEachBlock([&](Block &block, int64_t layer) {
      for (Weight &weight : block.weights)
        weight.value.forEachSource([&](WeightExpr &source) { bindSource(source, layer); });
    });
    SmallVector<llvm::GlobPattern> ignored; // refer to the family's texts
    for (const std::string &text : family.ignoredTensors)
      ignored.push_back(llvm::cantFail(llvm::GlobPattern::create(text)));
    NameList unused;
    tensors->forEachName([&](StringRef name) {
      if (!used.contains(name) &&
          llvm::none_of(ignored, [&](const auto &pattern) { return pattern.match(name); }))
        unused.add(name.str());
    });
    auto report = [&](const NameList &list, StringRef what) {
      if (list.total > 0)
        error() << list.total << " of the checkpoint's tensors " << what << ":" << list.show();
      return list.total > 0;
    };
    bool hasFailed = report(missing, "are missing");
    if (missing.total > 0 &&
        llvm::is_contained(missing.names,
                           projection().value.source + " " + showShape(projection().getShape())))
      emitRemark(UnknownLoc::get(context)) << "without '" << projection().value.source
                                           << "' config.json must say tie_word_embeddings = true";
    hasFailed |= report(misshapen, "have another shape than config.json implies");
    hasFailed |=
        report(untyped, "have a type that weights cannot have (F64, F32, F16 and BF16 can)");
    hasFailed |= report(unused, ("are not used by the family " + family.name).c_str());
    return failure(hasFailed);
  }

  //===--------------------------------------------------------------------===//
  // Types and layers
  //===--------------------------------------------------------------------===//

  LogicalResult bindType() {
    model.dtype = wantedType;
    model.dtypeOrigin = "--dtype";
    if (wantedType)
      return success();
    const Json *value = config.config.get("dtype"), *older = config.config.get("torch_dtype");
    if (!value || value->kind() == Json::Null)
      value = older;
    else if (older && older->kind() != Json::Null && *older != *value)
      return error() << "dtype = " << toString(*value) << " and torch_dtype = " << toString(*older)
                     << " contradict each other (--dtype chooses one)";
    Builder builder(context);
    if (value && value->kind() != Json::Null) {
      std::string name = value->getAsString().value_or("").str();
      StringRef bare = name;
      bare.consume_front("torch.");
      model.dtype = llvm::StringSwitch<Type>(bare)
                        .Case("float32", builder.getF32Type())
                        .Case("bfloat16", builder.getBF16Type())
                        .Case("float16", builder.getF16Type())
                        .Default(Type());
      model.dtypeOrigin = "config.json";
      if (!model.dtype)
        return error()
               << "dtype = " << toString(*value)
               << " is not supported; supported: float32, bfloat16, float16 (--dtype chooses "
                  "another than the config's)";
      return success();
    }
    if (!tensors) {
      model.dtype = builder.getBF16Type();
      model.dtypeOrigin = "assumed";
      return success();
    }
    // The stored type of most parameters.
    llvm::MapVector<Type, int64_t> counts;
    forEachBlock([&](Block &block, int64_t) {
      for (Weight &weight : block.weights)
        weight.value.forEachSource(
            [&](WeightExpr &source) { counts[source.element] += weight.getNumElements(); });
    });
    auto most =
        llvm::max_element(counts, [](const auto &a, const auto &b) { return a.second < b.second; });
    model.dtype = most->first.isF64() ? builder.getF32Type() : most->first;
    model.dtypeOrigin = "the stored tensors";
    return success();
  }

  /// Layers that are equal but for their number share a function. What their weights are stored as
  /// is part of that: a source has one type.
  void groupLayers() {
    std::map<std::string, unsigned> kinds;
    for (auto [layer, blocks] : llvm::enumerate(layers)) {
      std::string key;
      llvm::raw_string_ostream os(key);
      for (std::unique_ptr<Block> &block : blocks) {
        os << block->key;
        for (Weight &weight : block->weights)
          weight.value.forEachSource([&](WeightExpr &source) {
            os << source.source << showShape(source.shape);
            if (source.element)
              os << source.element;
          });
      }
      auto [it, inserted] = kinds.try_emplace(key, model.layerKinds.size());
      if (inserted) {
        model.layerKinds.emplace_back();
        model.layerKinds.back().blocks = std::move(blocks);
      }
      model.layers.push_back(it->second);
      model.layerKinds[it->second].layers.push_back(layer);
    }
    for (auto [index, kind] : llvm::enumerate(model.layerKinds))
      kind.name = model.layerKinds.size() == 1 ? "layer" : "layer_" + std::to_string(index);
  }

  MLIRContext *context;
  const Family &family;
  const ModelConfig &config;
  const CheckpointTensors *tensors;
  Type wantedType;
  Model model;
  ConfigScope scope;
  std::vector<std::vector<std::unique_ptr<Block>>> layers;
  llvm::StringSet<> used;
  NameList missing, misshapen, untyped;
};

} // namespace

FailureOr<Model> bindModel(MLIRContext *context, const Family &family, const ModelConfig &config,
                           const CheckpointTensors *tensors, Type dtype) {
  return ModelBinder(context, family, config, tensors, dtype).bind();
}

FailureOr<const Family *> selectFamily(MLIRContext *context, ArrayRef<Family> families,
                                       const ModelConfig &config) {
  std::string modelType;
  if (const Json *value = config.config.get("model_type"); value && value->kind() != Json::Null) {
    if (!value->getAsString())
      return emitError(UnknownLoc::get(context))
             << config.path << ": model_type = " << toString(*value) << ": must be a string";
    modelType = value->getAsString()->str();
  }
  std::vector<std::string> known;
  for (const Family &family : families) {
    if (!modelType.empty() && llvm::is_contained(family.modelTypes, modelType))
      return &family;
    llvm::append_range(known, family.modelTypes);
  }
  std::vector<std::string> architectures;
  if (const llvm::json::Array *list = config.config.getArray("architectures"))
    for (const Json &value : *list)
      if (auto name = value.getAsString())
        architectures.push_back(name->str());
  // A model_type that nobody knows is not overruled: the same class may compute something else.
  if (modelType.empty())
    for (const Family &family : families)
      for (const std::string &name : architectures)
        if (llvm::is_contained(family.architectures, name))
          return &family;
  llvm::sort(known);
  InFlightDiagnostic diagnostic = emitError(UnknownLoc::get(context)) << config.path << ": ";
  if (modelType.empty())
    diagnostic << "no model_type, and no family has the architectures ["
               << llvm::join(architectures, ", ") << "]";
  else
    diagnostic << "no family has model_type '" << modelType << "'" << didYouMean(modelType, known);
  diagnostic << "; known: " << llvm::join(known, ", ")
             << " (a new family of known blocks is a file: --family-dir)";
  return diagnostic;
}

} // namespace adapt
