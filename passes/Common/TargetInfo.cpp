#include "passes/Common/TargetInfo.h"

using namespace mlir;
using namespace adapt;

/// "matmul" of adapt.matmul.
static StringRef getBaseName(Operation *op) { return op->getName().stripDialect(); }

FailureOr<TargetInfo> TargetInfo::get(ModuleOp module) {
  auto target = module->getAttrOfType<DictionaryAttr>(kAttribute);
  if (!target) {
    module.emitError() << "the module has no attribute " << kAttribute
                       << ", a dictionary of what the target has";
    return failure();
  }
  TargetInfo info;
  bool failed = false;
  auto fail = [&](StringRef key, StringRef wanted) {
    module.emitError() << kAttribute << ": '" << key << "' must be " << wanted << ", not "
                       << target.get(key);
    failed = true;
  };
  auto readNames = [&](StringRef key, Attribute value, llvm::StringSet<> &names) {
    auto array = dyn_cast<ArrayAttr>(value);
    if (!array || !llvm::all_of(array, llvm::IsaPred<StringAttr>))
      return fail(key, "a list of operation names");
    for (StringRef name : array.getAsValueRange<StringAttr>())
      names.insert(name);
  };

  if (auto name = target.getAs<StringAttr>("name")) {
    info.name = name.str();
  } else {
    module.emitError() << kAttribute << ": 'name' is missing";
    failed = true;
  }
  if (Attribute tokens = target.get("block_tokens")) {
    auto integer = dyn_cast<IntegerAttr>(tokens);
    if (!integer || integer.getInt() <= 0)
      fail("block_tokens", "a positive integer");
    else
      info.blockTokens = integer.getInt();
  }
  if (Attribute keeps = target.get("keeps"))
    readNames("keeps", keeps, info.kept);
  if (Attribute ops = target.get("ops")) {
    auto string = dyn_cast<StringAttr>(ops);
    if (!string)
      readNames("ops", ops, info.generated.emplace());
    else if (string.getValue() != "all")
      fail("ops", "\"all\" or a list of operation names");
  }
  if (Attribute layouts = target.get("weight_layouts")) {
    auto dictionary = dyn_cast<DictionaryAttr>(layouts);
    if (!dictionary)
      fail("weight_layouts", "a dictionary from element types to #adapt.packed");
    else
      for (NamedAttribute layout : dictionary) {
        auto packed = dyn_cast<PackedAttr>(layout.getValue());
        if (!packed)
          fail("weight_layouts", "a dictionary from element types to #adapt.packed");
        else
          info.weightLayouts.emplace_back(layout.getName().str(), packed);
      }
  }
  if (failed)
    return failure();
  return info;
}

bool TargetInfo::keeps(Operation *op) const {
  return op->getName().getDialectNamespace() == AdaptDialect::getDialectNamespace() &&
         kept.contains(getBaseName(op));
}

bool TargetInfo::generates(Operation *op) const {
  return isa<LinalgOpLoweringInterface>(op) && (!generated || generated->contains(getBaseName(op)));
}

PackedAttr TargetInfo::getWeightLayout(Type element) const {
  std::string name;
  llvm::raw_string_ostream(name) << element;
  for (const auto &[type, layout] : weightLayouts)
    if (type == name)
      return layout;
  return {};
}
