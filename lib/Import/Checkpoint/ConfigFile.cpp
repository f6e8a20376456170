#include "Checkpoint/ConfigFile.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace adapt {
namespace {

constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr unsigned kMaxDepth = 100;

/// The deepest nesting of brackets; LLVM's parser recurses once a level, without a limit.
unsigned getDepth(StringRef text) {
  unsigned depth = 0, deepest = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

} // namespace

FailureOr<llvm::json::Object> readJsonObject(MLIRContext *context, StringRef path) {
  auto error = [&] { return emitError(UnknownLoc::get(context)) << path << ": "; };
  llvm::sys::fs::file_status status;
  if (std::error_code code = llvm::sys::fs::status(path, status))
    return error() << "cannot be read: " << code.message();
  if (!llvm::sys::fs::is_regular_file(status))
    return error() << "not a file";
  if (status.getSize() > kMaxFileBytes)
    return error() << status.getSize() << " bytes; the limit is " << kMaxFileBytes;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/true, /*IsVolatile=*/true);
  if (!buffer)
    return error() << "cannot be read: " << buffer.getError().message();
  StringRef text = (*buffer)->getBuffer();
  if (text.size() > kMaxFileBytes || getDepth(text) > kMaxDepth)
    return error() << "nested more than " << kMaxDepth << " levels deep";
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return error() << "not valid JSON: " << llvm::toString(value.takeError());
  llvm::json::Object *object = value->getAsObject();
  if (!object)
    return error() << "must hold a JSON object";
  return std::move(*object);
}

FailureOr<ModelConfig> readModelConfig(MLIRContext *context, StringRef folder) {
  if (!llvm::sys::fs::is_directory(folder))
    return emitError(UnknownLoc::get(context))
           << folder << ": not a folder; a checkpoint is a folder with config.json and safetensors "
           << "files";
  ModelConfig result;
  SmallString<256> path(folder);
  llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  while (path.size() > 1 && llvm::sys::path::is_separator(path.back()))
    path.pop_back();
  result.name = llvm::sys::path::filename(path).str();
  SmallString<256> file(folder);
  llvm::sys::path::append(file, "config.json");
  result.path = std::string(file);
  FailureOr<llvm::json::Object> config = readJsonObject(context, file);
  if (failed(config))
    return failure();
  result.config = std::move(*config);
  file = folder;
  llvm::sys::path::append(file, "generation_config.json");
  if (llvm::sys::fs::exists(file)) {
    FailureOr<llvm::json::Object> generation = readJsonObject(context, file);
    if (failed(generation))
      return failure();
    result.generation = std::move(*generation);
  }
  return result;
}

} // namespace adapt
