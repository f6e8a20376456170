#include "adapt/Interpreter/Command.h"
#include "adapt/Support/Version.h"

#include "adapt/Interpreter/Files.h"
#include "adapt/Interpreter/LanguageModel.h"
#include "adapt/Interpreter/PlannedProgram.h"
#include "adapt/Interpreter/Sources.h"
#include "adapt/Npy.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "weights/Checkpoint.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"
#include <CLI/CLI.hpp>

using namespace mlir;

namespace adapt::interp {
namespace {

struct Arguments {
  std::string file, weights, function = "main", tokens, logits, outputDirectory, other;
  std::vector<std::string> inputs;
  Mode mode = Mode::Wide;
  std::vector<int64_t> lengths;
  int64_t chunk = 0, blockTokens = 16, below = 4;
  std::map<std::string, int64_t> sizes, indices;
  std::optional<uint64_t> seed;
  double tolerance = 1e-6;
  bool print = false, ignoreProgram = false;
};

/// Blocks of a state that is not a language model's.
constexpr int64_t kBlocks = 4;

/// What a run gives, by name.
struct Result {
  std::string name;
  Value value;
};

LogicalResult fail(const llvm::Twine &text) {
  llvm::errs() << "error: " << text << '\n';
  return failure();
}

FailureOr<TokenBatch> readTokens(const Arguments &arguments, std::vector<int64_t> &ids) {
  absl::StatusOr<rt::NpyIntegers> array = rt::readNpyIntegers(arguments.tokens);
  if (!array.ok())
    return fail(std::string(array.status().message()));
  if (array->shape.size() != 2)
    return fail(arguments.tokens + ": token ids must be [batch, length], not of rank " +
                llvm::Twine(array->shape.size()));
  ids = std::move(array->values);
  return TokenBatch{array->shape[0], array->shape[1], ids, arguments.lengths, arguments.chunk};
}

/// Runs one module as the arguments say.
class Run {
public:
  Run(const Arguments &arguments, ModuleOp module, ReadSource readSource)
      : arguments(arguments), module(module),
        interpreter(module, Options{arguments.mode, arguments.blockTokens, std::move(readSource)}) {
    for (const auto &[name, size] : arguments.sizes)
      symbols[name] = size;
    for (const auto &[name, value] : arguments.indices)
      indices[name] = value;
  }

  FailureOr<std::vector<Result>> operator()();

private:
  FailureOr<std::vector<Result>> runTokens();
  FailureOr<std::vector<Result>> runRandomTokens();
  FailureOr<std::vector<Result>> runBatchOf(const TokenBatch &batch);
  FailureOr<Tensor> runEntry(const TokenBatch &batch);
  FailureOr<std::vector<Result>> runGraph(PlannedProgram &program, program::EntryOp entry);
  FailureOr<std::vector<Result>> runFunction();
  FailureOr<SmallVector<Value>> makeArguments(Operation *op, TypeRange types);
  FailureOr<Value> makeArgument(Operation *op, Type type, unsigned index);
  bool isLanguageModel();

