#include "Blocks/BlockBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace adapt {

// Blocks are named in locations, so that whatever becomes of their operations can be told.
void BlockBuilder::enter(const Block &block) {
  loc = NameLoc::get(builder.getStringAttr(block.name));
}

Value BlockBuilder::buildRecipe(const WeightExpr &expr, Location loc) {
  SmallVector<Value> operands;
  for (const WeightExpr &operand : expr.operands)
    operands.push_back(buildRecipe(operand, loc));
  Type element = operands.empty() ? (expr.element ? expr.element : dtype)
                                  : cast<RankedTensorType>(operands[0].getType()).getElementType();
  auto type = RankedTensorType::get(expr.shape, element);
  switch (expr.kind) {
  case WeightExpr::Kind::Source:
    return SourceOp::create(builder, loc, type, builder.getStringAttr(expr.source));
  case WeightExpr::Kind::Slice:
    return SliceOp::create(
        builder, loc, type, operands[0], builder.getDenseI64ArrayAttr(expr.numbers),
        builder.getDenseI64ArrayAttr(SmallVector<int64_t>(expr.shape.size(), 1)));
  case WeightExpr::Kind::Transpose:
    return TransposeOp::create(builder, loc, type, operands[0],
                               builder.getDenseI64ArrayAttr(expr.numbers));
  case WeightExpr::Kind::Reshape:
    return ReshapeOp::create(builder, loc, type, operands[0]);
  case WeightExpr::Kind::Concat: {
    // Parts stored in different types meet in the model's.
    for (Value &operand : operands) {
      auto partType = cast<RankedTensorType>(operand.getType());
      if (partType.getElementType() != dtype)
        operand = CastOp::create(builder, loc, partType.clone(dtype), operand);
    }
    return ConcatOp::create(builder, loc, type.clone(dtype), operands,
                            builder.getI64IntegerAttr(expr.axis));
  }
  }
  llvm_unreachable("all kinds are handled");
}

Value BlockBuilder::param(const Block &block, WeightRef ref) {
  const Weight &weight = block.weights[ref];
  Value &known = params[weight.name];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(builder);
  auto type = RankedTensorType::get(weight.getShape(), dtype);
  auto param = ParamOp::create(builder, getLoc(), type, builder.getStringAttr(weight.name));
  param->setAttr("adapt.part", builder.getStringAttr(weight.part));
  if (weight.shard)
    param->setAttr(AdaptDialect::kShard,
                   ShardAttr::get(builder.getContext(), weight.shard->axis, weight.shard->heads,
                                  weight.shard->queries));
  builder.createBlock(&param.getBody());
  Value value = buildRecipe(weight.value, getLoc());
  if (value.getType() != type)
    value = CastOp::create(builder, getLoc(), type, value);
  YieldOp::create(builder, getLoc(), ValueRange(value));
  return known = param.getResult();
}

Value BlockBuilder::linear(const Block &block, const Linear &linear, Value input) {
  return this->linear(block, linear, input, dtype);
}

Value BlockBuilder::linear(const Block &block, const Linear &linear, Value input, Type element) {
  Value weight = param(block, linear.weight);
  SmallVector<AffineExpr> dims = getDims(cast<RankedTensorType>(input.getType()));
  dims.back() = getDims(cast<RankedTensorType>(weight.getType()))[0];
  RankedTensorType type = getTensorType(dims, element);
  Value result = MatmulOp::create(builder, getLoc(), type, input, weight);
  if (!linear.bias)
    return result;
  Value bias = param(block, *linear.bias);
  if (element != dtype) {
    auto biasType = cast<RankedTensorType>(bias.getType());
    bias = CastOp::create(builder, getLoc(), biasType.clone(element), bias);
  }
  int64_t lastAxis = type.getRank() - 1;
  Value broadcast =
      BroadcastOp::create(builder, getLoc(), type, bias, builder.getDenseI64ArrayAttr({lastAxis}));
  return add(result, broadcast);
}

Value BlockBuilder::norm(const Block &block, const Norm &norm, Value input) {
  return RmsNormOp::create(builder, getLoc(), input.getType(), input, param(block, norm.weight),
                           builder.getF64FloatAttr(norm.epsilon));
}

Value BlockBuilder::add(Value lhs, Value rhs) {
  return AddOp::create(builder, getLoc(), lhs.getType(), lhs, rhs);
}

Value BlockBuilder::reshape(Value input, ArrayRef<int64_t> trailing) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<AffineExpr> dims = {getDims(type)[0]};
  for (int64_t size : trailing)
    dims.push_back(builder.getAffineConstantExpr(size));
  return ReshapeOp::create(builder, getLoc(), getTensorType(dims, type.getElementType()), input);
}

} // namespace adapt
