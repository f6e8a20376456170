#include "GraphImporter.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace adapt;
using namespace adapt::import;

namespace {
/// Data up to this size is a constant in the module.
constexpr uint64_t kMaxConstantBytes = 1024;
/// Tensors of at most so many integers are followed element by element.
constexpr int64_t kMaxContents = 64;
constexpr size_t kMaxShown = 6;

std::string list(ArrayRef<std::string> names) {
  std::string text = llvm::join(names.take_front(kMaxShown), ", ");
  if (names.size() > kMaxShown)
    text += " and " + std::to_string(names.size() - kMaxShown) + " more";
  return text;
}

/// A name that #adapt.dims can hold.
std::string toSymbol(StringRef name) {
  std::string symbol;
  for (char c : name)
    symbol += llvm::isAlnum(c) || c == '_' ? c : '_';
  if (symbol.empty() || llvm::isDigit(symbol[0]) || symbol == "floordiv" || symbol == "ceildiv" ||
      symbol == "mod")
    symbol = "_" + symbol;
  return symbol;
}
} // namespace

Type import::getElementType(MLIRContext *context, int onnxType) {
  Builder builder(context);
  switch (toWeightsType(onnxType)) {
  case schema::F64:
    return builder.getF64Type();
  case schema::F32:
    return builder.getF32Type();
  case schema::F16:
    return builder.getF16Type();
  case schema::BF16:
    return builder.getBF16Type();
  case schema::I64:
    return builder.getI64Type();
  case schema::I32:
    return builder.getI32Type();
  case schema::I16:
    return builder.getI16Type();
  case schema::I8:
    return builder.getI8Type();
  case schema::BOOL:
    return builder.getI1Type();
  default:
    return {}; // The dialect computes with signed integers only.
  }
}

GraphImporter::GraphImporter(MLIRContext *context, OnnxFile &file)
    : context(context), file(file), builder(context) {}

void GraphImporter::addProblem(const Twine &where, const Twine &message) {
  problems[message.str()].push_back(where.str());
}

OwningOpRef<ModuleOp> GraphImporter::run() {
  Location loc = NameLoc::get(builder.getStringAttr(file.path()));
  module = ModuleOp::create(builder, loc);
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, loc, "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  for (const auto &node : file.graph().node())
    for (const std::string &input : node.input())
      used.insert(input);
  for (const auto &output : file.graph().output())
    used.insert(output.name());

  importInputs();
  importNodes();
  if (problems.empty() && unsupported.empty())
    checkInferred();
  if (problems.empty() && unsupported.empty())
    returnOutputs();
  if (failed(report()))
    return {};

  SmallVector<StringRef> names(symbols.begin(), symbols.end());
  function->setAttr(AdaptDialect::kSymbols, builder.getStrArrayAttr(names));
  function->setAttr("adapt.entry", builder.getStringAttr("graph"));
  NamedAttrList limits, model;
  for (const auto &[name, range] : bounds)
    limits.set(name, builder.getI64ArrayAttr({range.first, range.second}));
  module->getOperation()->setAttr("adapt.size_bounds", limits.getDictionary(context));
  model.set("kind", builder.getStringAttr("graph"));
  model.set("name", builder.getStringAttr(llvm::sys::path::stem(file.path())));
  module->getOperation()->setAttr("adapt.model", model.getDictionary(context));
  return std::move(module);
}

