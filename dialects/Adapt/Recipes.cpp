#include "dialects/Adapt/Recipes.h"

using namespace mlir;
using namespace adapt;

FailureOr<schema::ElementType> adapt::toElementType(Type type) {
  if (type.isF64())
    return schema::F64;
  if (type.isF32())
    return schema::F32;
  if (type.isF16())
    return schema::F16;
  if (type.isBF16())
    return schema::BF16;
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return failure();
  switch (integer.getWidth()) {
  case 64:
    return integer.isUnsigned() ? schema::U64 : schema::I64;
  case 32:
    return integer.isUnsigned() ? schema::U32 : schema::I32;
  case 16:
    return integer.isUnsigned() ? schema::U16 : schema::I16;
  case 8:
    return integer.isUnsigned() ? schema::U8 : schema::I8;
  case 1:
    return schema::BOOL;
  default:
    return failure();
  }
}

LogicalResult adapt::toTensorType(RankedTensorType type, schema::TensorType &result) {
  FailureOr<schema::ElementType> element = toElementType(type.getElementType());
  if (failed(element) || !type.hasStaticShape())
    return failure();
  result.set_element(*element);
  for (int64_t size : type.getShape())
    result.add_shape(size);
  if (auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding())) {
    result.mutable_layout()->set_n(packed.getN());
    result.mutable_layout()->set_k(packed.getK());
  } else if (type.getEncoding()) {
    return failure();
  }
  return success();
}

LogicalResult adapt::toRecipe(ParamOp param, schema::Recipe &recipe) {
  recipe.Clear();
  llvm::DenseMap<Value, uint32_t> numbers;
  auto addNode = [&](Operation &op) -> LogicalResult {
    auto recipeOp = dyn_cast<RecipeOpInterface>(op);
    if (!recipeOp || op.getNumResults() != 1)
      return op.emitOpError("cannot be part of a recipe (param ") << param.getName() << ")";
    schema::RecipeNode &node = *recipe.add_nodes();
    if (failed(
            toTensorType(cast<RankedTensorType>(op.getResult(0).getType()), *node.mutable_type())))
      return op.emitOpError("has a type that recipes do not have: ") << op.getResult(0).getType();
    for (Value operand : op.getOperands())
      node.add_operands(numbers.lookup(operand));
    numbers[op.getResult(0)] = recipe.nodes_size() - 1;
    return recipeOp.toRecipe(node);
  };
  // The yielded value comes last, whatever else stands behind it in the block (nothing uses that).
  Operation *last = param.getYielded().getDefiningOp();
  for (Operation &op : param.getBody().front()) {
    if (failed(addNode(op)))
      return failure();
    if (&op == last)
      return success();
  }
  return param.emitOpError("yields no value of its region");
}

void adapt::exportExpr(AffineExpr expr, schema::Expr &out) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    out.set_constant(constant.getValue());
    return;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    out.set_symbol(getSymbolName(symbol).str());
    return;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  schema::BinaryExpr &node = *out.mutable_binary();
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    node.set_kind(schema::BinaryExpr::ADD);
    break;
  case AffineExprKind::Mul:
    node.set_kind(schema::BinaryExpr::MUL);
    break;
  case AffineExprKind::FloorDiv:
    node.set_kind(schema::BinaryExpr::FLOORDIV);
    break;
  case AffineExprKind::CeilDiv:
    node.set_kind(schema::BinaryExpr::CEILDIV);
    break;
  default:
    node.set_kind(schema::BinaryExpr::MOD);
    break;
  }
  exportExpr(binary.getLHS(), *node.mutable_lhs());
  exportExpr(binary.getRHS(), *node.mutable_rhs());
}
