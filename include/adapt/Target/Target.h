// A target as its file describes it: targets/<name>.yaml. Grammar: docs/targets.md.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace adapt {

/// The version of the grammar that this compiler reads.
constexpr int kTargetSchema = 1;

struct Target {
  /// A memory that a rank has. What the file does not limit is not limited.
  struct Memory {
    std::string name;
    std::optional<int64_t> bytes;
    std::optional<double> bytesPerSecond;
  };
  struct Link {
    std::string name;
    std::optional<double> bytesPerSecond;
  };

  std::string name;    ///< "cpu"
  std::string variant; ///< "znver4" of "cpu:znver4"; the file's default, or empty
  std::string path;
  std::string codeGenerator; ///< "cpu", "cuda", "hip" or "none"
  std::vector<std::string> elementTypes;
  std::vector<std::string> keeps;              ///< composites that are not decomposed
  std::optional<std::vector<std::string>> ops; ///< base ops of the code generator; nullopt: all
  std::map<std::string, std::array<int64_t, 2>> weightLayouts; ///< [n, k] by element type
  int64_t blockTokens = 16;
  std::vector<Memory> memory;
  std::vector<Link> links;

  bool hasElementType(mlir::Type type) const;

  /// The module attribute `adapt.target`, which the passes read:
  ///   {name = "cpu", cpu = "znver4", features = ["avx512f"], block_tokens = 16 : i64,
  ///    keeps = ["rms_norm"], ops = "all", weight_layouts = {bf16 = #adapt.packed<16, 2>}}
  /// `processor`, here cpu and features, is what the code generator makes of the variant.
  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context,
                                   llvm::ArrayRef<mlir::NamedAttribute> processor) const;
};

/// Finds a target by what `--target` says, "name" or "name:variant", in folders and then in the
/// installation. Errors were emitted: no such target (with what there is), a file that is wrong.
mlir::FailureOr<Target> loadTarget(mlir::MLIRContext *context, llvm::StringRef spec,
                                   llvm::ArrayRef<std::string> directories = {});

/// The names of all targets that `loadTarget` finds.
std::vector<std::string> listTargets(llvm::ArrayRef<std::string> directories = {});

} // namespace adapt
