#include "Driver/State.h"
#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "adapt/CodeGen/GpuKernelGenerator.h"
#include "adapt/Import/Checkpoint.h"
#include "adapt/Import/Onnx.h"
#include "dialects/Program/ProgramDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Common/SizeBounds.h"
#include "passes/Common/TargetInfo.h"
#include "passes/Fuse/Passes.h"
#include "passes/Import/Passes.h"
#include "passes/Map/Passes.h"
#include "passes/Plan/Passes.h"
#include "passes/Shard/Passes.h"
#include "passes/Simplify/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace adapt;

Outcome adapt::refuse(MLIRContext &context, const llvm::Twine &message) {
  emitError(UnknownLoc::get(&context)) << message;
  return Outcome::Refused;
}

bool adapt::isGraph(ModuleOp module) {
  auto model = module->getAttrOfType<DictionaryAttr>("adapt.model");
  auto kind = model ? model.getAs<StringAttr>("kind") : StringAttr();
  return kind && kind.getValue() == "graph";
}

Compiler::State::State() {
  context.printOpOnDiagnostic(false);
  context.loadDialect<AdaptDialect, program::ProgramDialect, func::FuncDialect>();
}

Outcome Compiler::State::prepare(const CompileOptions &options) {
  FailureOr<Target> loaded = loadTarget(&context, options.target, options.targetDirectories);
  if (failed(loaded))
    return Outcome::Refused;
  target.emplace(std::move(*loaded));
  std::string cacheDir;
  if (options.useKernelCache)
    cacheDir = options.kernelCache.empty() ? getDefaultCacheDir() : options.kernelCache;
  if (!cacheDir.empty()) {
    std::error_code code = llvm::sys::fs::create_directories(cacheDir);
    if (!code && !llvm::sys::fs::is_directory(cacheDir))
      code = std::make_error_code(std::errc::not_a_directory);
    if (!code)
      code = llvm::sys::fs::access(cacheDir, llvm::sys::fs::AccessMode::Write);
    std::string message = "the kernel cache " + cacheDir + " cannot be written: " + code.message();
    if (code && !options.kernelCache.empty())
      return refuse(context, message + " (--no-kernel-cache does without)");
    if (code)
      emitWarning(UnknownLoc::get(&context)) << message << "; every kernel is compiled anew";
  }
  llvm::Expected<std::unique_ptr<KernelGenerator>> created = createGenerator(options, cacheDir);
  if (!created)
    return refuse(context, llvm::toString(created.takeError()));
  generator = std::move(*created);
  return Outcome::Done;
}

llvm::Expected<std::unique_ptr<KernelGenerator>>
Compiler::State::createGenerator(const CompileOptions &options, const std::string &cacheDir) {
  const std::string &kind = target->codeGenerator;
  if (kind == "cpu") {
    if (options.simulation)
      return llvm::createStringError("--sim is for GPUs; " + target->name + " is none");
    CpuOptions cpu;
    if (!target->variant.empty())
      cpu.cpu = target->variant;
    cpu.cacheDir = cacheDir;
    cpu.threads = options.threads;
    return createCpuKernelGenerator(cpu);
  }
  if (kind == "cuda" || kind == "hip") {
    GpuOptions gpu;
    gpu.target = kind;
    gpu.arch = target->variant;
    gpu.simulation = options.simulation;
    gpu.ptxas = "search";
    gpu.cacheDir = cacheDir;
    gpu.threads = options.threads;
    return createGpuKernelGenerator(gpu);
  }
  return llvm::createStringError(target->path + " has the code generator '" + kind +
                                 "'; this compiler has cpu, cuda and hip");
}

//===----------------------------------------------------------------------===//
// import
//===----------------------------------------------------------------------===//

