// Builds the module of an ONNX graph. See docs/onnx.md.
#pragma once

#include "Node.h"
#include "OnnxFile.h"
#include "adapt/Import/Onnx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace adapt::import {

class GraphImporter {
public:
  GraphImporter(mlir::MLIRContext *context, OnnxFile &file);

  /// The module; null if errors were emitted.
  mlir::OwningOpRef<mlir::ModuleOp> run();

private:
  friend class Node;

  void importInputs();
  void importNodes();
  void runHandler(const Handler &handler, Node &node);
  void checkOperation(Node &node, mlir::Operation &operation);
  void checkInferred();
  void checkInferred(const onnx::NodeProto &node, const std::string &output,
                     mlir::RankedTensorType type, const onnx::TypeProto_Tensor &inferred);
  void returnOutputs();
  mlir::LogicalResult report();

  std::optional<llvm::SmallVector<mlir::AffineExpr>> getInputDims(const onnx::TypeProto &type,
                                                                  llvm::StringRef name);
  mlir::AffineExpr parseDimension(llvm::StringRef text, bool onlyKnown);
  mlir::AffineExpr declareSymbol(llvm::StringRef name);

  /// Null if there is none, or its node failed.
  OnnxValue *find(const std::string &name);
  OnnxValue *bindInitializer(const std::string &name);
  mlir::Value materialize(OnnxValue &value);
  mlir::Value createParam(const std::string &initializer, bool transposed);

  void addProblem(const llvm::Twine &where, const llvm::Twine &message);

  mlir::MLIRContext *context;
  OnnxFile &file;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;

  llvm::StringMap<OnnxValue> values;
  llvm::StringMap<mlir::Value> params;
  llvm::StringSet<> used; ///< values that are inputs of nodes or outputs of the graph
  llvm::StringSet<> plainDimensions;
  llvm::SmallVector<std::string> symbols;
  /// Bounds of sizes that the graph needs to be meaningful.
  std::map<std::string, std::pair<int64_t, int64_t>> bounds;

  /// Problems by text with the places where they occur.
  std::map<std::string, std::vector<std::string>> problems;
  std::map<std::string, std::vector<std::string>> unsupported;
};

} // namespace adapt::import
