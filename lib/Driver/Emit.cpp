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

llvm::Error toError(const absl::Status &status) {
  return status.ok() ? llvm::Error::success()
                     : llvm::createStringError(llvm::Twine(std::string(status.message())));
}

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
// Stages and ranks
//===----------------------------------------------------------------------===//

namespace {
/// What the ranks of a stage share.
struct Stage {
  schema::Program program;
  std::vector<WeightInstance> weights;
  schema::WeightTable table;
  std::vector<int> entries; ///< of the table, one for each weight
};

LogicalResult exportStage(ModuleOp module, program::ModuleOp program, Stage &stage) {
  FailureOr<std::vector<int>> entries = failure();
  bool exported = succeeded(program::exportProgram(program, stage.program));
  auto entry = *program.getBody().getOps<program::EntryOp>().begin();
  auto weights = collectWeights(module, entry.getFunction());
  if (succeeded(weights))
    entries = exportParams(*weights, stage.table);
  if (!exported || failed(entries))
    return failure();
  stage.weights = std::move(*weights);
  stage.entries = std::move(*entries);
  return success();
}

/// A rank's place in the mesh.
struct Place {
  int64_t ppRank, pp, tpRank, tp;
  int64_t getRank() const { return ppRank * tp + tpRank; }
  std::string getDirectory() const { return "rank" + std::to_string(getRank()); }
  /// The ranks of a stage have one program, which lies with the first of them.
  std::string getProgram() const { return Place{ppRank, pp, 0, tp}.getDirectory() + "/program.pb"; }
};

/// Writes a rank's weights, or, with `original`, which files they are read from.
llvm::Error writeWeights(const Stage &stage, const Place &place,
                         const weights::SourceProvider &sources,
                         const weights::Checkpoint *original, BundleWriter &bundle) {
  std::string directory = place.getDirectory();
  // Recipes of the rank's own.
  schema::WeightTable table = stage.table;
  bindSymbol(table, AdaptDialect::getCoordinate("tp"), place.tpRank);
  absl::Status status;
  if (original) {
    status = referenceWeights(*original, table);
  } else {
    if (llvm::Error error = bundle.addFolder(directory))
      return error;
    status = convertWeights(
        stage.weights, stage.entries, sources, directory,
        weights::rankMetadata(place.tpRank, place.tp, place.ppRank, place.pp, 0, 1), table, bundle);
  }
  if (!status.ok())
    return toError(status);
  return bundle.addFile(directory + "/weights.pb", serialize(table));
}

/// A rank's entry in the manifest.
llvm::json::Object describeRank(const Place &place, const Report::Rank &rank,
                                const CompiledKernels &kernels) {
  llvm::json::Object entry{{"directory", place.getDirectory()},
                           {"pp_rank", place.ppRank},
                           {"tp_rank", place.tpRank},
                           {"program", place.getProgram()},
                           {"weights", place.getDirectory() + "/weights.pb"}};
  for (const CompiledKernels::File &file : kernels.files)
    entry[file.key] = kKernels.str() + file.name;
  if (rank.layers)
    entry["layers"] = llvm::json::Array{rank.layers->first, rank.layers->second};
  return entry;
}
} // namespace

//===----------------------------------------------------------------------===//
// Tokenizer
//===----------------------------------------------------------------------===//