namespace {
// The bounds that `plan` works with.
DictionaryAttr getLimits(MLIRContext &context, const CompileOptions &options, int64_t maxSeqLen,
                         int64_t blockTokens) {
  Builder builder(&context);
  auto size = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  return builder.getDictionaryAttr(
      {size("T", options.maxNumTokens), size("S", options.maxBatchSize),
       size("B", llvm::divideCeil(maxSeqLen, blockTokens)), size("max_seq_len", maxSeqLen),
       builder.getNamedAttr("L", builder.getI64ArrayAttr({0, options.maxNumTokens}))});
}

/// The bounds of a graph's sizes: what the user says, else as many as a batch or a step may have,
/// and what the graph itself allows. Fails on names and numbers that do not fit, all at once.
FailureOr<DictionaryAttr> getGraphLimits(ModuleOp module, const CompileOptions &options) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return module.emitError("has no entry function @main");
  SmallVector<StringRef> symbols = getNames(main, AdaptDialect::kSymbols);
  auto bounds = module->getAttrOfType<DictionaryAttr>("adapt.size_bounds");
  Builder builder(module.getContext());
  SmallVector<std::string> problems;
  for (const auto &[name, value] : options.shape)
    if (!llvm::is_contained(symbols, name))
      problems.push_back("no size is called '" + name + "'; there are: " +
                         (symbols.empty() ? std::string("none") : llvm::join(symbols, ", ")));
  NamedAttrList limits;
  for (StringRef symbol : symbols) {
    // A size that only stands first counts a batch.
    AffineExpr size = getSymbolExpr(module.getContext(), symbol);
    bool isBatch = llvm::all_of(main.getArgumentTypes(), [&](Type type) {
      SmallVector<AffineExpr> dims = getDims(cast<RankedTensorType>(type));
      return dims.empty() || !llvm::is_contained(ArrayRef(dims).drop_front(), size);
    });
    int64_t max = isBatch ? options.maxBatchSize : options.maxNumTokens, least = 1;
    auto given = options.shape.find(symbol.str());
    if (given != options.shape.end())
      max = given->second;
    if (auto range = bounds ? bounds.getAs<ArrayAttr>(symbol) : ArrayAttr();
        range && range.size() == 2) {
      int64_t low = cast<IntegerAttr>(range[0]).getInt(),
              high = cast<IntegerAttr>(range[1]).getInt();
      if (given != options.shape.end() && max > high)
        problems.push_back(("'" + symbol + "' is at most " + llvm::Twine(high) +
                            " in this graph, not " + llvm::Twine(max))
                               .str());
      least = std::max(least, low);
      max = std::min(max, high);
    }
    if (max < least)
      problems.push_back(("'" + symbol + "' is at least " + llvm::Twine(least) +
                          " in this graph: give --shape " + symbol + "=N")
                             .str());
    limits.set(symbol, builder.getI64ArrayAttr({least, std::max(max, least)}));
  }
  if (!problems.empty())
    return module.emitError() << "--shape: " << llvm::join(problems, "; ");
  return limits.getDictionary(module.getContext());
}

/// What is read of a module's attribute adapt.model, which a user may have written.
bool checkModelAttribute(ModuleOp module, StringRef input) {
  auto model = module->getAttrOfType<DictionaryAttr>("adapt.model");
  bool isValid = true;
  auto check = [&](StringRef key, bool isRight, StringRef wanted) {
    if (!isRight)
      module.emitError() << "adapt.model: '" << key << "' must be " << wanted;
    isValid &= isRight;
  };
  if (!model) {
    module.emitError() << input << " has no attribute adapt.model, a dictionary";
    return false;
  }
  // The name names the bundle unless -o does: it stays in the folder.
  auto name = model.getAs<StringAttr>("name");
  check("name",
        name && !name.empty() &&
            llvm::none_of(name.getValue(),
                          [](char c) { return c == '/' || static_cast<unsigned char>(c) < ' '; }),
        "a file's name");
  if (isGraph(module))
    return isValid;
  for (StringRef key : {"family", "dtype"})
    check(key, bool(model.getAs<StringAttr>(key)), "a string");
  for (StringRef key : {"vocab_size", "max_seq_len"}) {
    auto size = model.getAs<IntegerAttr>(key);
    check(key,
          size && size.getType().isInteger(64) && size.getInt() >= 1 && size.getInt() <= INT32_MAX,
          "an i64 from 1 to 2147483647");
  }
  for (StringRef key : {"bos_token_ids", "eos_token_ids"}) {
    auto ids = model.getAs<ArrayAttr>(key);
    check(key,
          ids && llvm::all_of(ids,
                              [](Attribute id) {
                                auto integer = dyn_cast<IntegerAttr>(id);
                                return integer && integer.getType().isInteger(64) &&
                                       integer.getInt() >= 0;
                              }),
          "a list of i64");
  }
  return isValid;
}