  const Arguments &arguments;
  ModuleOp module;
  Interpreter interpreter;
  FunctionOpInterface function;
  std::optional<PlannedProgram> program;
  program::EntryOp entry;
  Bindings symbols, indices;
  unsigned filesUsed = 0;
};

StringRef getName(Attribute name) {
  auto string = dyn_cast_or_null<StringAttr>(name);
  return string ? string.getValue() : StringRef();
}

bool Run::isLanguageModel() {
  return function.getNumArguments() > 0 &&
         getName(function.getArgAttr(0, "adapt.name")) == "token_ids";
}

FailureOr<Tensor> Run::runEntry(const TokenBatch &batch) {
  int64_t blockTokens = interpreter.getOptions().blockTokens;
  if (int64_t(entry.getBlockTokens()) != blockTokens)
    return fail("the program has blocks of " + llvm::Twine(entry.getBlockTokens()) +
                " tokens; give --block-tokens");
  if (program->getOutputNames(entry).empty())
    return fail("the entry point has no outputs");
  if (failed(program->createStates(getNumBlocks(batch, blockTokens))))
    return failure();
  return runBatch(entry.getLoc(), batch, blockTokens,
                  [&](ArrayRef<Value> inputs) -> FailureOr<Tensor> {
                    FailureOr<SmallVector<Value>> outputs = program->run(entry, inputs);
                    if (failed(outputs))
                      return failure();
                    return outputs->front().tensor();
                  });
}

FailureOr<std::vector<Result>> Run::runBatchOf(const TokenBatch &batch) {
  FailureOr<Tensor> logits =
      entry ? runEntry(batch) : runLanguageModel(interpreter, function, batch);
  if (failed(logits))
    return failure();
  return std::vector<Result>{{"logits", std::move(*logits)}};
}

FailureOr<std::vector<Result>> Run::runTokens() {
  std::vector<int64_t> ids;
  FailureOr<TokenBatch> batch = readTokens(arguments, ids);
  if (failed(batch))
    return failure();
  return runBatchOf(*batch);
}

/// S sequences (2), the first of T tokens (7), each next one shorter.
FailureOr<std::vector<Result>> Run::runRandomTokens() {
  auto getSize = [&](StringRef name, int64_t otherwise) {
    auto it = symbols.find(name);
    return it == symbols.end() ? otherwise : it->second;
  };
  int64_t sequences = getSize("S", 2), tokens = getSize("T", 7);
  constexpr int64_t kMost = 1 << 20;
  if (sequences < 1 || tokens < 1 || sequences > kMost / tokens)
    return fail("sizes S and T must be at least 1, and their product at most " +
                llvm::Twine(kMost));
  auto logits = cast<RankedTensorType>(function.getResultTypes()[0]);
  Tensor ids(IntegerType::get(module.getContext(), 64), {sequences, tokens});
  fillRandom(ids, *arguments.seed, std::max<int64_t>(1, logits.getShape().back()));
  SmallVector<int64_t> lengths;
  for (int64_t s = 0; s < sequences; ++s)
    lengths.push_back(std::max<int64_t>(1, tokens - s));
  return runBatchOf({sequences, tokens, ids.ints(), lengths, arguments.chunk});
}

FailureOr<Value> Run::makeArgument(Operation *op, Type type, unsigned index) {
  if (!isa<PagedType, RankedTensorType>(type))
    return op->emitError("argument ")
           << index << " has type " << type << ", which is neither a tensor nor a state";
  if (isa<PagedType>(type)) {
    FailureOr<State> state = interpreter.makeState(op, type, kBlocks);
    if (failed(state))
      return failure();
    if (arguments.seed)
      for (Tensor &plane : state->planes)
        fillRandom(plane, *arguments.seed + index, arguments.below);
    return Value(std::move(*state));
  }
  if (arguments.seed) {
    EvalContext context;
    context.symbols = symbols;
    FailureOr<Tensor> tensor = context.makeTensor(op, type);
    if (failed(tensor))
      return failure();
    fillRandom(*tensor, *arguments.seed + index, arguments.below);
    return Value(std::move(*tensor));
  }
  if (filesUsed == arguments.inputs.size())
    return fail("@" + arguments.function + " has more arguments than there are --input files (" +
                llvm::Twine(filesUsed) + "); --random-inputs makes them");
  llvm::Expected<Tensor> tensor =
      readTensor(arguments.inputs[filesUsed++], cast<RankedTensorType>(type).getElementType());
  if (!tensor)
    return fail(llvm::toString(tensor.takeError()));
  return Value(std::move(*tensor));
}

FailureOr<SmallVector<Value>> Run::makeArguments(Operation *op, TypeRange types) {
  SmallVector<Value> values;
  for (auto [i, type] : llvm::enumerate(types)) {
    FailureOr<Value> value = makeArgument(op, type, i);
    if (failed(value))
      return failure();
    values.push_back(std::move(*value));
  }
  if (filesUsed != arguments.inputs.size())
    return fail("@" + arguments.function + " takes " + llvm::Twine(filesUsed) +
                " inputs, not the " + llvm::Twine(arguments.inputs.size()) + " given");
  return values;
}

FailureOr<std::vector<Result>> Run::runGraph(PlannedProgram &program, program::EntryOp entry) {
  FailureOr<SmallVector<Value>> values = makeArguments(entry, program.getInputTypes(entry));
  if (failed(values))
    return failure();
  if (failed(program.createStates(kBlocks)))
    return failure();
  FailureOr<SmallVector<Value>> outputs = program.run(entry, *values);
  if (failed(outputs))
    return failure();
  std::vector<Result> named;
  for (auto [name, value] : llvm::zip_equal(program.getOutputNames(entry), *outputs))
    named.push_back({name.str(), std::move(value)});
  return named;
}

FailureOr<std::vector<Result>> Run::runFunction() {
  FailureOr<SmallVector<Value>> values = makeArguments(function, function.getArgumentTypes());
  if (failed(values))
    return failure();
  FailureOr<SmallVector<Value>> results = interpreter.run(function, *values, indices, symbols);
  if (failed(results))
    return failure();
  std::vector<Result> named;
  for (auto [i, value] : llvm::enumerate(*results)) {
    StringRef name = getName(function.getResultAttr(i, "adapt.name"));
    named.push_back({name.empty() ? "result" + std::to_string(i) : name.str(), std::move(value)});
  }
  return named;
}

FailureOr<std::vector<Result>> Run::operator()() {
  // After the phase plan the program is what runs; that proves the plan.
  if (auto programs = PlannedProgram::find(module); !programs.empty() && !arguments.ignoreProgram) {
    program.emplace(programs, interpreter);
    entry = program->lookup(arguments.function);
    if (entry && entry.getKind() == "graph")
      return runGraph(*program, entry);
  }
  function = interpreter.lookup(arguments.function);
  if (!function)
    return fail(arguments.file + ": no function @" + arguments.function);
  if (!arguments.tokens.empty())
    return runTokens();
  if (arguments.seed && isLanguageModel())
    return runRandomTokens();
  return runFunction();
}

LogicalResult compareResults(const std::vector<Result> &a, const std::vector<Result> &b,
                             double tolerance) {
  if (a.size() != b.size())
    return fail("the modules have " + llvm::Twine(a.size()) + " and " + llvm::Twine(b.size()) +
                " results");
  bool equal = true;
  for (auto [x, y] : llvm::zip_equal(a, b)) {
    std::optional<Difference> difference = compare(x.value, y.value);
    if (!difference) {
      (void)fail(x.name + ": the modules' results differ in shape or kind");
      equal = false;
      continue;
    }
    bool close = difference->error <= tolerance;
    llvm::outs() << x.name << ": error " << llvm::format("%.3g", difference->error) << ", cosine "
                 << llvm::format("%.9g", difference->cosine) << (close ? "" : ": TOO FAR") << '\n';
    equal &= close;
  }
  return equal ? success()
               : fail("the modules differ by more than " + llvm::formatv("{0:e}", tolerance).str());
}

LogicalResult write(const Arguments &arguments, const std::vector<Result> &results) {
  auto writeFile = [](const std::string &path, const Value &value) -> LogicalResult {
    if (value.isState())
      return success();
    if (llvm::Error error = writeTensor(path, value.tensor()))
      return fail(llvm::toString(std::move(error)));
    return success();
  };
  if (!arguments.logits.empty() && failed(writeFile(arguments.logits, results.front().value)))
    return failure();
  if (!arguments.outputDirectory.empty()) {
    if (std::error_code error = llvm::sys::fs::create_directories(arguments.outputDirectory))
      return fail(arguments.outputDirectory + ": " + error.message());
    for (const Result &result : results)
      if (failed(writeFile(arguments.outputDirectory + "/" + result.name + ".npy", result.value)))
        return failure();
  }
  if (arguments.print || (arguments.logits.empty() && arguments.outputDirectory.empty()))
    for (const Result &result : results) {
      llvm::outs() << result.name << " = ";
      printValue(llvm::outs(), result.value);
      llvm::outs() << '\n';
    }
  return success();
}

LogicalResult interpret(const Arguments &arguments) {
  MLIRContext context;
  context.loadDialect<AdaptDialect, program::ProgramDialect, func::FuncDialect>();
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sourceManager;
  SourceMgrDiagnosticHandler diagnostics(sourceManager, &context);

  std::unique_ptr<weights::Checkpoint> checkpoint;
  ReadSource readSource;
  if (!arguments.weights.empty()) {
    auto opened = weights::Checkpoint::open(arguments.weights);
    if (!opened.ok())
      return fail(std::string(opened.status().message()));
    checkpoint = std::move(*opened);
    readSource = readFrom(*checkpoint);
  } else if (arguments.seed) {
    readSource = readRandom(*arguments.seed);
  }
  auto runFile = [&](const std::string &file) -> FailureOr<std::vector<Result>> {
    auto module = parseSourceFile<ModuleOp>(file, &context);
    if (!module)
      return failure();
    return Run(arguments, *module, readSource)();
  };
  FailureOr<std::vector<Result>> results = runFile(arguments.file);
  if (failed(results) || failed(write(arguments, *results)))
    return failure();
  if (arguments.other.empty())
    return success();
  FailureOr<std::vector<Result>> others = runFile(arguments.other);
  if (failed(others))
    return failure();
  return compareResults(*others, *results, arguments.tolerance);
}

/// Options like --size T=5.
void addBindings(CLI::App &app, const std::string &name, std::map<std::string, int64_t> &bindings,
                 const std::string &description) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [&bindings, name](const std::vector<std::string> &texts) {
           for (StringRef text : texts) {
             auto [key, value] = text.split('=');
             int64_t number;
             if (key.empty() || value.getAsInteger(10, number))
               throw CLI::ValidationError(name, "'" + text.str() + "' is not NAME=NUMBER");
             bindings[key.str()] = number;
           }
         },
         description)
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
}

} // namespace

