// Fuzzes the importer of ONNX graphs: whatever the file, it is refused with a message or gives a
// module that verifies, and that the phases up to `fuse` refuse or leave valid. Built where clang
// and the onnx library are, in any preset, with sanitizers of its own:
//   fuzz/make_onnx_corpus.py corpus && build/release/bin/onnx_fuzzer -max_total_time=60 corpus
#include "adapt/Import/Onnx.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "dialects/Program/ProgramDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "onnx/onnx_pb.h"
#include "passes/Pipelines.h"
#include "llvm/Support/FileSystem.h"

#include <cstdio>
#include <cstdlib>
#include <random>

using namespace mlir;
namespace pb = google::protobuf;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

//===----------------------------------------------------------------------===//
// Mutation: of the message, so that what comes out can mostly be parsed
//===----------------------------------------------------------------------===//

namespace {
class Mutator {
public:
  Mutator(onnx::ModelProto &model, unsigned seed) : model(model), random(seed) {}

  void run() {
    do
      mutateOnce();
    while (pick(3) != 0);
  }

private:
  size_t pick(size_t count) { return random() % std::max<size_t>(count, 1); }

  void collect(pb::Message &message) {
    if (messages.size() >= kMaxMessages)
      return;
    messages.push_back(&message);
    const pb::Reflection &reflection = *message.GetReflection();
    std::vector<const pb::FieldDescriptor *> fields;
    reflection.ListFields(message, &fields);
    for (const pb::FieldDescriptor *field : fields) {
      int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count && messages.size() < kMaxMessages; ++i) {
        if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE)
          collect(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                       : *reflection.MutableMessage(&message, field));
        else if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING &&
                 strings.size() < kMaxMessages)
          strings.push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                 : reflection.GetString(message, field));
      }
    }
  }

  int64_t number() {
    static constexpr int64_t kNumbers[] = {0,
                                           1,
                                           -1,
                                           2,
                                           3,
                                           4,
                                           5,
                                           7,
                                           8,
                                           16,
                                           64,
                                           1000,
                                           -2,
                                           -5,
                                           1 << 20,
                                           1 << 30,
                                           2147483647,
                                           1LL << 31,
                                           1LL << 33,
                                           1LL << 62,
                                           std::numeric_limits<int64_t>::min(),
                                           std::numeric_limits<int64_t>::max()};
    return pick(4) == 0 ? static_cast<int64_t>(pick(30)) : kNumbers[pick(std::size(kNumbers))];
  }

  std::string text() {
    static const char *const kTexts[] = {"",         "Shape",  "Reshape",  "Gather",    "Slice",
                                         "Concat",   "Expand", "MatMul",   "Add",       "Constant",
                                         "Identity", "Conv",   "../w.bin", "w.bin",     "axis",
                                         "N",        "N + M",  "{x}",      "SAME_UPPER"};
    return strings.empty() || pick(3) == 0 ? kTexts[pick(std::size(kTexts))]
                                           : strings[pick(strings.size())];
  }

  /// Sets a field, or element `index` of a repeated one; adds one where `index` is negative.
  void set(pb::Message &message, const pb::FieldDescriptor *field, int index) {
    const pb::Reflection &reflection = *message.GetReflection();
    bool repeated = field->is_repeated();
    auto put = [&](auto setOne, auto setElement, auto add, auto value) {
      if (!repeated)
        (reflection.*setOne)(&message, field, value);
      else if (index >= 0)
        (reflection.*setElement)(&message, field, index, value);
      else
        (reflection.*add)(&message, field, value);
    };
    using R = pb::Reflection;
    switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return put(&R::SetInt32, &R::SetRepeatedInt32, &R::AddInt32, static_cast<int32_t>(number()));
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return put(&R::SetInt64, &R::SetRepeatedInt64, &R::AddInt64, number());
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return put(&R::SetUInt64, &R::SetRepeatedUInt64, &R::AddUInt64,
                 static_cast<uint64_t>(number()));
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return put(&R::SetFloat, &R::SetRepeatedFloat, &R::AddFloat,
                 pick(5) ? static_cast<float>(number()) : std::nanf(""));
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return put(&R::SetDouble, &R::SetRepeatedDouble, &R::AddDouble,
                 static_cast<double>(number()));
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return put(&R::SetEnumValue, &R::SetRepeatedEnumValue, &R::AddEnumValue,
                 static_cast<int>(pick(20)));
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return put(&R::SetString, &R::SetRepeatedString, &R::AddString, text());
    case pb::FieldDescriptor::CPPTYPE_MESSAGE: {
      std::vector<const pb::Message *> alike;
      for (const pb::Message *other : messages)
        if (other->GetDescriptor() == field->message_type())
          alike.push_back(other);
      // A copy first: one may hold the other, and setting one of several clears the others.
      std::unique_ptr<pb::Message> copy;
      if (!alike.empty()) {
        copy.reset(alike.front()->New());
        copy->CopyFrom(*alike[pick(alike.size())]);
      }
      pb::Message *to = !repeated   ? reflection.MutableMessage(&message, field)
                        : index < 0 ? reflection.AddMessage(&message, field)
                                    : reflection.MutableRepeatedMessage(&message, field, index);
      if (copy)
        to->CopyFrom(*copy);
      return;
    }
    default:
      return;
    }
  }

  void mutateOnce() {
    messages.clear();
    strings.clear();
    collect(model);
    pb::Message &message = *messages[pick(messages.size())];
    const pb::Descriptor &descriptor = *message.GetDescriptor();
    const pb::Reflection &reflection = *message.GetReflection();
    std::vector<const pb::FieldDescriptor *> fields;
    if (pick(4))
      reflection.ListFields(message, &fields);
    const pb::FieldDescriptor *field = fields.empty()
                                           ? descriptor.field(pick(descriptor.field_count()))
                                           : fields[pick(fields.size())];
    if (!field->is_repeated()) {
      if (pick(6) == 0)
        return reflection.ClearField(&message, field);
      return set(message, field, 0);
    }
    int count = reflection.FieldSize(message, field);
    size_t action = pick(5);
    if (count == 0 || action == 0)
      return set(message, field, -1);
    int at = static_cast<int>(pick(count));
    reflection.SwapElements(&message, field, at, action == 1 ? count - 1 : at);
    if (action == 1)
      return reflection.RemoveLast(&message, field);
    if (action == 2)
      return reflection.SwapElements(&message, field, at, static_cast<int>(pick(count)));
    set(message, field, at);
  }

  static constexpr size_t kMaxMessages = 1000;
  onnx::ModelProto &model;
  std::minstd_rand random;
  std::vector<pb::Message *> messages;
  std::vector<std::string> strings;
};
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  onnx::ModelProto model;
  if (seed % 16 == 0 || !model.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, maxSize);
  Mutator(model, seed).run();
  size_t bytes = model.ByteSizeLong();
  if (bytes > maxSize || !model.SerializeToArray(data, static_cast<int>(maxSize)))
    return LLVMFuzzerMutate(data, size, maxSize);
  return bytes;
}