namespace {
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

/// Copies what there is of a checkpoint's tokenizer; the manifest's entry, or null.
llvm::Expected<llvm::json::Value> copyTokenizer(llvm::StringRef checkpoint, BundleWriter &bundle) {
  llvm::json::Value entry = nullptr;
  for (llvm::StringRef name : kTokenizerFiles) {
    llvm::SmallString<256> path(checkpoint);
    llvm::sys::path::append(path, name);
    if (!llvm::sys::fs::exists(path))
      continue;
    auto text = readTokenizerFile(path);
    if (!text)
      return text.takeError();
    std::string copy = ("tokenizer/" + name).str();
    if (llvm::Error error = bundle.addFile(copy, (*text)->getBuffer()))
      return error;
    if (name == kTokenizerFiles[0])
      entry = llvm::json::Object{{"file", copy}};
  }
  return entry;
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

/// All but the ranks, the tokenizer and the files.
llvm::json::Object describeModule(ModuleOp module, const Target &target,
                                  const KernelGenerator &generator, const Report &report) {
  auto model = module->getAttrOfType<DictionaryAttr>("adapt.model");
  llvm::json::Object modelObject{{"kind", get(model, "kind")}};
  for (StringRef key :
       {"family", "dtype", "vocab_size", "max_seq_len", "bos_token_ids", "eos_token_ids"})
    if (model.get(key))
      modelObject[key] = get(model, key);
  llvm::json::Object limits;
  for (const auto &[key, value] : report.limits)
    limits[key] = value;
  if (!isGraph(module))
    limits["block_tokens"] =
        get(module->getAttrOfType<DictionaryAttr>("adapt.target"), "block_tokens");
  // What a device must be to run the kernels, whatever the target's file is called.
  llvm::json::Object targetObject{{"name", target.codeGenerator}};
  for (NamedAttribute field : generator.describeProcessor(module.getContext()))
    targetObject[field.getName().getValue()] = toJson(field.getValue());
  return llvm::json::Object{{"format", "adaptc-bundle"},
                            {"format_version", rt::kBundleFormatVersion},
                            {"producer", llvm::json::Object{{"version", getVersion()},
                                                            {"commit", getCommit()},
                                                            {"llvm", getLLVMVersion()}}},
                            {"name", get(model, "name")},
                            {"target", std::move(targetObject)},
                            {"model", std::move(modelObject)},
                            {"limits", std::move(limits)}};
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
  std::vector<Stage> stages(programs->size());
  for (auto [stage, program] : llvm::zip_equal(stages, *programs))
    if (failed(exportStage(module, program, stage)))
      return options.compileFrom ? Outcome::Refused : Outcome::Fault;

  FailureOr<CompiledKernels> kernels = state->generator->compile(module);
  if (failed(kernels))
    return Outcome::Refused;

  auto bundle = BundleWriter::create(options.output);
  if (!bundle)
    return fail(bundle.takeError());
  state->bundle.emplace(std::move(*bundle));
  BundleWriter &writer = *state->bundle;

  const weights::Checkpoint *original =
      options.referenceWeights ? state->checkpoint.get() : nullptr;
  int64_t tp = getMeshSize(module, "tp"), pp = stages.size();
  llvm::json::Array ranks;
  for (auto [ppRank, stage] : llvm::enumerate(stages)) {
    Place place{int64_t(ppRank), pp, 0, tp};
    if (llvm::Error error = writer.addFile(place.getProgram(), serialize(stage.program)))
      return fail(std::move(error));
    for (; place.tpRank < tp; ++place.tpRank) {
      if (llvm::Error error = writeWeights(stage, place, *state->sources, original, writer))
        return fail(std::move(error));
      ranks.push_back(describeRank(place, report.ranks[place.getRank()], *kernels));
    }
  }
  for (const CompiledKernels::File &file : kernels->files)
    if (llvm::Error error = writer.addFile(kKernels.str() + file.name, file.bytes))
      return fail(std::move(error));
  report.notes.insert(report.notes.end(), kernels->notes.begin(), kernels->notes.end());
  for (const auto &[phase, bytes] : state->bytecode)
    if (llvm::Error error = writer.addFile(("ir/" + getName(phase) + ".mlirbc").str(), bytes))
      return fail(std::move(error));
  auto tokenizer = copyTokenizer(options.compileFrom ? options.checkpoint : options.input, writer);
  if (!tokenizer)
    return fail(tokenizer.takeError());

  state->manifest = describeModule(module, *state->target, *state->generator, report);
  state->manifest["parallel"] = llvm::json::Object{{"tp", tp}, {"pp", pp}, {"dp", 1}, {"ep", 1}};
  state->manifest["ranks"] = std::move(ranks);
  if (tokenizer->getAsObject())
    state->manifest["tokenizer"] = std::move(*tokenizer);
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
