#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/Common/Structure.h"
#include "passes/Fuse/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace adapt {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "passes/Fuse/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
// Names grow no longer than this many operations and sizes.
constexpr size_t kMaxNameOps = 4;

/// "layer_matmul_add_576x1536": where it was first found, what it computes, its static sizes.
std::string makeName(func::FuncOp function, KernelOp kernel) {
  SmallVector<StringRef> ops;
  RankedTensorType sizes;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (isa<ConstantOp, SliceOp, ReshapeOp>(op))
      continue;
    StringRef name = op.getName().stripDialect();
    if (!llvm::is_contained(ops, name) && ops.size() < kMaxNameOps)
      ops.push_back(name);
    if (auto matmul = dyn_cast<MatmulOp>(op))
      sizes = cast<RankedTensorType>(matmul.getWeight().getType());
  }
  if (ops.empty())
    ops.push_back(kernel.getBody().front().front().getName().stripDialect());
  if (!sizes) {
    Operation *yield = kernel.getBody().front().getTerminator();
    for (Type type : yield->getOperandTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && !sizes)
        sizes = tensor;
  }
  std::string name = function.getSymName().str();
  for (StringRef op : ops)
    name += ("_" + op).str();
  if (!sizes)
    return name;
  char separator = '_';
  for (int64_t size : sizes.getShape())
    if (!ShapedType::isDynamic(size)) {
      name += separator + std::to_string(size);
      separator = 'x';
    }
  return name;
}

struct OutlineKernels : adapt::impl::OutlineKernelsBase<OutlineKernels> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable table(module);
    llvm::StringMap<KernelOp> known; // by text without a name
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      SmallVector<DispatchOp> dispatches(function.getOps<DispatchOp>());
      for (DispatchOp dispatch : dispatches) {
        llvm::SetVector<Value> inputs;
        getUsedValuesDefinedAbove(dispatch.getBody(), inputs);
        llvm::SetVector<StringRef> symbols;
        KernelOp kernel = makeKernel(dispatch, inputs.getArrayRef(), symbols);

        std::string text;
        llvm::raw_string_ostream os(text);
        kernel->print(os, OpPrintingFlags().useLocalScope());
        KernelOp &entry = known[text];
        if (entry) {
          kernel->erase();
        } else {
          entry = kernel;
          kernel.setSymName(makeName(function, kernel));
          table.insert(kernel, Block::iterator(function)); // Makes the name unique.
          ++numKernels;
        }
        ++numLaunches;

        OpBuilder builder(dispatch);
        SmallVector<AffineExpr> sizes;
        for (StringRef symbol : symbols)
          sizes.push_back(getSymbolExpr(&getContext(), symbol));
        auto launch = LaunchOp::create(builder, dispatch.getLoc(), dispatch.getResultTypes(),
                                       entry.getSymName(), inputs.getArrayRef(),
                                       DimsAttr::get(&getContext(), sizes));
        dispatch->replaceAllUsesWith(launch->getResults());
        dispatch.erase();
      }
    }
  }

  /// The dispatch as a kernel outside of the module, its sizes renamed. `symbols` are the sizes'
  /// names in the function, in the kernel's order.
  KernelOp makeKernel(DispatchOp dispatch, ArrayRef<Value> inputs,
                      llvm::SetVector<StringRef> &symbols) {
    MLIRContext *context = &getContext();
    for (Value input : inputs)
      collectSymbols(input.getType(), symbols);
    for (Type type : dispatch.getResultTypes())
      collectSymbols(type, symbols);
    dispatch.getBody().walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        collectSymbols(type, symbols);
      for (NamedAttribute attribute : op->getAttrs())
        if (auto dims = dyn_cast<DimsAttr>(attribute.getValue()))
          for (AffineExpr size : dims.getExprs())
            collectSymbols(size, symbols);
    });
    DenseMap<AffineExpr, AffineExpr> rename;
    SmallVector<std::string> names;
    for (auto [index, symbol] : llvm::enumerate(symbols)) {
      names.push_back("s" + std::to_string(index));
      rename[getSymbolExpr(context, symbol)] = getSymbolExpr(context, names.back());
    }
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](DimsAttr dims) {
      SmallVector<AffineExpr> exprs;
      for (AffineExpr expr : dims.getExprs())
        exprs.push_back(expr.replace(rename));
      return DimsAttr::get(context, exprs);
    });

    SmallVector<Type> inputTypes, resultTypes;
    for (Value input : inputs)
      inputTypes.push_back(replacer.replace(input.getType()));
    for (Type type : dispatch.getResultTypes())
      resultTypes.push_back(replacer.replace(type));
    OpBuilder builder(context);
    SmallVector<StringRef> nameRefs(names.begin(), names.end());
    auto kernel = KernelOp::create(builder, dispatch.getLoc(), "kernel",
                                   FunctionType::get(context, inputTypes, resultTypes), nameRefs);
    Block &body = kernel.getBody().front();
    IRMapping mapping;
    mapping.map(inputs, body.getArguments());
    builder.setInsertionPointToEnd(&body);
    for (Operation &op : dispatch.getBody().front())
      replacer.recursivelyReplaceElementsIn(builder.clone(op, mapping), /*replaceAttrs=*/true,
                                            /*replaceLocs=*/false, /*replaceTypes=*/true);
    return kernel;
  }
};
} // namespace
