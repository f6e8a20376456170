// What a handler of an ONNX operator sees: a node whose inputs and attributes it binds, and the
// means to build its results. What does not bind is noted and said for all nodes at once.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"
#include "llvm/ADT/Twine.h"

namespace onnx {
class NodeProto;
} // namespace onnx

namespace adapt::import {

class GraphImporter;

/// The elements of a small integer tensor as far as they are known: sizes, in row-major order.
using Contents = llvm::SmallVector<mlir::AffineExpr>;

/// A value of the ONNX graph.
struct OnnxValue {
  mlir::RankedTensorType type;
  mlir::Value value;                ///< null until somebody needs it as a tensor
  std::optional<Contents> contents; ///< known elements
  std::string initializer;          ///< the name, if it is one
  mlir::DenseElementsAttr constant; ///< the data, if that is a constant
  bool isInput = false;             ///< of the graph, under this name
};

class Node {
public:
  Node(GraphImporter &importer, const onnx::NodeProto &proto, int64_t version);

  llvm::StringRef op() const;
  /// The node's name, or its first output's.
  std::string name() const;
  /// The least version of the operator's definition that the handler was registered for.
  int64_t version() const { return since; }

  //===--------------------------------------------------------------------===//
  // Binding. What is missing or of another kind is noted, and the node has failed.
  //===--------------------------------------------------------------------===//

  size_t numInputs() const;
  /// False for an input that is left out.
  bool has(size_t input) const;
  mlir::Value tensor(size_t input);
  mlir::RankedTensorType type(size_t input);
  /// The elements of an input, which must be known when compiling.
  Contents contents(size_t input);
  /// Those, all of them numbers.
  llvm::SmallVector<int64_t> integers(size_t input);
  /// Axes that may be absent: the attribute "axes", and input 1 from version `inputSince` on.
  std::optional<llvm::SmallVector<int64_t>> optionalAxes(int64_t inputSince);
  /// Known elements; null if they are not.
  const Contents *knownContents(size_t input);
  /// A constant of one floating-point element, if it is known.
  std::optional<double> knownScalar(size_t input);
  /// Whether an input's data is in the file, as floating-point numbers of a matrix or the like.
  bool isWeight(size_t input);
  /// The weight, a matrix, transposed or not, as a param.
  mlir::Value weightMatrix(size_t input, bool transposed);

  bool hasAttribute(llvm::StringRef name) const;
  int64_t integer(llvm::StringRef name, std::optional<int64_t> otherwise = std::nullopt);
  double number(llvm::StringRef name, std::optional<double> otherwise = std::nullopt);
  std::string text(llvm::StringRef name, std::optional<llvm::StringRef> otherwise = std::nullopt);
  llvm::SmallVector<int64_t> integerList(llvm::StringRef name,
                                         std::optional<llvm::ArrayRef<int64_t>> otherwise = {});
  /// The value of a Constant node.
  void setConstantResult();

  /// An axis between -rank and rank - 1 as one from 0.
  int64_t axis(int64_t given, int64_t rank, llvm::StringRef what = "axis");
  llvm::SmallVector<int64_t> axes(llvm::ArrayRef<int64_t> given, int64_t rank);

  /// Notes numbers that do not lie in `least` to 2^31 - 1: sums and products of them would
  /// overflow.
  bool checkRange(llvm::ArrayRef<int64_t> values, llvm::StringRef what, int64_t least = 0);