//===----------------------------------------------------------------------===//
// The importer
//===----------------------------------------------------------------------===//

static void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  pb::SetLogHandler(nullptr); // What cannot be parsed is meant to be so.
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string &folder = *[] {
    llvm::SmallString<128> path;
    require(!llvm::sys::fs::createUniqueDirectory("onnx-fuzzer", path), "a folder");
    std::atexit([] { (void)llvm::sys::fs::remove_directories(folder); });
    return new std::string(path.str()); // What runs at exit needs it.
  }();
  std::string path = folder + "/model.onnx";
  std::FILE *file = std::fopen(path.c_str(), "wb");
  require(file && std::fwrite(data, 1, size, file) == size && std::fclose(file) == 0, "a file");

  // One thread and no crash handlers: libFuzzer has its own.
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  context.loadDialect<adapt::AdaptDialect, adapt::program::ProgramDialect, func::FuncDialect>();
  size_t errors = 0;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    errors += diagnostic.getSeverity() == DiagnosticSeverity::Error && !diagnostic.str().empty();
    return success();
  });
  FailureOr<adapt::ImportedGraph> graph = adapt::importOnnx(&context, path);
  if (failed(graph)) {
    require(errors > 0, "what is refused is said");
    return 0;
  }
  require(errors == 0, "what is done is no error");
  require(succeeded(verify(*graph->module)), "the module verifies");
  PassManager manager(&context, ModuleOp::getOperationName(), OpPassManager::Nesting::Implicit);
  adapt::buildImportPipeline(manager);
  adapt::buildSimplifyPipeline(manager);
  if (failed(manager.run(*graph->module)))
    require(errors > 0, "what a pass refuses is said");
  return 0;
}