/// The verifier at the end of a phase.
void buildVerifier(Phase phase, PassManager &manager) {
  switch (phase) {
  case Phase::Import:
    return manager.addPass(createVerifyImport());
  case Phase::Simplify:
    return manager.addPass(createVerifySimplify());
  case Phase::Shard:
    return manager.addPass(createVerifyShard());
  case Phase::Map:
    return manager.addPass(createVerifyMap());
  case Phase::Fuse:
    return manager.addPass(createVerifyFuse());
  case Phase::Plan:
  case Phase::Emit:
    return manager.addPass(createVerifyPlan());
  }
}

// The ranks, as passes know them. A module that is sharded has its mesh already.
Outcome setMesh(ModuleOp module, const CompileOptions &options) {
  Builder builder(module.getContext());
  NamedAttrList mesh;
  for (auto [axis, size] : {std::pair("pp", options.pp), std::pair("tp", options.tp)})
    if (size > 1)
      mesh.set(axis, builder.getI64IntegerAttr(size));
  Attribute wanted = mesh.getDictionary(module.getContext());
  bool isSharded = options.compileFrom && *options.compileFrom >= Phase::Shard;
  Attribute known = module->getAttr(AdaptDialect::kMesh);
  if (!isSharded && !mesh.empty())
    module->setAttr(AdaptDialect::kMesh, wanted);
  else if (isSharded && !mesh.empty() && wanted != known)
    return refuse(*module.getContext(),
                  "--tp and --pp are not those that " + options.input + " was sharded for");
  if (isSharded && getMeshSize(module, "tp") > 1) {
    // The coordinate that recipes and kernels use as a size.
    NamedAttrList limits(module->getAttrOfType<DictionaryAttr>(SizeBounds::kAttribute));
    limits.set(AdaptDialect::getCoordinate("tp"),
               builder.getI64ArrayAttr({0, getMeshSize(module, "tp") - 1}));
    module->setAttr(SizeBounds::kAttribute, limits.getDictionary(module.getContext()));
  }
  return Outcome::Done;
}
} // namespace

Outcome Compiler::resume() {
  MLIRContext &context = state->context;
  const StringRef input = options.input;
  if (llvm::sys::fs::is_directory(input))
    return refuse(context, input + " is a folder; --compile-from goes on from a file of IR, as "
                                   "--compile-to and --dump-phases write it");
  state->module = parseSourceFile<ModuleOp>(input, ParserConfig(&context));
  if (!state->module)
    return Outcome::Refused;
  ModuleOp module = *state->module;
  if (!checkModelAttribute(module, input))
    return Outcome::Refused;

  // Layouts and kernels follow from the target: half a bundle for one and half for another is none.
  auto target = state->target->toAttribute(&context, state->generator->describeProcessor(&context));
  if (auto given = module->getAttrOfType<DictionaryAttr>(TargetInfo::kAttribute);
      given && given != target) {
    auto name = given.getAs<StringAttr>("name"), processor = given.getAs<StringAttr>("cpu");
    if (!processor)
      processor = given.getAs<StringAttr>("arch");
    std::string text = name ? name.str() + (processor ? ":" + processor.str() : "") : "another";
    return refuse(context, input + " was made for the target " + text + ", not for " +
                               state->target->name + ":" + state->generator->getProcessor() +
                               " as this compiler describes it: give --target=" + text +
                               " or compile from the checkpoint");
  }
  if (*options.compileFrom >= Phase::Plan && !module->hasAttr(SizeBounds::kAttribute))
    return refuse(context, input + " has no adapt.limits: it is not the IR at the end of plan");

  PassManager manager(&context);
  buildVerifier(*options.compileFrom, manager);
  if (failed(manager.run(module)))
    return Outcome::Refused;
  if (isOnnxPath(options.checkpoint)) {
    FailureOr<ImportedGraph> graph = importOnnx(&context, options.checkpoint);
    if (failed(graph))
      return Outcome::Refused;
    state->sources = std::move(graph->weights);
  } else if (!options.checkpoint.empty()) {
    auto checkpoint = weights::Checkpoint::open(options.checkpoint);
    if (!checkpoint.ok())
      return refuse(context, std::string(checkpoint.status().message()));
    state->sources = state->checkpoint = std::move(*checkpoint);
  }
  return Outcome::Done;
}

