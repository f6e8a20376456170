// The phase `emit`: kernels, program, weights, tokenizer and manifest into a bundle.
#include "Driver/State.h"
#include "adapt/Bundle/Weights.h"
#include "adapt/Support/Version.h"
#include "adapt/Version.h"
#include "dialects/Program/Export.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "program.pb.h"
#include "recipe.pb.h"
#include "weights/Recipe.h"
#include "weights/WeightWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace adapt;

namespace {
// Where the kernels of all ranks lie: equal local shapes share one.
constexpr llvm::StringLiteral kKernels = "rank0/";

std::string getDirectory(int64_t rank) { return "rank" + std::to_string(rank); }

// Files of the checkpoint that the runtime reads.
constexpr llvm::StringLiteral kTokenizerFiles[] = {"tokenizer.json", "tokenizer_config.json"};

// The largest that is known has 33 MB; a pipe or a device has no end.
constexpr uint64_t kMaxTokenizerBytes = 256 << 20;

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readTokenizerFile(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  std::error_code code = llvm::sys::fs::status(path, status);
  if (!code && !llvm::sys::fs::is_regular_file(status))
    return llvm::createStringError(path + ": not a file");
  if (!code && status.getSize() > kMaxTokenizerBytes)
    return llvm::createStringError(path + ": " + llvm::Twine(status.getSize()) +
                                   " bytes; the limit is " + llvm::Twine(kMaxTokenizerBytes));
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (code || !buffer)
    return llvm::createStringError("cannot read " + path + ": " +
                                   (code ? code : buffer.getError()).message());
  return std::move(*buffer);
}

std::string serialize(const google::protobuf::MessageLite &message) {
  // Maps in a fixed order: the same input gives the same bytes.
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

std::string toString(const absl::Status &status) { return std::string(status.message()); }

} // namespace

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

namespace {
// Evaluates the recipes into weight files of a rank, in order of execution.
absl::Status convertWeights(llvm::ArrayRef<WeightInstance> weights, llvm::ArrayRef<int> entries,
                            const weights::SourceProvider &sources, const std::string &directory,
                            std::map<std::string, std::string> metadata, schema::WeightTable &table,
                            BundleWriter &bundle) {
  table.set_mode(schema::WeightTable::CONVERTED);
  std::vector<weights::WeightItem> items;
  for (auto [weight, entry] : llvm::zip_equal(weights, entries)) {
    weights::WeightItem item{weight.name, table.params(entry).type(), std::nullopt};
    if (auto layer = weight.indices.find("layer"); layer != weight.indices.end())
      item.layer = layer->second;
    items.push_back(std::move(item));
  }
  weights::WeightWriterOptions options;
  options.metadata = std::move(metadata);
  auto writer = weights::WeightWriter::plan(std::move(items), options);
  if (!writer.ok())
    return writer.status();
  absl::Status status =
      writer->write((bundle.getDirectory() + "/" + directory).str(),
                    [&](size_t item, const weights::Evaluation::Sink &sink) -> absl::Status {
                      weights::Bindings bindings;
                      bindings.indices = weights[item].indices;
                      auto evaluation = weights::Evaluation::prepare(
                          table.params(entries[item]).recipe(), bindings, sources);
                      return evaluation.ok() ? evaluation->stream(sink) : evaluation.status();
                    });
  if (!status.ok())
    return status;
  writer->describe(table);
  for (const auto &file : writer->files())
    bundle.addWritten(directory + "/" + file.name, file.bytes, file.xxh3);
  return absl::OkStatus();
}

// Records the original files, which the runtime reads.
absl::Status referenceWeights(const weights::Checkpoint &checkpoint, schema::WeightTable &table) {
  table.set_mode(schema::WeightTable::REFERENCE);
  auto sources = weights::describeSources(checkpoint);
  if (!sources.ok())
    return sources.status();
  table.mutable_sources()->Assign(sources->begin(), sources->end());
  return absl::OkStatus();
}
} // namespace

//===----------------------------------------------------------------------===//
// Manifest
//===----------------------------------------------------------------------===//

namespace {
llvm::json::Value toJson(Attribute attribute) {
  if (auto string = dyn_cast<StringAttr>(attribute))
    return string.getValue().str();
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getType().isInteger(1) ? llvm::json::Value(integer.getValue().getBoolValue())
                                          : llvm::json::Value(integer.getInt());
  if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    llvm::json::Array values;
    for (Attribute element : array)
      values.push_back(toJson(element));
    return values;
  }
  if (auto dense = dyn_cast<DenseI64ArrayAttr>(attribute))
    return llvm::json::Array(dense.asArrayRef());
  return nullptr;
}

llvm::json::Value get(DictionaryAttr dictionary, StringRef key) {
  Attribute value = dictionary ? dictionary.get(key) : Attribute();
  return value ? toJson(value) : llvm::json::Value(nullptr);
}
} // namespace

