// The IR of a model, as the phase `import` ends with it.
#include "Blocks/BlockBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace adapt {
namespace {

class ModelBuilder {
public:
  ModelBuilder(MLIRContext *context, const Model &model)
      : model(model), builder(context), loc(NameLoc::get(builder.getStringAttr(model.name))) {
    Type i32 = builder.getI32Type();
    AffineExpr sequences = symbol("S");
    seqStarts = getTensorType({sequences + 1}, i32);
    kvLens = getTensorType({sequences}, i32);
    blockTable = getTensorType({sequences, symbol("B")}, i32);
    perToken = getTensorType({symbol("T")}, i32);
    logitRows = getTensorType({symbol("L")}, i32);
    hidden = getTensorType({symbol("T"), constant(model.hiddenSize)}, model.dtype);
    logits = getTensorType({symbol("L"), constant(model.vocabSize)}, builder.getF32Type());
    ropeTable = getTensorType({symbol("T"), constant(model.inverseFrequencies.size())},
                              builder.getF32Type());
  }

  OwningOpRef<ModuleOp> build() {
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc, model.name);
    (*module)->setAttr("adapt.model", describe());
    builder.setInsertionPointToEnd(module->getBody());
    buildMain();
    for (const LayerKind &kind : model.layerKinds)
      buildLayer(kind);
    if (failed(verify(*module)))
      return nullptr;
    return module;
  }

private:
  AffineExpr symbol(StringRef name) { return getSymbolExpr(builder.getContext(), name); }
  AffineExpr constant(int64_t value) { return builder.getAffineConstantExpr(value); }

  SmallVector<Type> getStateTypes(const LayerKind &kind) {
    SmallVector<Type> types;
    for (const std::unique_ptr<Block> &block : kind.blocks) {
      SmallVector<RankedTensorType> planes;
      for (const auto &plane : block->statePlanes)
        planes.push_back(RankedTensorType::get(plane, model.dtype));
      if (!planes.empty())
        types.push_back(PagedType::get(builder.getContext(), planes));
    }
    return types;
  }

  /// What the writer of the bundle's manifest and the reports need to know.
  DictionaryAttr describe() {
    NamedAttrList attributes;
    auto ids = [&](const std::vector<int64_t> &values) { return builder.getI64ArrayAttr(values); };
    StringRef dtype = model.dtype.isF32()    ? "float32"
                      : model.dtype.isBF16() ? "bfloat16"
                                             : "float16";
    attributes.set("kind", builder.getStringAttr("language_model"));
    attributes.set("name", builder.getStringAttr(model.name));
    attributes.set("family", builder.getStringAttr(model.family));
    attributes.set("dtype", builder.getStringAttr(dtype));
    attributes.set("vocab_size", builder.getI64IntegerAttr(model.vocabSize));
    attributes.set("hidden_size", builder.getI64IntegerAttr(model.hiddenSize));
    attributes.set("num_layers", builder.getI64IntegerAttr(model.layers.size()));
    attributes.set("max_seq_len", builder.getI64IntegerAttr(model.maxSeqLen));
    attributes.set("bos_token_ids", ids(model.bosTokenIds));
    attributes.set("eos_token_ids", ids(model.eosTokenIds));
    if (model.weightsAreAbsent)
      attributes.set("weights_are_absent", builder.getUnitAttr());
    return attributes.getDictionary(builder.getContext());
  }

  func::FuncOp createFunction(StringRef name, ArrayRef<std::pair<std::string, Type>> inputs,
                              ArrayRef<std::pair<std::string, Type>> outputs,
                              ArrayRef<StringRef> symbols) {
    SmallVector<Type> inputTypes, outputTypes;
    for (const auto &[_, type] : inputs)
      inputTypes.push_back(type);
    for (const auto &[_, type] : outputs)
      outputTypes.push_back(type);
    auto function =
        func::FuncOp::create(builder, loc, name, builder.getFunctionType(inputTypes, outputTypes));
    function->setAttr(AdaptDialect::kSymbols, builder.getStrArrayAttr(symbols));
    for (auto [index, input] : llvm::enumerate(inputs))
      function.setArgAttr(index, "adapt.name", builder.getStringAttr(input.first));
    for (auto [index, output] : llvm::enumerate(outputs))
      function.setResultAttr(index, "adapt.name", builder.getStringAttr(output.first));
    function.addEntryBlock();
    return function;
  }

