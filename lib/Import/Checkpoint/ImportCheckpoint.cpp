#include "Checkpoint/ConfigFile.h"
#include "adapt/Import/Checkpoint.h"
#include "adapt/Model/Family.h"
#include "mlir/IR/Builders.h"
#include "weights/Checkpoint.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cstring>

using namespace mlir;

namespace adapt {
namespace {

/// The checkpoint's tensors in MLIR's terms.
class Tensors : public CheckpointTensors {
public:
  Tensors(MLIRContext *context, const weights::Checkpoint &checkpoint)
      : context(context), checkpoint(checkpoint) {}

  std::optional<Tensor> find(StringRef name) const override {
    std::optional<weights::Checkpoint::Tensor> found = checkpoint.find({name.data(), name.size()});
    if (!found)
      return std::nullopt;
    Tensor tensor;
    tensor.dtype = std::string(found->type->name);
    tensor.element = getType(found->type->element);
    tensor.shape.assign(found->shape.begin(), found->shape.end());
    return tensor;
  }

  void forEachName(llvm::function_ref<void(StringRef)> visit) const override {
    for (size_t i = 0; i < checkpoint.size(); ++i) {
      std::string_view name = checkpoint.tensor(i).name;
      visit(StringRef(name.data(), name.size()));
    }
  }

  FailureOr<bool> haveSameData(StringRef a, StringRef b) const override {
    absl::Span<const std::byte> bytes[2];
    const StringRef names[2] = {a, b};
    for (auto [index, name] : llvm::enumerate(names)) {
      auto data = checkpoint.data(*checkpoint.find({name.data(), name.size()}));
      if (!data.ok()) {
        absl::string_view message = data.status().message();
        return emitError(UnknownLoc::get(context)) << StringRef(message.data(), message.size());
      }
      bytes[index] = *data;
    }
    return bytes[0].size() == bytes[1].size() &&
           std::memcmp(bytes[0].data(), bytes[1].data(), bytes[0].size()) == 0;
  }

private:
  Type getType(schema::ElementType element) const {
    Builder builder(context);
    switch (element) {
    case schema::F64:
      return builder.getF64Type();
    case schema::F32:
      return builder.getF32Type();
    case schema::F16:
      return builder.getF16Type();
    case schema::BF16:
      return builder.getBF16Type();
    default:
      return {}; // no weight of ours is an integer
    }
  }

  MLIRContext *context;
  const weights::Checkpoint &checkpoint;
};

bool hasWeightFiles(StringRef folder) {
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    StringRef name = llvm::sys::path::filename(it->path());
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
      return true;
  }
  return false;
}

FailureOr<Type> parseDtype(MLIRContext *context, StringRef name) {
  Builder builder(context);
  if (name == "auto")
    return Type();
  if (name == "float32")
    return Type(builder.getF32Type());
  if (name == "bfloat16")
    return Type(builder.getBF16Type());
  if (name == "float16")
    return Type(builder.getF16Type());
  return emitError(UnknownLoc::get(context))
         << "there is no dtype '" << name << "'; there are auto, float32, bfloat16 and float16";
}

} // namespace

FailureOr<LoadedModel> loadModel(MLIRContext *context, const ImportOptions &options) {
  FailureOr<Type> dtype = parseDtype(context, options.dtype);
  FailureOr<std::vector<Family>> families = loadFamilies(context, options.familyDirectories);
  FailureOr<ModelConfig> config = readModelConfig(context, options.path);
  if (failed(dtype) || failed(families) || failed(config))
    return failure();
  FailureOr<const Family *> family = selectFamily(context, *families, *config);
  if (failed(family))
    return failure();

  LoadedModel loaded;
  std::optional<Tensors> tensors;
  if (!options.allowAbsentWeights || hasWeightFiles(options.path)) {
    auto checkpoint = weights::Checkpoint::open(options.path);
    if (!checkpoint.ok()) {
      absl::string_view message = checkpoint.status().message();
      return emitError(UnknownLoc::get(context)) << StringRef(message.data(), message.size());
    }
    loaded.checkpoint = std::move(*checkpoint);
    tensors.emplace(context, *loaded.checkpoint);
  }
  FailureOr<Model> model =
      bindModel(context, **family, *config, tensors ? &*tensors : nullptr, *dtype);
  if (failed(model))
    return failure();
  loaded.model = std::move(*model);
  return loaded;
}

OwningOpRef<ModuleOp> importCheckpoint(MLIRContext *context, const ImportOptions &options) {
  FailureOr<LoadedModel> loaded = loadModel(context, options);
  if (failed(loaded))
    return nullptr;
  return buildModel(context, loaded->model);
}

} // namespace adapt