LogicalResult GraphImporter::report() {
  if (problems.empty() && unsupported.empty())
    return success();
  InFlightDiagnostic error = function.emitError();
  if (!unsupported.empty()) {
    error << unsupported.size() << (unsupported.size() == 1 ? " operator" : " operators")
          << " cannot be imported:";
    for (auto &[op, names] : unsupported)
      error << "\n  " << op << ": " << names.size() << (names.size() == 1 ? " node (" : " nodes (")
            << list(names) << ")";
  }
  if (!problems.empty()) {
    error << (unsupported.empty() ? "" : "\n") << "the graph cannot be imported:";
    for (auto &[message, places] : problems)
      error << "\n  " << list(places) << ": " << message;
  }
  return failure();
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

AffineExpr GraphImporter::declareSymbol(StringRef name) {
  if (!llvm::is_contained(symbols, name))
    symbols.push_back(name.str());
  return getSymbolExpr(context, name);
}

/// "seq", "past + seq", "2*seq": names, numbers, + and *. Null for anything else; with `onlyKnown`
/// also where a name is not the whole of some dimension.
AffineExpr GraphImporter::parseDimension(StringRef text, bool onlyKnown) {
  SmallVector<StringRef> terms, factors;
  text.split(terms, '+');
  AffineExpr sum = builder.getAffineConstantExpr(0);
  for (StringRef term : terms) {
    factors.clear();
    term.split(factors, '*');
    AffineExpr product = builder.getAffineConstantExpr(1);
    for (StringRef factor : factors) {
      factor = factor.trim();
      int64_t number;
      if (!factor.getAsInteger(10, number))
        product = product * number;
      else if (!factor.empty() && toSymbol(factor) == factor &&
               (!onlyKnown || plainDimensions.contains(factor)))
        product = product * declareSymbol(factor);
      else
        return {};
    }
    sum = sum + product;
  }
  return canonicalizeSize(sum);
}

std::optional<SmallVector<AffineExpr>> GraphImporter::getInputDims(const onnx::TypeProto &type,
                                                                   StringRef name) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) {
    addProblem("input '" + name + "'", "is no tensor of a known rank");
    return std::nullopt;
  }
  SmallVector<AffineExpr> dims;
  for (auto [axis, dim] : llvm::enumerate(type.tensor_type().shape().dim())) {
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0) {
        addProblem("input '" + name + "'", "has a negative size on axis " + Twine(axis));
        return std::nullopt;
      }
      dims.push_back(builder.getAffineConstantExpr(dim.dim_value()));
      continue;
    }
    AffineExpr size;
    if (!dim.dim_param().empty())
      size = parseDimension(dim.dim_param(), /*onlyKnown=*/true);
    if (!size)
      size = declareSymbol(dim.dim_param().empty() ? toSymbol((name + "_" + Twine(axis)).str())
                                                   : toSymbol(dim.dim_param()));
    dims.push_back(size);
  }
  return dims;
}

void GraphImporter::importInputs() {
  SmallVector<const onnx::ValueInfoProto *> inputs;
  for (const auto &input : file.graph().input())
    if (!file.findInitializer(input.name()))
      inputs.push_back(&input); // Others are defaults: constants here.
  for (const auto *input : inputs)
    for (const auto &dim : input->type().tensor_type().shape().dim())
      if (toSymbol(dim.dim_param()) == dim.dim_param())
        plainDimensions.insert(dim.dim_param());
  Block &block = function.getBody().front();
  SmallVector<Type> types;
  SmallVector<std::string> names;
  for (const auto *input : inputs) {
    auto dims = getInputDims(input->type(), input->name());
    if (!dims)
      continue;
    Type element = getElementType(context, input->type().tensor_type().elem_type());
    if (!element) {
      addProblem("input '" + input->name() + "'",
                 "elements of type " +
                     onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(
                         input->type().tensor_type().elem_type())) +
                     " are not supported");
      continue;
    }
    RankedTensorType type = getTensorType(*dims, element);
    types.push_back(type);
    names.push_back(input->name());
    OnnxValue value;
    value.type = type;
    value.value = block.addArgument(type, function.getLoc());
    value.isInput = true;
    values[input->name()] = std::move(value);
  }
  function.setType(builder.getFunctionType(types, {}));
  for (auto [index, name] : llvm::enumerate(names))
    function.setArgAttr(index, "adapt.name", builder.getStringAttr(name));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

OnnxValue *GraphImporter::find(const std::string &name) {
  auto it = values.find(name);
  if (it != values.end())
    return it->second.type ? &it->second : nullptr;
  return bindInitializer(name);
}

OnnxValue *GraphImporter::bindInitializer(const std::string &name) {
  const onnx::TensorProto *tensor = file.findInitializer(name);
  OnnxValue &value = values[name];
  if (!tensor)
    return nullptr;
  Type element = getElementType(context, tensor->data_type());
  if (!element) {
    addProblem("initialiser '" + name + "'",
               "elements of type " +
                   onnx::TensorProto::DataType_Name(
                       static_cast<onnx::TensorProto::DataType>(tensor->data_type())) +
                   " are not supported");
    return nullptr;
  }
  value.type = RankedTensorType::get(
      SmallVector<int64_t>(tensor->dims().begin(), tensor->dims().end()), element);
  value.initializer = name;
  absl::StatusOr<weights::SourceTensor> data = file.source(OnnxFile::sourceName(name));
  bool isInteger = isa<IntegerType>(element);
  if (data->data.size() > kMaxConstantBytes)
    return &value;
  ArrayRef<char> bytes(reinterpret_cast<const char *>(data->data.data()), data->data.size());
  if (element.isInteger(1)) {
    SmallVector<bool> flags;
    for (char byte : bytes)
      flags.push_back(byte != 0);
    value.constant = DenseElementsAttr::get(value.type, flags);
  } else {
    value.constant = DenseElementsAttr::getFromRawBuffer(value.type, bytes);
  }
  if (isInteger && value.type.getNumElements() <= kMaxContents) {
    value.contents.emplace();
    for (const APInt &number : value.constant.getValues<APInt>())
      value.contents->push_back(builder.getAffineConstantExpr(
          element.isInteger(1) ? number.getZExtValue() : number.getSExtValue()));
  }
  return &value;
}

