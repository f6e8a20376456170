#include "OnnxFile.h"
#include "onnx/checker.h"
#include "onnx/inliner/inliner.h"
#include "onnx/shape_inference/implementation.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

using namespace adapt;
using namespace adapt::import;

namespace {
// What the onnx library's schemas know.
constexpr int64_t kMaxIrVersion = 14;
constexpr size_t kMaxShown = 8;
/// Data up to this size may say a shape.
constexpr size_t kMaxCopiedBytes = 1024;

llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message.str());
}

/// All problems in one error, the first few in words.
llvm::Error join(llvm::StringRef what, llvm::ArrayRef<std::string> problems) {
  if (problems.empty())
    return llvm::Error::success();
  std::string text = what.str();
  for (const std::string &problem : problems.take_front(kMaxShown))
    text += "\n  " + problem;
  if (problems.size() > kMaxShown)
    text += "\n  and " + std::to_string(problems.size() - kMaxShown) + " more";
  return makeError(text);
}
} // namespace

weights::ElementType import::toWeightsType(int onnxType) {
  switch (onnxType) {
  case onnx::TensorProto::FLOAT:
    return schema::F32;
  case onnx::TensorProto::DOUBLE:
    return schema::F64;
  case onnx::TensorProto::FLOAT16:
    return schema::F16;
  case onnx::TensorProto::BFLOAT16:
    return schema::BF16;
  case onnx::TensorProto::INT64:
    return schema::I64;
  case onnx::TensorProto::INT32:
    return schema::I32;
  case onnx::TensorProto::INT16:
    return schema::I16;
  case onnx::TensorProto::INT8:
    return schema::I8;
  case onnx::TensorProto::UINT64:
    return schema::U64;
  case onnx::TensorProto::UINT32:
    return schema::U32;
  case onnx::TensorProto::UINT16:
    return schema::U16;
  case onnx::TensorProto::UINT8:
    return schema::U8;
  case onnx::TensorProto::BOOL:
    return schema::BOOL;
  default:
    return schema::ELEMENT_TYPE_UNSPECIFIED;
  }
}

llvm::StringRef import::toDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? "" : domain;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

llvm::Expected<std::shared_ptr<OnnxFile>> OnnxFile::open(const std::string &path) {
  std::shared_ptr<OnnxFile> file(new OnnxFile());
  // The onnx library and Protobuf report some problems by exceptions.
  try {
    for (auto step : {&OnnxFile::check, &OnnxFile::bindInitializers}) {
      if (step == &OnnxFile::check)
        if (llvm::Error error = file->read(path))
          return llvm::Expected<std::shared_ptr<OnnxFile>>(std::move(error));
      if (llvm::Error error = (file.get()->*step)())
        return makeError(path + ": " + llvm::toString(std::move(error)));
    }
  } catch (const std::exception &error) {
    return makeError(path + ": " + error.what());
  }
  return file;
}

llvm::Error OnnxFile::read(const std::string &path) {
  givenPath = path;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError(path + ": " + buffer.getError().message());
  size_t size = (*buffer)->getBufferSize();
  if (size > static_cast<size_t>(std::numeric_limits<int>::max()))
    return makeError(path + ": " + llvm::Twine(size) +
                     " bytes; a Protobuf message has at most 2^31: store the weights as external "
                     "data");
  google::protobuf::io::ArrayInputStream stream((*buffer)->getBufferStart(),
                                                static_cast<int>(size));
  google::protobuf::io::CodedInputStream coded(&stream);
  if (!proto.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return makeError(path + ": not an ONNX model: the Protobuf message cannot be parsed");
  return llvm::Error::success();
}

namespace {
/// Names that a graph inside of another gives to values although they mean one outside.
void findShadowing(const onnx::GraphProto &graph, llvm::StringSet<> outer,
                   std::vector<std::string> &problems) {
  llvm::StringSet<> inner;
  for (const auto &tensor : graph.initializer())
    inner.insert(tensor.name());
  for (const auto &input : graph.input())
    inner.insert(input.name());
  for (const auto &node : graph.node())
    for (const std::string &output : node.output())
      if (!output.empty())
        inner.insert(output);
  for (const auto &name : inner)
    if (!outer.insert(name.getKey()).second)
      problems.push_back("'" + name.getKey().str() +
                         "' of a graph inside of a node is also the name of a value outside");
  for (const auto &node : graph.node())
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_g())
        findShadowing(attribute.g(), outer, problems);
      for (const auto &inside : attribute.graphs())
        findShadowing(inside, outer, problems);
    }
}

/// Functions that call functions twice that call functions twice make any number of nodes.
class InlinedSize {
public:
  static constexpr uint64_t kMost = 1 << 20;