  /// Notes why the node cannot be imported: "expected …".
  void fail(const llvm::Twine &message);
  bool failed() const { return hasFailed; }
  /// Notes that a size difference must not be negative; fails if that cannot be arranged by bounds
  /// of the sizes.
  void require(mlir::AffineExpr notNegative, const llvm::Twine &what);

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  size_t numOutputs() const;
  const std::string &outputName(size_t output) const;
  /// Whether somebody may ask for it.
  bool wants(size_t output) const;
  void set(size_t output, mlir::Value value);
  /// An output of a node that failed: nodes that use it are passed over.
  void unset(size_t output);
  void setContents(size_t output, llvm::ArrayRef<mlir::AffineExpr> contents,
                   mlir::RankedTensorType type);
  /// The same value under another name.
  void setSame(size_t output, size_t input);
  /// The result is a reshape of an input; contents stay known.
  void setReshaped(size_t output, size_t input, llvm::ArrayRef<mlir::AffineExpr> dims);

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  mlir::OpBuilder &builder();
  mlir::Location loc();
  mlir::MLIRContext *context();
  template <typename Op, typename... Args> mlir::Value create(Args &&...args) {
    return Op::create(builder(), loc(), std::forward<Args>(args)...);
  }
  template <typename Op> mlir::Value unary(mlir::Value value) {
    return create<Op>(value.getType(), value);
  }
  /// Of two values of one type.
  template <typename Op> mlir::Value binary(mlir::Value a, mlir::Value b) {
    return create<Op>(a.getType(), a, b);
  }
  mlir::AffineExpr size(int64_t value);
  /// `like`'s shape filled with a number of its element type (or of `element`).
  mlir::Value splat(mlir::Value like, double value, mlir::Type element = {});
  mlir::Value splatOf(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::Type element, double value);
  /// A size as an integer in every place of `like`.
  mlir::Value splatSize(mlir::Value like, mlir::AffineExpr size);
  mlir::Value scalar(mlir::Type element, double value);
  mlir::Value cast(mlir::Value value, mlir::Type element);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> dims);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  /// Along the last axes, as NumPy does.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> dims);
  /// The sizes that two broadcast to.
  llvm::SmallVector<mlir::AffineExpr> commonDims(llvm::ArrayRef<mlir::AffineExpr> a,
                                                 llvm::ArrayRef<mlir::AffineExpr> b);
  /// All broadcast to one shape.
  llvm::SmallVector<mlir::Value> broadcastAll(llvm::ArrayRef<mlir::Value> values);
  /// `count` numbers from `start` in steps, along `axis` of the shape, the same along the others.
  mlir::Value iotaAlong(llvm::ArrayRef<mlir::AffineExpr> dims, int64_t axis, mlir::Type element,
                        mlir::AffineExpr start, int64_t step = 1);
  mlir::Value reduce(mlir::Value value, ReduceKind kind, llvm::ArrayRef<int64_t> axes,
                     bool keepAxes);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value compare(Predicate predicate, mlir::Value a, mlir::Value b);
  /// Indices into `size` rows, negative ones counted from the end, and what lies outside moved to
  /// the nearest row.
  mlir::Value normalizeIndices(mlir::Value indices, mlir::AffineExpr size);

private:
  OnnxValue *find(size_t input);
  std::string inputText(size_t input) const;

  GraphImporter &importer;
  const onnx::NodeProto &proto;
  int64_t since;
  bool hasFailed = false;
};

/// Whether an expression is short enough to be walked and printed.
bool isSimpleSize(mlir::AffineExpr size);
/// Whether that can be told for all values of its names.
bool isNeverNegative(mlir::AffineExpr size);
/// Whether the sizes are such, none of them negative, and all elements fewer than 2^60.
bool isSoundType(mlir::RankedTensorType type);

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline bool isFloat(mlir::Value value) {
  return mlir::isa<mlir::FloatType>(typeOf(value).getElementType());
}

/// The type of tensor elements; null for one that the dialect does not compute with.
mlir::Type getElementType(mlir::MLIRContext *context, int onnxType);

/// A handler for the operator from a version of its definition on.
struct Handler {
  const char *op;
  int64_t version;
  void (*run)(Node &node);
  const char *domain = ""; ///< ai.onnx
};

// The handlers by category.
llvm::ArrayRef<Handler> getElementwiseHandlers();
llvm::ArrayRef<Handler> getIndexingHandlers();
llvm::ArrayRef<Handler> getLinearHandlers();
llvm::ArrayRef<Handler> getMicrosoftHandlers();
llvm::ArrayRef<Handler> getNormalizationHandlers();
llvm::ArrayRef<Handler> getReductionHandlers();
llvm::ArrayRef<Handler> getShapeHandlers();

} // namespace adapt::import
