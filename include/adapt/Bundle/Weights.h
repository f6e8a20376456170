// The weights of a module, as the bundle lists and stores them.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include <map>
#include <string>
#include <vector>

namespace adapt::schema {
class WeightTable;
} // namespace adapt::schema

namespace adapt {

/// A param under one binding of its indices.
struct WeightInstance {
  ParamOp param;
  std::map<std::string, int64_t, std::less<>> indices; ///< only those in the param's name
  std::string name;                                    ///< with the placeholders filled
};

/// The weights that a function of this name reads, calls included, each once, in the order in which
/// execution first reads them. Errors (emitted): no such function; two different params under one
/// name.
mlir::FailureOr<std::vector<WeightInstance>> collectWeights(mlir::ModuleOp module,
                                                            llvm::StringRef function);

/// Fills `params` of the table: one entry per param with the index values that occur. Returns the
/// entry of each weight.
mlir::FailureOr<std::vector<int>> exportParams(llvm::ArrayRef<WeightInstance> weights,
                                               schema::WeightTable &table);

/// Puts the value into the recipes' offsets that name the symbol: a coordinate of the mesh.
void bindSymbol(schema::WeightTable &table, llvm::StringRef symbol, int64_t value);

} // namespace adapt
