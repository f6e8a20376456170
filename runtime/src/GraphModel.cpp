#include "adapt/GraphModel.h"
#include "Poison.h"

#include <algorithm>
#include <cstring>

using namespace adapt;
using namespace adapt::rt;

std::string adapt::rt::sizeText(const schema::Expr &expr) {
  static constexpr const char *kOperators[] = {" + ",       " - ",   " * ",   " floordiv ",
                                               " ceildiv ", " mod ", " min ", " max "};
  switch (expr.kind_case()) {
  case schema::Expr::kConstant:
    return absl::StrCat(expr.constant());
  case schema::Expr::kSymbol:
    return expr.symbol();
  case schema::Expr::kBinary: {
    unsigned kind = static_cast<unsigned>(expr.binary().kind());
    return absl::StrCat("(", sizeText(expr.binary().lhs()),
                        kind < std::size(kOperators) ? kOperators[kind] : " ? ",
                        sizeText(expr.binary().rhs()), ")");
  }
  default:
    return "?";
  }
}

namespace {
std::string shapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}
std::string shapeText(absl::Span<const std::string> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}
} // namespace

absl::Status GraphModel::bindPorts(const Program &program, const schema::EntryPoint &entry) {
  if (entry.kind() != "graph")
    return absl::InvalidArgumentError(absl::StrCat("entry point '", entry.name(), "' is of kind '",
                                                   entry.kind(), "', wanted is graph"));
  const schema::Function &function = program.get().functions(entry.function());
  for (const schema::Symbol &symbol : program.get().symbols())
    symbolTable.push_back({symbol.name(), symbol.min(), symbol.max()});
  symbols.assign(symbolTable.size(), 0);
  std::vector<bool> isBound(symbolTable.size(), false);
  auto bind = [&](const auto &ports, std::vector<Port> &described,
                  std::vector<Bound> &bound) -> absl::Status {
    for (const schema::EntryPoint::Port &port : ports) {
      const schema::Buffer &buffer = function.buffers(port.buffer());
      Port &out = described.emplace_back();
      out.name = port.name();
      out.element = buffer.element();
      Bound &place = bound.emplace_back();
      ADAPT_ASSIGN_OR_RETURN(place.region, plan.port(port.name()));
      for (const schema::Expr &extent : buffer.shape()) {
        out.shape.push_back(sizeText(extent));
        ADAPT_ASSIGN_OR_RETURN(SizeExpr size,
                               SizeExpr::compile(extent, [&](absl::string_view name) {
                                 return program.findSymbol(name);
                               }));
        place.shape.push_back(std::move(size));
        std::optional<uint32_t> symbol;
        if (extent.kind_case() == schema::Expr::kSymbol)
          symbol = program.findSymbol(extent.symbol());
        place.symbols.push_back(symbol ? static_cast<int32_t>(*symbol) : -1);
        if (symbol && &bound == &boundInputs)
          isBound[*symbol] = true;
      }
    }
    return absl::OkStatus();
  };
  ADAPT_RETURN_IF_ERROR(bind(entry.inputs(), inputPorts, boundInputs));
  ADAPT_RETURN_IF_ERROR(bind(entry.outputs(), outputPorts, boundOutputs));
  Problems problems;
  for (size_t i = 0; i < symbolTable.size(); ++i)
    if (!isBound[i])
      problems.add("no input has an axis of size '", symbolTable[i].name, "' alone");
  return problems.status("the sizes of the program cannot be told");
}

absl::StatusOr<std::unique_ptr<GraphModel>> GraphModel::create(std::unique_ptr<Device> device,
                                                               const Program &program,
                                                               ModelSource source,
                                                               const Options &options) {
  std::unique_ptr<GraphModel> model(new GraphModel());
  model->dev = std::move(device);
  model->weights = std::move(source.weights);
  model->isPoisoned = options.poison;
  ADAPT_ASSIGN_OR_RETURN(const schema::EntryPoint *entry, program.findEntry("main"));
  const schema::Program &proto = program.get();
  if (proto.states_size() || proto.functions(entry->function()).num_arguments())
    return absl::InvalidArgumentError("a graph has no state and no arguments beside its inputs");
  ADAPT_ASSIGN_OR_RETURN(model->arena, model->dev->allocate(proto.arena_bytes(), "activations"));
  MemoryMap memory{source.param, {}, {model->arena.data, model->arena.bytes}, {}};
  ADAPT_ASSIGN_OR_RETURN(model->plan, ExecutionPlan::build(program, *entry, memory));
  model->executor = std::make_unique<Executor>(*model->dev, nullptr);
  ADAPT_RETURN_IF_ERROR(model->executor->check(model->plan));
  ADAPT_RETURN_IF_ERROR(model->bindPorts(program, *entry));
  ADAPT_RETURN_IF_ERROR(model->dev->loadKernels(source.kernels, model->plan.kernelSymbols(),
                                                model->plan.scratchBytes()));
  return model;
}

