// An .onnx file, read and checked, and the data of its initialisers.
#pragma once

#include "onnx/onnx_pb.h"
#include "weights/Sources.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace adapt::import {

/// Initialisers are its sources, by the names of `sourceName`. Data in files beside the model is
/// mapped; its place is checked when the model is opened.
class OnnxFile : public weights::SourceProvider {
public:
  /// Reads the model and checks it: the file's size, the checker of the onnx library, that no name
  /// is given twice, that all data of initialisers is there. All problems of a kind at once.
  static llvm::Expected<std::shared_ptr<OnnxFile>> open(const std::string &path);

  const std::string &path() const { return givenPath; }
  const onnx::ModelProto &model() const { return proto; }
  const onnx::GraphProto &graph() const { return proto.graph(); }
  /// The version of the domain "" that the model imports.
  int64_t opset() const { return opsetVersion; }

  const onnx::TensorProto *findInitializer(llvm::StringRef name) const;
  /// The name of an initialiser's source: its own, unless that holds braces, which templates have.
  static std::string sourceName(llvm::StringRef initializer);

  absl::StatusOr<weights::SourceTensor> source(std::string_view name) const override;

private:
  struct Data {
    const onnx::TensorProto *tensor;
    absl::Span<const std::byte> bytes;
    std::unique_ptr<std::string> owned; ///< data that was not stored as bytes
  };
  OnnxFile() = default;
  llvm::Error read(const std::string &path);
  llvm::Error check();
  void liftConstants();
  llvm::Error bindInitializers();
  llvm::Expected<Data> bindData(const onnx::TensorProto &tensor);
  llvm::Expected<absl::Span<const std::byte>> mapExternal(const onnx::TensorProto &tensor,
                                                          uint64_t bytes);

  std::string givenPath;
  onnx::ModelProto proto;
  int64_t opsetVersion = 0;
  llvm::StringMap<Data> initializers; ///< by source name
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> externalFiles;
};

/// Elements and, if it is known, the weights' type of an ONNX element type.
weights::ElementType toWeightsType(int onnxType);

} // namespace adapt::import