  explicit InlinedSize(const onnx::ModelProto &model) {
    for (const auto &function : model.functions())
      functions[key(function.domain(), function.name(), function.overload())] = &function;
  }

  /// The nodes that these become, at most kMost + 1. The checker has found that no function calls
  /// itself.
  template <typename Nodes> uint64_t count(const Nodes &nodes) {
    uint64_t sum = 0;
    for (const onnx::NodeProto &node : nodes) {
      sum += 1 + countCalled(key(toDomain(node.domain()).str(), node.op_type(), node.overload()));
      for (const auto &attribute : node.attribute()) {
        sum += attribute.has_g() ? count(attribute.g().node()) : 0;
        for (const auto &inside : attribute.graphs())
          sum += count(inside.node());
      }
      sum = std::min(sum, kMost + 1);
    }
    return sum;
  }

private:
  static std::string key(const std::string &domain, const std::string &name,
                         const std::string &overload) {
    return domain + '\0' + name + '\0' + overload;
  }
  uint64_t countCalled(const std::string &name) {
    auto it = functions.find(name);
    if (it == functions.end())
      return 0;
    auto known = counts.find(name);
    if (known == counts.end())
      known = counts.try_emplace(name, count(it->second->node())).first;
    return known->second;
  }

  llvm::StringMap<const onnx::FunctionProto *> functions;
  llvm::StringMap<uint64_t> counts;
};

llvm::Error checkFunctions(const onnx::ModelProto &model) {
  if (InlinedSize(model).count(model.graph().node()) <= InlinedSize::kMost)
    return llvm::Error::success();
  return makeError("the model's functions, inlined, make more than " +
                   llvm::Twine(InlinedSize::kMost) + " nodes");
}
} // namespace

llvm::Error OnnxFile::check() {
  if (proto.ir_version() < 3 || proto.ir_version() > kMaxIrVersion)
    return makeError("IR version " + llvm::Twine(proto.ir_version()) +
                     "; this compiler reads 3 to " + llvm::Twine(kMaxIrVersion));
  for (const auto &import : proto.opset_import())
    opsets[toDomain(import.domain())] = import.version();
  if (opset("") < 1)
    return makeError("imports no version of the operators of ai.onnx");

  std::vector<std::string> problems;
  llvm::StringSet<> names;
  for (const auto &tensor : graph().initializer())
    if (!names.insert(tensor.name()).second)
      problems.push_back("two initialisers have the name '" + tensor.name() + "'");
  findShadowing(graph(), {}, problems);
  if (graph().sparse_initializer_size())
    problems.push_back("sparse initialisers are not supported");
  if (llvm::Error error = join("the model is not sound:", problems))
    return error;

  // The data of initialisers is checked by bindInitializers, more closely.
  onnx::ModelProto skeleton = copyWithoutData();
  for (auto [tensor, whole] :
       llvm::zip_equal(*skeleton.mutable_graph()->mutable_initializer(), graph().initializer()))
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL ||
        tensor.has_raw_data() != whole.has_raw_data()) {
      tensor.clear_external_data();
      tensor.clear_data_location();
      tensor.clear_dims();
      tensor.add_dims(0);
    }
  // The checker wants shapes of outputs; we do not need them.
  for (auto &output : *skeleton.mutable_graph()->mutable_output())
    if (output.type().has_tensor_type())
      output.mutable_type()->mutable_tensor_type()->mutable_shape();
  try {
    onnx::checker::check_model(skeleton);
  } catch (const onnx::checker::ValidationError &error) {
    return makeError(llvm::Twine("the model is not sound: ") + error.what());
  }
  if (proto.functions_size()) {
    if (llvm::Error error = checkFunctions(proto))
      return error;
    onnx::inliner::InlineLocalFunctions(proto);
  }
  liftConstants();
  return llvm::Error::success();
}

onnx::ModelProto OnnxFile::copyWithoutData() {
  std::vector<std::pair<onnx::TensorProto *, std::string *>> held;
  for (onnx::TensorProto &tensor : *proto.mutable_graph()->mutable_initializer())
    if (tensor.raw_data().size() > kMaxCopiedBytes)
      held.emplace_back(&tensor, tensor.release_raw_data());
  onnx::ModelProto copy = proto;
  for (auto [tensor, data] : held)
    tensor->set_allocated_raw_data(data);
  return copy;
}