Outcome Compiler::emit() {
  MLIRContext &context = state->context;
  ModuleOp module = getModule();
  auto fail = [&](llvm::Error error) { return refuse(context, llvm::toString(std::move(error))); };

  auto programs = program::getPrograms(module);
  if (failed(programs)) // only IR that a user gave can lack one
    return refuse(context, options.input + " has no program: it is not the IR at the end of plan");

  if (options.referenceWeights && state->sources && !state->checkpoint)
    return refuse(context, "--weights=reference is for safetensors: " + options.input +
                               " keeps its weights in a file of another format");
  if (!state->sources)
    return refuse(context, options.compileFrom
                               ? "there are no weights to emit: --checkpoint names their folder"
                               : "there are no weights to emit: " + options.input +
                                     " has a config.json but no safetensors");
  // Stages: what their ranks share.
  struct Stage {
    schema::Program program;
    std::vector<WeightInstance> weights;
    schema::WeightTable table;
    std::vector<int> entries;
  };
  std::vector<Stage> stages(programs->size());
  for (auto [stage, program] : llvm::zip_equal(stages, *programs)) {
    FailureOr<std::vector<int>> entries = failure();
    bool exported = succeeded(program::exportProgram(program, stage.program));
    auto entry = *program.getBody().getOps<program::EntryOp>().begin();
    auto weights = collectWeights(module, entry.getFunction());
    if (succeeded(weights))
      entries = exportParams(*weights, stage.table);
    if (!exported || failed(entries))
      return options.compileFrom ? Outcome::Refused : Outcome::Fault;
    stage.weights = std::move(*weights);
    stage.entries = std::move(*entries);
  }

  FailureOr<CompiledKernels> kernels = state->generator->compile(module);
  if (failed(kernels))
    return Outcome::Refused;

  auto bundle = BundleWriter::create(options.output);
  if (!bundle)
    return fail(bundle.takeError());
  state->bundle.emplace(std::move(*bundle));
  BundleWriter &writer = *state->bundle;

  int64_t tp = getMeshSize(module, "tp"), pp = stages.size();
  llvm::json::Array ranks;
  for (auto [ppRank, stage] : llvm::enumerate(stages)) {
    std::string program = getDirectory(ppRank * tp) + "/program.pb";
    if (llvm::Error error = writer.addFile(program, serialize(stage.program)))
      return fail(std::move(error));
    for (int64_t tpRank = 0; tpRank < tp; ++tpRank) {
      int64_t rank = ppRank * tp + tpRank;
      std::string directory = getDirectory(rank);
      // Recipes of the rank's own.
      schema::WeightTable table = stage.table;
      bindSymbol(table, AdaptDialect::getCoordinate("tp"), tpRank);
      absl::Status status;
      if (options.referenceWeights) {
        status = referenceWeights(*state->checkpoint, table);
      } else {
        std::string folder = (writer.getDirectory() + "/" + directory).str();
        if (std::error_code code = llvm::sys::fs::create_directories(folder))
          return refuse(context, "cannot make the folder " + folder + ": " + code.message());
        status = convertWeights(stage.weights, stage.entries, *state->sources, directory,
                                weights::rankMetadata(tpRank, tp, ppRank, pp, 0, 1), table, writer);
      }
      if (!status.ok())
        return refuse(context, ::toString(status));
      if (llvm::Error error = writer.addFile(directory + "/weights.pb", serialize(table)))
        return fail(std::move(error));
      llvm::json::Object entry{{"directory", directory},
                               {"pp_rank", int64_t(ppRank)},
                               {"tp_rank", tpRank},
                               {"program", program},
                               {"weights", directory + "/weights.pb"}};
      for (const CompiledKernels::File &file : kernels->files)
        entry[file.key] = kKernels.str() + file.name;
      if (const auto &layers = report.ranks[rank].layers)
        entry["layers"] = llvm::json::Array{layers->first, layers->second};
      ranks.push_back(std::move(entry));
    }
  }

  for (const CompiledKernels::File &file : kernels->files)
    if (llvm::Error error = writer.addFile(kKernels.str() + file.name, file.bytes))
      return fail(std::move(error));
  report.notes.insert(report.notes.end(), kernels->notes.begin(), kernels->notes.end());
  for (const auto &[phase, bytes] : state->bytecode)
    if (llvm::Error error = writer.addFile(("ir/" + getName(phase) + ".mlirbc").str(), bytes))
      return fail(std::move(error));

  // Tokenizer.
  StringRef source = options.compileFrom ? options.checkpoint : options.input;
  llvm::json::Value tokenizer = nullptr;
  for (StringRef name : kTokenizerFiles) {
    SmallString<256> path(source);
    llvm::sys::path::append(path, name);
    if (!llvm::sys::fs::exists(path))
      continue;
    auto text = readTokenizerFile(path);
    if (!text)
      return fail(text.takeError());
    if (llvm::Error error = writer.addFile(("tokenizer/" + name).str(), (*text)->getBuffer()))
      return fail(std::move(error));
    if (name == kTokenizerFiles[0])
      tokenizer = llvm::json::Object{{"file", "tokenizer/tokenizer.json"}};
  }

  auto model = module->getAttrOfType<DictionaryAttr>("adapt.model");
  auto target = module->getAttrOfType<DictionaryAttr>("adapt.target");
  llvm::json::Object modelObject{{"kind", get(model, "kind")}};
  for (StringRef key :
       {"family", "dtype", "vocab_size", "max_seq_len", "bos_token_ids", "eos_token_ids"})
    if (model.get(key))
      modelObject[key] = get(model, key);
  llvm::json::Object limits;
  for (const auto &[key, value] : report.limits)
    limits[key] = value;
  auto kind = model.getAs<StringAttr>("kind");
  if (!kind || kind.getValue() != "graph")
    limits["block_tokens"] = get(target, "block_tokens");
  llvm::json::Object targetObject{{"name", get(target, "name")}};
  for (NamedAttribute field : state->generator->describeProcessor(&context))
    targetObject[field.getName().getValue()] = toJson(field.getValue());
  state->manifest = llvm::json::Object{
      {"format", "adaptc-bundle"},
      {"format_version", rt::kBundleFormatVersion},
      {"producer", llvm::json::Object{{"version", getVersion()},
                                      {"commit", getCommit()},
                                      {"llvm", getLLVMVersion()}}},
      {"name", get(model, "name")},
      {"target", std::move(targetObject)},
      {"parallel", llvm::json::Object{{"tp", tp}, {"pp", pp}, {"dp", 1}, {"ep", 1}}},
      {"model", std::move(modelObject)},
      {"limits", std::move(limits)},
      {"ranks", std::move(ranks)}};
  if (tokenizer.getAsObject())
    state->manifest["tokenizer"] = std::move(tokenizer);
  return Outcome::Done;
}

void Compiler::State::keepBytecode(Phase phase) {
  std::string &bytes = bytecode[phase];
  bytes.clear();
  llvm::raw_string_ostream stream(bytes);
  // Cannot fail without a version to downgrade to.
  (void)writeBytecodeToFile(*module, stream);
}

Outcome Compiler::State::writeReports(const CompileOptions &, const Report &report) {
  auto fail = [&](llvm::Error error) { return refuse(context, llvm::toString(std::move(error))); };
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", llvm::json::Value(report.toJson()))
                                 << '\n';
  if (llvm::Error error = bundle->addFile("report.json", text, BundleWriter::Hash::No))
    return fail(std::move(error));
  if (llvm::Error error = bundle->addFile("report.md", report.toMarkdown(), BundleWriter::Hash::No))
    return fail(std::move(error));
  if (llvm::Error error = bundle->finish(std::move(manifest)))
    return fail(std::move(error));
  bundle.reset();
  return Outcome::Done;
}