Outcome Compiler::keepLimits() {
  ModuleOp module = *state->module;
  FailureOr<SizeBounds> bounds = SizeBounds::get(module);
  if (failed(bounds))
    return Outcome::Refused;
  auto keep = [&](StringRef symbol, int64_t &option) {
    const SizeBounds::Range *range = bounds->find(symbol);
    option = range ? range->max : 0;
    return range != nullptr;
  };
  if (!keep("T", options.maxNumTokens) || !keep("S", options.maxBatchSize) ||
      !keep("max_seq_len", options.maxSeqLen))
    return refuse(state->context, "adapt.limits must bound T, S and max_seq_len");
  return Outcome::Done;
}

Outcome Compiler::import() {
  MLIRContext &context = state->context;
  if (options.compileFrom) {
    if (Outcome outcome = resume(); outcome != Outcome::Done)
      return outcome;
  } else if (isOnnxPath(options.input)) {
    FailureOr<ImportedGraph> graph = importOnnx(&context, options.input);
    if (failed(graph))
      return Outcome::Refused;
    state->sources = std::move(graph->weights);
    state->module = std::move(graph->module);
  } else {
    ImportOptions import;
    import.path = options.input;
    import.familyDirectories = options.familyDirectories;
    import.dtype = options.dtype;
    import.allowAbsentWeights = !isWritten();
    FailureOr<LoadedModel> loaded = loadModel(&context, import);
    if (failed(loaded))
      return Outcome::Refused;
    state->sources = state->checkpoint = std::move(loaded->checkpoint);
    state->model.emplace(std::move(loaded->model));
    state->module = buildModel(&context, *state->model);
    if (!state->module)
      return Outcome::Refused;
  }

  ModuleOp module = *state->module;
  auto model = module->getAttrOfType<DictionaryAttr>("adapt.model");
  module->setAttr(
      TargetInfo::kAttribute,
      state->target->toAttribute(&context, state->generator->describeProcessor(&context)));
  if (options.output.empty())
    options.output = model.getAs<StringAttr>("name").str() + ".bundle";
  if (isWritten())
    if (auto output = BundleWriter::checkOutput(options.output); !output)
      return refuse(context, llvm::toString(output.takeError()));
  // A plan was made within its limits.
  bool isPlanned = options.compileFrom && *options.compileFrom >= Phase::Plan;
  if (isGraph(module)) {
    if (options.tp > 1 || options.pp > 1)
      return refuse(context, "--tp and --pp are for language models; nothing says yet how the "
                             "weights of a graph are split: " +
                                 options.input);
    if (isPlanned)
      return Outcome::Done;
    FailureOr<DictionaryAttr> limits = getGraphLimits(module, options);
    if (failed(limits))
      return Outcome::Refused;
    module->setAttr(SizeBounds::kAttribute, *limits);
    return Outcome::Done;
  }
  if (!options.shape.empty())
    return refuse(context, "--shape is for graphs; " + options.input + " holds a language model");
  int64_t modelSeqLen = model.getAs<IntegerAttr>("max_seq_len").getInt();
  if (options.maxSeqLen > modelSeqLen)
    return refuse(context, "--max-seq-len=" + llvm::Twine(options.maxSeqLen) +
                               " is more than the model's " + llvm::Twine(modelSeqLen));
  if (options.maxSeqLen == 0)
    options.maxSeqLen = modelSeqLen;
  if (!isPlanned)
    module->setAttr(SizeBounds::kAttribute,
                    getLimits(context, options, options.maxSeqLen, state->target->blockTokens));
  else if (Outcome outcome = keepLimits(); outcome != Outcome::Done)
    return outcome;
  return setMesh(module, options);
}