Value GraphImporter::createParam(const std::string &initializer, bool transposed) {
  std::string name = OnnxFile::sourceName(initializer) + (transposed ? ".transposed" : "");
  Value &param = params[name];
  if (param)
    return param;
  OnnxValue *value = find(initializer);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&function.getBody().front());
  Location loc = NameLoc::get(builder.getStringAttr(initializer));
  RankedTensorType type = value->type, stored = type;
  if (transposed)
    type = RankedTensorType::get({stored.getDimSize(1), stored.getDimSize(0)},
                                 stored.getElementType());
  auto op = ParamOp::create(builder, loc, type, name);
  builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
  Value source = SourceOp::create(builder, loc, stored,
                                  builder.getStringAttr(OnnxFile::sourceName(initializer)));
  if (transposed)
    source = TransposeOp::create(builder, loc, type, source, ArrayRef<int64_t>{1, 0});
  YieldOp::create(builder, loc, source);
  param = op.getResult();
  return param;
}

Value GraphImporter::materialize(OnnxValue &value) {
  if (value.value)
    return value.value;
  Location loc = builder.getUnknownLoc();
  if (value.constant) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&function.getBody().front());
    value.value = ConstantOp::create(builder, loc, value.constant);
  } else if (!value.initializer.empty()) {
    value.value = createParam(value.initializer, /*transposed=*/false);
  } else if (value.contents) {
    auto isConstant = llvm::IsaPred<AffineConstantExpr>;
    Type element = value.type.getElementType();
    if (llvm::all_of(*value.contents, isConstant)) {
      SmallVector<Attribute> elements;
      unsigned width = element.getIntOrFloatBitWidth();
      for (AffineExpr size : *value.contents)
        elements.push_back(builder.getIntegerAttr(
            element, APInt(64, cast<AffineConstantExpr>(size).getValue()).sextOrTrunc(width)));
      value.value = ConstantOp::create(builder, loc, DenseElementsAttr::get(value.type, elements));
      return value.value;
    }
    auto one = RankedTensorType::get({1}, element);
    SmallVector<Value> parts;
    for (AffineExpr size : *value.contents)
      parts.push_back(IotaOp::create(builder, loc, one, DimsAttr::get(context, size), 1));
    auto flat = RankedTensorType::get({static_cast<int64_t>(parts.size())}, element);
    Value whole =
        parts.size() == 1 ? parts[0] : ConcatOp::create(builder, loc, flat, parts, 0).getResult();
    value.value = whole.getType() == value.type
                      ? whole
                      : ReshapeOp::create(builder, loc, value.type, whole).getResult();
  }
  return value.value;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

namespace {
/// The handler of an operator with the greatest version that the model's is not below; null if
/// there is none.
const Handler *findHandler(StringRef domain, StringRef op, int64_t version) {
  static const auto handlers = [] {
    std::map<std::pair<StringRef, StringRef>, SmallVector<const Handler *>> map;
    for (ArrayRef<Handler> category :
         {getElementwiseHandlers(), getIndexingHandlers(), getLinearHandlers(),
          getMicrosoftHandlers(), getNormalizationHandlers(), getReductionHandlers(),
          getShapeHandlers()})
      for (const Handler &handler : category)
        map[{handler.domain, handler.op}].push_back(&handler);
    return map;
  }();
  const Handler *best = nullptr;
  if (auto it = handlers.find({domain, op}); it != handlers.end())
    for (const Handler *handler : it->second)
      if (handler->version <= version && (!best || handler->version > best->version))
        best = handler;
  return best;
}
} // namespace

void GraphImporter::importNodes() {
  for (const auto &proto : file.graph().node()) {
    StringRef domain = toDomain(proto.domain());
    const Handler *best = findHandler(domain, proto.op_type(), file.opset(domain));
    Node node(*this, proto, best ? best->version : 0);
    // Its outputs exist, as failed ones until the handler sets them.
    for (const std::string &output : proto.output())
      values[output];
    if (!best) {
      std::string op = domain.empty() ? proto.op_type() : proto.domain() + "." + proto.op_type();
      unsupported[op].push_back(node.name());
      continue;
    }
    bool isReachable = llvm::all_of(
        proto.input(), [&](const std::string &input) { return input.empty() || find(input); });
    if (isReachable) // Else something before it failed, and that is said.
      runHandler(*best, node);
  }
}