llvm::StringMap<onnx::TypeProto> OnnxFile::inferTypes() {
  llvm::StringMap<onnx::TypeProto> inferred;
  // What the library infers alone, not what the file states: that may be old.
  onnx::ModelProto copy = copyWithoutData();
  copy.mutable_graph()->clear_value_info();
  for (onnx::ValueInfoProto &output : *copy.mutable_graph()->mutable_output())
    output.clear_type();
  try {
    onnx::shape_inference::InferShapes(copy, onnx::OpSchemaRegistry::Instance(),
                                       onnx::ShapeInferenceOptions(/*check_type_val=*/false,
                                                                   /*strict_mode_val=*/0,
                                                                   /*data_prop_val=*/false));
  } catch (const std::exception &) {
    return inferred; // It stops at the first node that it does not understand.
  }
  for (const auto *values : {&copy.graph().value_info(), &copy.graph().output()})
    for (const onnx::ValueInfoProto &value : *values)
      if (value.has_type())
        inferred[value.name()] = value.type();
  return inferred;
}

// Tensors in attributes become initialisers: of Constant, whose node vanishes, and of
// ConstantOfShape, where it becomes a second input.
void OnnxFile::liftConstants() {
  onnx::GraphProto &graph = *proto.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> kept;
  for (onnx::NodeProto &node : *graph.mutable_node()) {
    bool isConstant = node.op_type() == "Constant";
    onnx::AttributeProto *value = nullptr;
    if (toDomain(node.domain()).empty() && (isConstant || node.op_type() == "ConstantOfShape"))
      for (onnx::AttributeProto &attribute : *node.mutable_attribute())
        if (attribute.name() == "value" && attribute.has_t())
          value = &attribute;
    if (value) {
      std::string name = node.output(0) + (isConstant ? "" : ".value");
      onnx::TensorProto *tensor = graph.add_initializer();
      tensor->Swap(value->mutable_t());
      tensor->set_name(name);
      if (isConstant)
        continue;
      node.add_input(name);
    }
    kept.Add()->Swap(&node);
  }
  graph.mutable_node()->Swap(&kept);
}

//===----------------------------------------------------------------------===//
// Initialisers
//===----------------------------------------------------------------------===//

std::string OnnxFile::sourceName(llvm::StringRef initializer) {
  std::string name = initializer.str();
  for (char &c : name)
    if (c == '{' || c == '}')
      c = '_';
  return name;
}

const onnx::TensorProto *OnnxFile::findInitializer(llvm::StringRef name) const {
  auto it = initializers.find(sourceName(name));
  return it == initializers.end() || it->second.tensor->name() != name ? nullptr
                                                                       : it->second.tensor;
}

absl::StatusOr<weights::SourceTensor> OnnxFile::source(std::string_view name) const {
  auto it = initializers.find(llvm::StringRef(name.data(), name.size()));
  if (it == initializers.end())
    return absl::NotFoundError(givenPath + ": no initialiser '" + std::string(name) + "'");
  const Data &data = it->second;
  weights::SourceTensor result;
  result.element = toWeightsType(data.tensor->data_type());
  result.shape.assign(data.tensor->dims().begin(), data.tensor->dims().end());
  result.data = data.bytes;
  return result;
}

llvm::Error OnnxFile::bindInitializers() {
  std::vector<std::string> problems;
  for (const auto &tensor : graph().initializer()) {
    llvm::Expected<Data> data = bindData(tensor);
    if (!data) {
      problems.push_back("initialiser '" + tensor.name() +
                         "': " + llvm::toString(data.takeError()));
      continue;
    }
    if (!initializers.try_emplace(sourceName(tensor.name()), std::move(*data)).second)
      problems.push_back("initialiser '" + tensor.name() +
                         "': another one has this name but for its braces");
  }
  return join("data of initialisers is not there:", problems);
}

namespace {
/// Elements that are stored as numbers of a wider type.
template <typename To, typename Field> void append(std::string &bytes, const Field &field) {
  for (auto value : field) {
    To element = static_cast<To>(value);
    bytes.append(reinterpret_cast<const char *>(&element), sizeof(To));
  }
}

std::string toBytes(const onnx::TensorProto &tensor) {
  std::string bytes;
  switch (tensor.data_type()) {
  case onnx::TensorProto::FLOAT:
    append<float>(bytes, tensor.float_data());
    break;
  case onnx::TensorProto::DOUBLE:
    append<double>(bytes, tensor.double_data());
    break;
  case onnx::TensorProto::INT64:
    append<int64_t>(bytes, tensor.int64_data());
    break;
  case onnx::TensorProto::INT32:
    append<int32_t>(bytes, tensor.int32_data());
    break;
  case onnx::TensorProto::UINT32:
    append<uint32_t>(bytes, tensor.uint64_data());
    break;
  case onnx::TensorProto::UINT64:
    append<uint64_t>(bytes, tensor.uint64_data());
    break;
  case onnx::TensorProto::FLOAT16:
  case onnx::TensorProto::BFLOAT16:
  case onnx::TensorProto::UINT16:
  case onnx::TensorProto::INT16:
    append<uint16_t>(bytes, tensor.int32_data());
    break;
  case onnx::TensorProto::BOOL:
    for (int32_t value : tensor.int32_data())
      bytes.push_back(value != 0);
    break;
  default:
    append<uint8_t>(bytes, tensor.int32_data());
    break;
  }
  return bytes;
}
} // namespace