int interpretMain(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Runs modules of the dialect adapt, of any phase, simply and slowly.",
               "adapt-interpret");
  app.set_version_flag("--version", getVersionText("adapt-interpret"));
  app.add_option("module", arguments.file, "the module: text or bytecode")->required();
  app.add_option("--weights", arguments.weights, "the checkpoint that adapt.source reads from");
  app.add_option("--mode", arguments.mode,
                 "wide: f64 without rounding; typed: each result rounded to its type")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Mode>{{"wide", Mode::Wide}, {"typed", Mode::Typed}}));
  app.add_option("--function", arguments.function, "what to run (main)");
  auto *tokens = app.add_option("--tokens", arguments.tokens,
                                "token ids [batch, length] (.npy) for a language model");
  app.add_option("--lengths", arguments.lengths, "tokens of each sequence, e.g. 5,3")
      ->delimiter(',');
  app.add_option("--chunk", arguments.chunk, "the most tokens of a sequence in one step")
      ->check(CLI::PositiveNumber);
  app.add_option("--logits", arguments.logits,
                 "where the logits [batch, length, vocabulary] go (.npy)")
      ->needs(tokens);
  auto *inputs = app.add_option("--input", arguments.inputs,
                                "an argument that is not state (.npy), in order; repeat")
                     ->allow_extra_args(false);
  app.add_option("--output-dir", arguments.outputDirectory, "where results go, one .npy each");
  app.add_flag("--print", arguments.print, "print the results (as without an output option)");
  app.add_option("--random-inputs", arguments.seed,
                 "make arguments, and without --weights weights, from this seed")
      ->excludes(inputs);
  app.add_option("--random-below", arguments.below, "random integers lie below this (4)")
      ->check(CLI::PositiveNumber);
  app.add_option("--compare", arguments.other,
                 "run this module in the same way and compare its results");
  app.add_option("--tolerance", arguments.tolerance,
                 "the largest max|a-b| / max|a| that counts as equal (1e-6)");
  addBindings(app, "--size", arguments.sizes, "a symbolic size");
  addBindings(app, "--index", arguments.indices, "an index of the function, e.g. layer=3");
  app.add_flag("--ignore-program", arguments.ignoreProgram,
               "run a planned module's functions and not its program");
  app.add_option("--block-tokens", arguments.blockTokens, "tokens in a block of state (16)")
      ->check(CLI::Range(1, 1 << 20));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return succeeded(interpret(arguments)) ? 0 : 1;
  } catch (const std::bad_alloc &) {
    (void)fail(arguments.file + ": its values do not fit the memory");
    return 1;
  }
}

} // namespace adapt::interp