/// Results against what the onnx library infers by itself, as far as that is known.
void GraphImporter::checkInferred() {
  const llvm::StringMap<onnx::TypeProto> types = file.inferTypes();
  for (const auto &node : file.graph().node())
    for (const std::string &name : node.output()) {
      auto value = values.find(name);
      auto inferred = types.find(name);
      if (value != values.end() && value->second.type && inferred != types.end() &&
          inferred->second.has_tensor_type())
        checkInferred(node, name, value->second.type, inferred->second.tensor_type());
    }
}

void GraphImporter::checkInferred(const onnx::NodeProto &node, const std::string &output,
                                  RankedTensorType type, const onnx::TypeProto_Tensor &inferred) {
  bool agrees = getElementType(context, inferred.elem_type()) == type.getElementType();
  std::string shape;
  if (inferred.has_shape()) {
    agrees &= inferred.shape().dim_size() == type.getRank();
    SmallVector<AffineExpr> dims = getDims(type);
    for (auto [axis, dim] : llvm::enumerate(inferred.shape().dim())) {
      auto size = axis < dims.size() ? dyn_cast<AffineConstantExpr>(dims[axis]) : nullptr;
      agrees &= !size || !dim.has_dim_value() || size.getValue() == dim.dim_value();
      shape += (axis ? ", " : "") + (dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
    }
  }
  if (!agrees)
    addProblem("'" + node.name() + "'",
               node.op_type() + ": output '" + output + "' would be " + shapeToString(type) +
                   ", where the onnx library infers [" + shape + "] of " +
                   onnx::TensorProto::DataType_Name(
                       static_cast<onnx::TensorProto::DataType>(inferred.elem_type())));
}

void GraphImporter::checkOperation(Node &node, Operation &operation) {
  if (node.failed())
    return;
  for (Type result : operation.getResultTypes())
    if (auto type = dyn_cast<RankedTensorType>(result); type && !isSoundType(type))
      return node.fail(
          "would make a tensor of " +
          (llvm::any_of(type.getShape(),
                        [](int64_t size) { return size < 0 && !ShapedType::isDynamic(size); })
               ? std::string("negative size")
               : std::string("2^60 elements or more")));
  std::string message;
  ScopedDiagnosticHandler capture(context, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  if (mlir::failed(verify(&operation)))
    node.fail("cannot be expressed: " + message);
}

/// A handler checks what it relies on; what makes an invalid operation all the same, say for
/// element types that the operation does not have, is the verifiers' to tell.
void GraphImporter::runHandler(const Handler &handler, Node &node) {
  Block &block = function.getBody().front();
  Operation *before = block.empty() ? nullptr : &block.back();
  handler.run(node);
  for (Operation &operation :
       llvm::make_range(before ? std::next(before->getIterator()) : block.begin(), block.end()))
    checkOperation(node, operation);
  if (node.failed()) // Nothing is built on what it set.
    for (size_t i = 0; i < node.numOutputs(); ++i)
      node.unset(i);
}

void GraphImporter::returnOutputs() {
  SmallVector<Value> results;
  SmallVector<Type> types;
  llvm::StringSet<> names;
  for (const auto &output : file.graph().output()) {
    if (!names.insert(output.name()).second)
      addProblem("output '" + output.name() + "'", "is given twice");
    // A bundle's inputs and outputs are told apart by their names.
    if (auto it = values.find(output.name()); it != values.end() && it->second.isInput)
      addProblem("output '" + output.name() + "'",
                 "is also an input of the graph: put an Identity between");
    OnnxValue *value = find(output.name());
    if (!value) {
      addProblem("output '" + output.name() + "'", "nothing computes it");
      continue;
    }
    results.push_back(materialize(*value));
    types.push_back(value->type);
  }
  func::ReturnOp::create(builder, function.getLoc(), results);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), types));
  for (auto [index, output] : llvm::enumerate(file.graph().output()))
    if (index < types.size())
      function.setResultAttr(index, "adapt.name", builder.getStringAttr(output.name()));
}

//===----------------------------------------------------------------------===//
// The import
//===----------------------------------------------------------------------===//

FailureOr<ImportedGraph> adapt::importOnnx(MLIRContext *context, const std::string &path) {
  context->loadDialect<AdaptDialect, func::FuncDialect>();
  llvm::Expected<std::shared_ptr<OnnxFile>> file = OnnxFile::open(path);
  if (!file)
    return emitError(UnknownLoc::get(context)) << llvm::toString(file.takeError());
  OwningOpRef<ModuleOp> module = GraphImporter(context, **file).run();
  if (!module)
    return failure();
  return ImportedGraph{std::move(module), *file};
}
