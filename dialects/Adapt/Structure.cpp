#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace adapt;

//===----------------------------------------------------------------------===//
// What a call and a launch share
//===----------------------------------------------------------------------===//

namespace {
// All differences at once between a call's types and its callee's.
LogicalResult verifyTypes(Operation *op, StringRef callee, FunctionType type, TypeRange operands,
                          TypeRange results) {
  auto check = [&](TypeRange have, TypeRange want, StringRef kind) -> LogicalResult {
    if (have.size() != want.size())
      return op->emitOpError() << "has " << have.size() << ' ' << kind << "s, @" << callee
                               << " has " << want.size();
    LogicalResult result = success();
    for (auto [index, pair] : llvm::enumerate(llvm::zip_equal(have, want)))
      if (std::get<0>(pair) != std::get<1>(pair))
        result = op->emitOpError() << kind << ' ' << index << " has type " << std::get<0>(pair)
                                   << ", @" << callee << " has " << std::get<1>(pair);
    return result;
  };
  LogicalResult first = check(operands, type.getInputs(), "operand");
  LogicalResult second = check(results, type.getResults(), "result");
  return failure(failed(first) || failed(second));
}

// The n-th state operand for the n-th state result.
OpOperand &getTiedByOrder(Operation *op, OpResult result) {
  unsigned skip = llvm::count_if(op->getResults().take_front(result.getResultNumber()),
                                 [](Value v) { return isa<PagedType>(v.getType()); });
  for (OpOperand &operand : op->getOpOperands())
    if (isa<PagedType>(operand.get().getType()) && skip-- == 0)
      return operand;
  llvm_unreachable("the verifier demands as many state operands as results");
}

LogicalResult verifyStates(Operation *op) {
  auto states = [](ValueRange values) {
    SmallVector<Type> types;
    for (Value value : values)
      if (isa<PagedType>(value.getType()))
        types.push_back(value.getType());
    return types;
  };
  if (states(op->getOperands()) != states(op->getResults()))
    return op->emitOpError("must return the states that it takes, in order");
  return success();
}
} // namespace

//===----------------------------------------------------------------------===//
// call
//===----------------------------------------------------------------------===//

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "calls @" << getCallee() << ", which is not a function of this module";
  if (failed(verifyTypes(*this, getCallee(), callee.getFunctionType(), getOperandTypes(),
                         getResultTypes())) ||
      failed(verifyStates(*this)))
    return failure();
  SmallVector<StringRef> names = getNames(callee, AdaptDialect::kIndices);
  for (StringRef name : names)
    if (!getIndices().getAs<IntegerAttr>(name))
      return emitOpError() << "does not bind the index '" << name << "' of @" << getCallee();
  for (NamedAttribute index : getIndices())
    if (!llvm::is_contained(names, index.getName().getValue()))
      return emitOpError() << "binds '" << index.getName().getValue()
                           << "', which is not an index of @" << getCallee();
  return success();
}

OpOperand &CallOp::getTiedOperand(OpResult result) { return getTiedByOrder(*this, result); }

//===----------------------------------------------------------------------===//
// dispatch
//===----------------------------------------------------------------------===//

LogicalResult DispatchOp::verify() {
  auto yield = dyn_cast<YieldOp>(getBody().front().getTerminator());
  if (!yield)
    return emitOpError("must end in adapt.yield");
  if (yield.getOperandTypes() != getResultTypes())
    return emitOpError() << "yields " << yield.getOperandTypes() << " but has results "
                         << getResultTypes();
  return success();
}

// Follows a state backwards through the region to the value from above.
OpOperand &DispatchOp::getTiedOperand(OpResult result) {
  OpOperand *operand = &getBody().front().getTerminator()->getOpOperand(result.getResultNumber());
  while (Operation *producer = operand->get().getDefiningOp()) {
    if (!getBody().isAncestor(producer->getParentRegion()))
      break;
    operand = &cast<StateOpInterface>(producer).getTiedOperand(cast<OpResult>(operand->get()));
  }
  return *operand;
}

//===----------------------------------------------------------------------===//
// kernel
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type,
                     ArrayRef<StringRef> symbols) {
  state.addAttribute(SymbolTable::getSymbolAttrName(), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  state.addAttribute(AdaptDialect::kSymbols, builder.getStrArrayAttr(symbols));
  Block &block = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult KernelOp::verify() {
  if (getBody().empty())
    return emitOpError("must have a body");
  auto yield = dyn_cast<YieldOp>(getBody().front().getTerminator());
  if (!yield)
    return emitOpError("must end in adapt.yield");
  if (yield.getOperandTypes() != TypeRange(getResultTypes()))
    return emitOpError() << "yields " << yield.getOperandTypes() << " but has results "
                         << getResultTypes();
  for (auto [index, type] : llvm::enumerate(getResultTypes()))
    if (isa<PagedType>(type) && !getTiedArgument(index))
      return emitOpError() << "result " << index << " is a state but none of the arguments' states";
  if (!getOperation()->hasAttr(AdaptDialect::kSymbols))
    return emitOpError() << "must list its sizes in " << AdaptDialect::kSymbols;
  return success();
}

SmallVector<StringRef> KernelOp::getSymbols() { return getNames(*this, AdaptDialect::kSymbols); }

BlockArgument KernelOp::getTiedArgument(unsigned result) {
  Value value = getBody().front().getTerminator()->getOperand(result);
  while (auto producer = value.getDefiningOp<StateOpInterface>())
    value = producer.getTiedOperand(cast<OpResult>(value)).get();
  return dyn_cast<BlockArgument>(value);
}

//===----------------------------------------------------------------------===//
// launch
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "launches @" << getKernel() << ", which is not a kernel of this module";
  SmallVector<StringRef> names = kernel.getSymbols();
  ArrayRef<AffineExpr> sizes = getSizes().getExprs();
  if (names.size() != sizes.size())
    return emitOpError() << "passes " << sizes.size() << " sizes, @" << getKernel() << " has "
                         << names.size();
  // The kernel's types with its own sizes replaced by the caller's.
  DenseMap<AffineExpr, AffineExpr> map;
  for (auto [name, size] : llvm::zip_equal(names, sizes))
    map[getSymbolExpr(getContext(), name)] = size;
  auto substitute = [&](TypeRange types) {
    SmallVector<Type> result;
    for (Type type : types) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || !isa_and_nonnull<DimsAttr>(tensor.getEncoding())) {
        result.push_back(type);
        continue;
      }
      SmallVector<AffineExpr> dims;
      for (AffineExpr dim : getDims(tensor))
        dims.push_back(dim.replace(map));
      result.push_back(getTensorType(dims, tensor.getElementType()));
    }
    return result;
  };
  auto type = FunctionType::get(getContext(), substitute(kernel.getArgumentTypes()),
                                substitute(kernel.getResultTypes()));
  return failure(
      failed(verifyTypes(*this, getKernel(), type, getOperandTypes(), getResultTypes())) ||
      failed(verifyStates(*this)));
}

OpOperand &LaunchOp::getTiedOperand(OpResult result) { return getTiedByOrder(*this, result); }