  void buildMain() {
    SmallVector<std::pair<std::string, Type>> inputs = {
        {"token_ids", perToken}, {"positions", perToken},     {"seq_starts", seqStarts},
        {"kv_lens", kvLens},     {"block_table", blockTable}, {"logit_rows", logitRows}};
    SmallVector<std::pair<std::string, Type>> outputs = {{"logits", logits}};
    const size_t firstState = inputs.size();
    for (auto [layer, kind] : llvm::enumerate(model.layers))
      for (auto [index, type] : llvm::enumerate(getStateTypes(model.layerKinds[kind]))) {
        std::string name = "kv." + std::to_string(layer);
        if (index > 0)
          name += "." + std::to_string(index);
        inputs.push_back({name, type});
        outputs.push_back({name, type});
      }
    func::FuncOp function = createFunction("main", inputs, outputs, {"T", "S", "B", "L"});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());

    BlockBuilder blocks(builder, model.dtype);
    blocks.step.tokenIds = function.getArgument(0);
    blocks.step.logitRows = function.getArgument(5);
    auto frequencyType =
        RankedTensorType::get(int64_t(model.inverseFrequencies.size()), builder.getF32Type());
    auto table = RopeTableOp::create(
        builder, NameLoc::get(builder.getStringAttr("rope")), TypeRange{ropeTable, ropeTable},
        function.getArgument(1),
        DenseElementsAttr::get(frequencyType, ArrayRef<float>(model.inverseFrequencies)),
        builder.getF64FloatAttr(1.0));

    blocks.enter(*model.embedding);
    Value value = model.embedding->build(blocks, Value());
    SmallVector<Value> states;
    size_t nextState = firstState;
    for (auto [layer, kindIndex] : llvm::enumerate(model.layers)) {
      const LayerKind &kind = model.layerKinds[kindIndex];
      SmallVector<Value> operands = {value,
                                     table.getCosines(),
                                     table.getSines(),
                                     function.getArgument(2),
                                     function.getArgument(3),
                                     function.getArgument(4)};
      SmallVector<Type> results = {hidden};
      for (Type type : getStateTypes(kind)) {
        operands.push_back(function.getArgument(nextState++));
        results.push_back(type);
      }
      auto index = builder.getNamedAttr("layer", builder.getI64IntegerAttr(layer));
      auto call = CallOp::create(
          builder, NameLoc::get(builder.getStringAttr("layers." + std::to_string(layer))), results,
          FlatSymbolRefAttr::get(builder.getContext(), kind.name), operands,
          builder.getDictionaryAttr(index));
      value = call->getResult(0);
      llvm::append_range(states, call->getResults().drop_front());
    }
    blocks.enter(*model.head);
    SmallVector<Value> results = {model.head->build(blocks, value)};
    llvm::append_range(results, states);
    func::ReturnOp::create(builder, loc, results);
  }

  void buildLayer(const LayerKind &kind) {
    SmallVector<std::pair<std::string, Type>> inputs = {
        {"hidden", hidden},        {"cosines", ropeTable}, {"sines", ropeTable},
        {"seq_starts", seqStarts}, {"kv_lens", kvLens},    {"block_table", blockTable}};
    SmallVector<std::pair<std::string, Type>> outputs = {{"hidden", hidden}};
    const size_t firstState = inputs.size();
    for (auto [index, type] : llvm::enumerate(getStateTypes(kind))) {
      std::string name = index == 0 ? "kv" : "kv." + std::to_string(index);
      inputs.push_back({name, type});
      outputs.push_back({name, type});
    }
    func::FuncOp function = createFunction(kind.name, inputs, outputs, {"T", "S", "B"});
    function.setPrivate();
    function->setAttr(AdaptDialect::kIndices, builder.getStrArrayAttr({"layer"}));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());

    BlockBuilder blocks(builder, model.dtype);
    blocks.step.cosines = function.getArgument(1);
    blocks.step.sines = function.getArgument(2);
    blocks.step.seqStarts = function.getArgument(3);
    blocks.step.kvLens = function.getArgument(4);
    blocks.step.blockTable = function.getArgument(5);
    for (size_t i = firstState; i < inputs.size(); ++i)
      blocks.step.states.push_back(function.getArgument(i));
    Value value = function.getArgument(0);
    for (const std::unique_ptr<Block> &block : kind.blocks) {
      blocks.enter(*block);
      value = block->build(blocks, value);
    }
    SmallVector<Value> results = {value};
    llvm::append_range(results, blocks.step.states);
    func::ReturnOp::create(builder, loc, results);
  }

  const Model &model;
  OpBuilder builder;
  Location loc;
  RankedTensorType seqStarts, kvLens, blockTable, perToken, logitRows, hidden, logits, ropeTable;
};

} // namespace

OwningOpRef<ModuleOp> buildModel(MLIRContext *context, const Model &model) {
  context->loadDialect<AdaptDialect, func::FuncDialect>();
  return ModelBuilder(context, model).build();
}

} // namespace adapt
