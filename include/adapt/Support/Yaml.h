// The description files (model families, targets) as a tree with places.
//
// Read with LLVM's YAML parser. Errors are MLIR diagnostics at file, line and column.
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <utility>
#include <vector>

namespace adapt {

/// One value of a YAML document. Scalars keep their text; whoever asks decides what it means.
struct YamlNode {
  enum class Kind { Null, Scalar, Map, List };

  struct Entry;

  explicit YamlNode(mlir::Location loc) : loc(loc) {}

  Kind kind = Kind::Null;
  mlir::Location loc;
  std::string text;            ///< of a scalar
  std::vector<YamlNode> items; ///< of a list
  std::vector<Entry> entries;  ///< of a map, in the order of the file; keys are unique

  bool isScalar() const { return kind == Kind::Scalar; }
  /// "a map", "a list", …
  llvm::StringRef describe() const;
};

struct YamlNode::Entry {
  std::string key;
  mlir::Location loc;
  YamlNode value;
};

/// Reads the only document of a file. Errors were emitted: unreadable file, syntax, repeated keys,
/// aliases (not supported), nesting of more than 64 levels, a file of more than 4 MiB.
mlir::FailureOr<YamlNode> readYaml(mlir::MLIRContext *context, llvm::StringRef path);
/// The same from text; `path` is what messages call it.
mlir::FailureOr<YamlNode> parseYaml(mlir::MLIRContext *context, llvm::StringRef text,
                                    llvm::StringRef path);

/// Takes the known keys out of a map; `finish` reports the rest with the nearest known key.
class YamlMap {
public:
  /// `what` names the map in messages ("the block attention"). Not a map: an error.
  YamlMap(const YamlNode &node, std::string what);

  /// The key's value, or null if the file does not have it.
  const YamlNode *get(llvm::StringRef key);
  /// The same; absence is an error.
  const YamlNode *require(llvm::StringRef key);
  /// The key's text; an empty one (and an error) if it is absent or no scalar.
  llvm::StringRef requireText(llvm::StringRef key);

  /// Emits an error for each key that was not asked for. Fails if anything was wrong with the map.
  mlir::LogicalResult finish();

  mlir::InFlightDiagnostic error(mlir::Location loc);
  mlir::Location getLoc() const { return node.loc; }

private:
  const YamlNode &node;
  std::string what;
  llvm::SmallVector<std::string> known;
  bool failed = false;
};

/// The candidate nearest to `word`, or an empty string if none is near.
std::string getNearest(llvm::StringRef word, llvm::ArrayRef<std::string> candidates);
/// " (did you mean 'x'?)" or nothing.
std::string didYouMean(llvm::StringRef word, llvm::ArrayRef<std::string> candidates);

} // namespace adapt