llvm::Expected<OnnxFile::Data> OnnxFile::bindData(const onnx::TensorProto &tensor) {
  weights::ElementType element = toWeightsType(tensor.data_type());
  if (!weights::elementInfo(element))
    return makeError("elements of type " +
                     onnx::TensorProto::DataType_Name(
                         static_cast<onnx::TensorProto::DataType>(tensor.data_type())) +
                     " are not supported");
  uint64_t bytes = weights::elementBytes(element);
  for (int64_t size : tensor.dims()) {
    std::optional<uint64_t> product;
    if (size >= 0)
      product = llvm::checkedMulUnsigned<uint64_t>(bytes, size);
    if (!product || *product > uint64_t(std::numeric_limits<int64_t>::max()))
      return makeError("size " + llvm::Twine(size) + " is negative, or makes more than 2^63 bytes");
    bytes = *product;
  }
  Data data{&tensor, {}, nullptr};
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    auto mapped = mapExternal(tensor, bytes);
    if (!mapped)
      return mapped.takeError();
    data.bytes = *mapped;
    return llvm::Expected<Data>(std::move(data));
  }
  llvm::StringRef stored = tensor.raw_data();
  if (!tensor.has_raw_data()) {
    data.owned = std::make_unique<std::string>(toBytes(tensor));
    stored = *data.owned;
  }
  if (stored.size() != bytes)
    return makeError("has " + llvm::Twine(stored.size()) + " bytes of data where its shape needs " +
                     llvm::Twine(bytes));
  data.bytes =
      absl::MakeConstSpan(reinterpret_cast<const std::byte *>(stored.data()), stored.size());
  return llvm::Expected<Data>(std::move(data));
}

llvm::Expected<absl::Span<const std::byte>> OnnxFile::mapExternal(const onnx::TensorProto &tensor,
                                                                  uint64_t bytes) {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto &entry : tensor.external_data()) {
    uint64_t number = 0;
    bool isNumber = !llvm::StringRef(entry.value()).getAsInteger(10, number);
    if (entry.key() == "location")
      location = entry.value();
    if ((entry.key() == "offset" || entry.key() == "length") && !isNumber)
      return makeError("external data: " + entry.key() + " '" + entry.value() +
                       "' is no number from 0 to 2^64 - 1");
    if (entry.key() == "offset")
      offset = number;
    if (entry.key() == "length")
      length = number;
  }
  if (location.empty())
    return makeError("external data has no location");
  if (length && *length != bytes)
    return makeError("external data: " + llvm::Twine(*length) + " bytes where its shape needs " +
                     llvm::Twine(bytes));
  namespace path = llvm::sys::path;
  if (path::is_absolute(location) ||
      llvm::any_of(llvm::make_range(path::begin(location), path::end(location)),
                   [](llvm::StringRef part) { return part == ".."; }))
    return makeError("external data '" + location + "' lies outside of the model's folder");
  llvm::SmallString<256> folder(path::parent_path(givenPath)), realFolder, realFile;
  if (folder.empty())
    folder = ".";
  llvm::SmallString<256> file(folder);
  path::append(file, location);
  if (std::error_code code = llvm::sys::fs::real_path(folder, realFolder))
    return makeError("folder '" + folder + "': " + code.message());
  if (std::error_code code = llvm::sys::fs::real_path(file, realFile))
    return makeError("external data '" + location + "': " + code.message());
  if (!llvm::StringRef(realFile).starts_with((realFolder + "/").str()))
    return makeError("external data '" + location + "' lies outside of the model's folder: at '" +
                     realFile + "'");
  if (!llvm::sys::fs::is_regular_file(realFile))
    return makeError("external data '" + location + "' is not a regular file");
  std::unique_ptr<llvm::MemoryBuffer> &mapped = externalFiles[realFile];
  if (!mapped) {
    auto buffer = llvm::MemoryBuffer::getFile(realFile, /*IsText=*/false,
                                              /*RequiresNullTerminator=*/false);
    if (!buffer)
      return makeError("external data '" + location + "': " + buffer.getError().message());
    mapped = std::move(*buffer);
  }
  uint64_t size = mapped->getBufferSize();
  if (offset > size || bytes > size - offset)
    return makeError("external data: bytes " + llvm::Twine(offset) + " + " + llvm::Twine(bytes) +
                     " of '" + location + "', which has " + llvm::Twine(size));
  return absl::MakeConstSpan(reinterpret_cast<const std::byte *>(mapped->getBufferStart()) + offset,
                             bytes);
}