absl::Status GraphModel::bindSizes(absl::Span<const Input *const> inputs) {
  Problems problems;
  // An axis that is a symbol alone gives it its value; all others must then agree.
  std::vector<std::string> from(symbols.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t axis = 0; axis < boundInputs[i].symbols.size(); ++axis) {
      int32_t symbol = boundInputs[i].symbols[axis];
      if (symbol < 0)
        continue;
      int64_t size = inputs[i]->shape[axis];
      const Symbol &known = symbolTable[symbol];
      std::string where = absl::StrCat("input '", inputs[i]->name, "' axis ", axis);
      if (from[symbol].empty()) {
        from[symbol] = where;
        symbols[symbol] = size;
        if (size < known.min || size > known.max)
          problems.add(where, ": '", known.name, "' is ", size, ", the bundle was compiled for ",
                       known.min, " to ", known.max,
                       size > known.max ? absl::StrCat(" (--shape ", known.name, "=", size, ")")
                                        : std::string());
      } else if (symbols[symbol] != size) {
        problems.add(where, ": '", known.name, "' is ", size, ", but ", symbols[symbol], " by ",
                     from[symbol]);
      }
    }
  if (problems.empty())
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t axis = 0; axis < boundInputs[i].shape.size(); ++axis) {
        std::optional<int64_t> size = boundInputs[i].shape[axis].evaluate(symbols);
        if (!size || *size != inputs[i]->shape[axis])
          problems.add("input '", inputs[i]->name, "' axis ", axis, " has size ",
                       inputs[i]->shape[axis], ", must be ", inputPorts[i].shape[axis], " = ",
                       size ? absl::StrCat(*size) : "not computable");
      }
  return problems.status("the sizes of the inputs do not fit");
}

absl::StatusOr<std::vector<GraphModel::Output>> GraphModel::run(absl::Span<const Input> inputs) {
  Problems problems;
  std::vector<const Input *> ordered(inputPorts.size(), nullptr);
  for (const Input &input : inputs) {
    auto port = std::find_if(inputPorts.begin(), inputPorts.end(),
                             [&](const Port &port) { return port.name == input.name; });
    if (port == inputPorts.end()) {
      problems.add("there is no input '", input.name, "'");
      continue;
    }
    const Input *&place = ordered[port - inputPorts.begin()];
    if (place)
      problems.add("input '", input.name, "' is given twice");
    place = &input;
    if (input.element != port->element)
      problems.add("input '", input.name, "' is ", schema::ElementType_Name(input.element),
                   ", must be ", schema::ElementType_Name(port->element));
    if (input.shape.size() != port->shape.size())
      problems.add("input '", input.name, "' has shape ", shapeText(input.shape), ", must be ",
                   shapeText(port->shape));
  }
  for (size_t i = 0; i < ordered.size(); ++i)
    if (!ordered[i])
      problems.add("input '", inputPorts[i].name, "' ", shapeText(inputPorts[i].shape),
                   " is missing");
  ADAPT_RETURN_IF_ERROR(problems.status("the inputs do not fit"));
  ADAPT_RETURN_IF_ERROR(bindSizes(ordered));

  if (isPoisoned)
    ADAPT_RETURN_IF_ERROR(poison(*dev, {arena.data, arena.bytes}));
  ADAPT_ASSIGN_OR_RETURN(LaunchList list, plan.prepare(symbols));
  auto bytesOf = [](absl::Span<const int64_t> shape, schema::ElementType element) {
    uint64_t bytes = elementBytes(element);
    for (int64_t size : shape)
      bytes *= static_cast<uint64_t>(size);
    return bytes;
  };
  // Sizes are those of the plan, so that no product overflows; the places are as large as its
  // bounds.
  for (size_t i = 0; i < ordered.size(); ++i) {
    uint64_t bytes = bytesOf(ordered[i]->shape, ordered[i]->element);
    if (bytes > boundInputs[i].region.bytes)
      return absl::InternalError(absl::StrCat("input '", ordered[i]->name, "' needs ", bytes,
                                              " bytes of ", boundInputs[i].region.bytes));
    if (bytes)
      ADAPT_RETURN_IF_ERROR(dev->write(boundInputs[i].region.data, ordered[i]->data, bytes));
  }
  ADAPT_RETURN_IF_ERROR(executor->run(plan, list));
  std::vector<Output> outputs;
  for (size_t i = 0; i < outputPorts.size(); ++i) {
    Output &output = outputs.emplace_back();
    output.name = outputPorts[i].name;
    output.element = outputPorts[i].element;
    for (const SizeExpr &size : boundOutputs[i].shape) {
      std::optional<int64_t> value = size.evaluate(symbols);
      if (!value || *value < 0)
        return absl::InternalError(absl::StrCat("output '", output.name, "' has no size"));
      output.shape.push_back(*value);
    }
    uint64_t bytes = bytesOf(output.shape, output.element);
    if (bytes > boundOutputs[i].region.bytes)
      return absl::InternalError(absl::StrCat("output '", output.name, "' needs ", bytes,
                                              " bytes of ", boundOutputs[i].region.bytes));
    output.data.resize(bytes);
    if (bytes)
      ADAPT_RETURN_IF_ERROR(dev->read(output.data.data(), boundOutputs[i].region.data, bytes));
  }
  return outputs;
}
