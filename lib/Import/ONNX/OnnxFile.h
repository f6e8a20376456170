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
  /// The version of a domain that the model imports, "" for ai.onnx; 0 if it does not.
  int64_t opset(llvm::StringRef domain) const { return opsets.lookup(domain); }
  /// The types that the onnx library infers for values. Only for graphs that were imported: it
  /// takes as much memory as a hostile one says.
  llvm::StringMap<onnx::TypeProto> inferTypes();

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
  /// The model; data of initialisers only where it is short.
  onnx::ModelProto copyWithoutData();
  void liftConstants();
  llvm::Error bindInitializers();
  llvm::Expected<Data> bindData(const onnx::TensorProto &tensor);
  llvm::Expected<absl::Span<const std::byte>> mapExternal(const onnx::TensorProto &tensor,
                                                          uint64_t bytes);

  std::string givenPath;
  onnx::ModelProto proto;
  llvm::StringMap<int64_t> opsets;
  llvm::StringMap<Data> initializers; ///< by source name
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> externalFiles;
};

/// "" for ai.onnx, which has two names.
llvm::StringRef toDomain(llvm::StringRef domain);

/// Elements and, if it is known, the weights' type of an ONNX element type.
weights::ElementType toWeightsType(int onnxType);

} // namespace adapt::import
