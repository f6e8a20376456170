#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/RWMutex.h"
#include <deque>
#include <mutex>
#include <shared_mutex>

using namespace mlir;
using namespace adapt;

#include "dialects/Adapt/AdaptDialect.cpp.inc"
#include "dialects/Adapt/AdaptEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Adapt/AdaptAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Adapt/AdaptTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Adapt/AdaptOps.cpp.inc"

// Names of sizes are numbered as they appear, so that a size is an AffineExpr. Contexts parse and
// run passes on several threads.
struct AdaptDialect::SymbolTable {
  std::shared_mutex mutex;
  llvm::StringMap<unsigned> numbers;
  std::deque<std::string> names;
};

void AdaptDialect::initialize() {
  symbolTable = std::make_shared<SymbolTable>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Adapt/AdaptAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Adapt/AdaptTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Adapt/AdaptOps.cpp.inc"
      >();
}

unsigned AdaptDialect::internSymbol(StringRef name) {
  {
    std::shared_lock<std::shared_mutex> lock(symbolTable->mutex);
    auto it = symbolTable->numbers.find(name);
    if (it != symbolTable->numbers.end())
      return it->second;
  }
  std::unique_lock<std::shared_mutex> lock(symbolTable->mutex);
  auto [it, inserted] = symbolTable->numbers.try_emplace(name, symbolTable->names.size());
  if (inserted)
    symbolTable->names.push_back(name.str());
  return it->second;
}

StringRef AdaptDialect::getSymbolName(unsigned number) {
  std::shared_lock<std::shared_mutex> lock(symbolTable->mutex);
  return symbolTable->names[number];
}

Operation *AdaptDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                             Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

SmallVector<StringRef> adapt::getNames(Operation *op, StringRef attribute) {
  SmallVector<StringRef> names;
  if (auto array = op->getAttrOfType<ArrayAttr>(attribute))
    for (auto name : array.getAsRange<StringAttr>())
      names.push_back(name.getValue());
  return names;
}

std::string adapt::shapeToString(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(getDims(type), os, [&](AffineExpr dim) { printSize(os, dim); });
  os << ']';
  return text;
}

namespace {
// {pp = 2, tp = 4}: every axis has at least one rank, and there are not absurdly many.
LogicalResult verifyMesh(Operation *op, Attribute attribute) {
  constexpr int64_t kMostRanks = 1 << 20;
  auto mesh = dyn_cast<DictionaryAttr>(attribute);
  if (!mesh)
    return op->emitOpError() << AdaptDialect::kMesh << " must be a dictionary like {tp = 2}";
  int64_t ranks = 1;
  for (NamedAttribute axis : mesh) {
    auto size = dyn_cast<IntegerAttr>(axis.getValue());
    if (axis.getName() != "tp" && axis.getName() != "pp")
      return op->emitOpError() << AdaptDialect::kMesh << " has no axis " << axis.getName()
                               << "; there are pp and tp";
    if (!size || size.getInt() < 1 || size.getInt() > kMostRanks / ranks)
      return op->emitOpError() << AdaptDialect::kMesh << " must have 1 to " << kMostRanks
                               << " ranks in all; " << axis.getName() << " is " << axis.getValue();
    ranks *= size.getInt();
  }
  return success();
}
} // namespace

int64_t adapt::getMeshSize(Operation *module, StringRef axis) {
  auto mesh = module->getAttrOfType<DictionaryAttr>(AdaptDialect::kMesh);
  auto size = mesh ? mesh.getAs<IntegerAttr>(axis) : IntegerAttr();
  return size ? size.getInt() : 1;
}

LogicalResult AdaptDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kMesh)
    return verifyMesh(op, attribute.getValue());
  if (name != kSymbols && name != kIndices && name != kPadding)
    return success();
  auto array = dyn_cast<ArrayAttr>(attribute.getValue());
  llvm::SetVector<StringRef> names;
  if (!array)
    return op->emitOpError() << name << " must be a list of names";
  for (Attribute element : array) {
    auto string = dyn_cast<StringAttr>(element);
    if (!string || string.getValue().empty())
      return op->emitOpError() << name << " must be a list of names, not " << element;
    if (!names.insert(string.getValue()))
      return op->emitOpError() << name << " names " << element << " twice";
  }
  if (name != kSymbols)
    return success();
  // Every size in the function is one of the declared.
  llvm::SetVector<StringRef> used;
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      for (Type type : inner->getResultTypes())
        collectSymbols(type, used);
    });
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (BlockArgument argument : block.getArguments())
        collectSymbols(argument.getType(), used);
  used.set_subtract(names);
  if (used.empty())
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError()
                                  << "uses sizes that " << name << " does not declare:";
  for (StringRef missing : used)
    diagnostic << ' ' << missing;
  return diagnostic;
}

LogicalResult PagedType::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<RankedTensorType> planes) {
  if (planes.empty())
    return emitError() << "!adapt.paged needs at least one plane";
  for (RankedTensorType plane : planes)
    if (!plane.hasStaticShape() || plane.getEncoding())
      return emitError() << "a plane of !adapt.paged has static sizes and no encoding, not "
                         << plane;
  return success();
}
