#include "Driver/State.h"
#include "adapt/CodeGen/CpuKernelGenerator.h"
#include "adapt/Import/Checkpoint.h"
#include "dialects/Program/ProgramDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace adapt;

Outcome adapt::refuse(MLIRContext &context, const llvm::Twine &message) {
  emitError(UnknownLoc::get(&context)) << message;
  return Outcome::Refused;
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
  if (target->codeGenerator != "cpu")
    return refuse(context, target->path + " has the code generator '" + target->codeGenerator +
                               "'; this compiler has 'cpu'");
  CpuOptions cpu;
  if (!target->variant.empty())
    cpu.cpu = target->variant;
  if (options.useKernelCache)
    cpu.cacheDir = options.kernelCache.empty() ? getDefaultCacheDir() : options.kernelCache;
  cpu.threads = options.threads;
  auto created = createCpuKernelGenerator(cpu);
  if (!created)
    return refuse(context, llvm::toString(created.takeError()));
  generator = std::move(*created);
  return Outcome::Done;
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
       size("B", llvm::divideCeil(maxSeqLen, blockTokens)),
       builder.getNamedAttr("L", builder.getI64ArrayAttr({0, options.maxNumTokens}))});
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
  if (getMeshSize(module, "tp") * getMeshSize(module, "pp") > 1 &&
      options.compileTo.value_or(Phase::Emit) > Phase::Fuse)
    return refuse(*module.getContext(),
                  "the phases plan and emit make programs of one rank; with --tp or --pp stop "
                  "before them, with --compile-to=fuse");
  return Outcome::Done;
}
} // namespace

Outcome Compiler::import() {
  MLIRContext &context = state->context;
  if (options.compileFrom) {
    ParserConfig config(&context);
    state->module = parseSourceFile<ModuleOp>(options.input, config);
    if (!state->module)
      return Outcome::Refused;
    if (!options.checkpoint.empty()) {
      auto checkpoint = weights::Checkpoint::open(options.checkpoint);
      if (!checkpoint.ok())
        return refuse(context, std::string(checkpoint.status().message()));
      state->checkpoint = std::move(*checkpoint);
    }
  } else {
    ImportOptions import;
    import.path = options.input;
    import.familyDirectories = options.familyDirectories;
    import.dtype = options.dtype;
    import.allowAbsentWeights = !isWritten();
    FailureOr<LoadedModel> loaded = loadModel(&context, import);
    if (failed(loaded))
      return Outcome::Refused;
    state->checkpoint = std::move(loaded->checkpoint);
    state->model.emplace(std::move(loaded->model));
    state->module = buildModel(&context, *state->model);
    if (!state->module)
      return Outcome::Refused;
  }

  ModuleOp module = *state->module;
  auto model = module->getAttrOfType<DictionaryAttr>("adapt.model");
  auto modelSeqLen = model ? model.getAs<IntegerAttr>("max_seq_len") : IntegerAttr();
  if (!modelSeqLen)
    return refuse(context, options.input + " has no adapt.model with max_seq_len");
  if (options.maxSeqLen > modelSeqLen.getInt())
    return refuse(context, "--max-seq-len=" + llvm::Twine(options.maxSeqLen) +
                               " is more than the model's " + llvm::Twine(modelSeqLen.getInt()));
  if (options.maxSeqLen == 0)
    options.maxSeqLen = modelSeqLen.getInt();
  if (!options.compileFrom || !module->hasAttr("adapt.target"))
    module->setAttr("adapt.target",
                    state->target->toAttribute(&context, state->generator->getCpu(),
                                               state->generator->getRequiredFeatures()));
  module->setAttr("adapt.limits",
                  getLimits(context, options, options.maxSeqLen, state->target->blockTokens));
  if (Outcome outcome = setMesh(module, options); outcome != Outcome::Done)
    return outcome;
  if (options.output.empty())
    options.output = model.getAs<StringAttr>("name").str() + ".bundle";
  return Outcome::Done;
}
