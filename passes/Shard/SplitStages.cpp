#include "mlir/IR/IRMapping.h"
#include "passes/Common/Structure.h"
#include "passes/Shard/Passes.h"
#include "llvm/ADT/MapVector.h"
#include <limits>

namespace adapt {
#define GEN_PASS_DEF_SPLITSTAGES
#include "passes/Shard/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
constexpr StringLiteral kPortName = "adapt.name";

/// Computed in every stage that needs it.
constexpr int64_t kAnywhere = -1;

/// Bytes that an operation moves for one token, which are what a step of decoding waits for; of a
/// call those of its function. On failure an error named the operation.
FailureOr<int64_t> getCost(Operation *op) {
  int64_t sum = 0;
  auto add = [&](int64_t bytes) { (void)llvm::AddOverflow(sum, std::max<int64_t>(bytes, 0), sum); };
  if (auto call = dyn_cast<CallOp>(op)) {
    auto callee = op->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(call.getCallee());
    for (Operation &inner : callee.getBody().front()) {
      FailureOr<int64_t> cost = getCost(&inner);
      if (failed(cost))
        return failure();
      add(*cost);
    }
    return sum;
  }
  if (!isComputing(op))
    return 0;
  auto costed = dyn_cast<CostOpInterface>(op);
  if (!costed)
    return op->emitOpError() << "in @" << op->getParentOfType<func::FuncOp>().getSymName()
                             << " has no cost, by which stages are balanced";
  Cost cost = costed.getCost();
  for (AffineExpr bytes : {cost.bytesRead, cost.bytesWritten})
    add(evaluateSize(bytes, [](StringRef) { return std::optional<int64_t>(1); }).value_or(0));
  return sum;
}

/// Cuts a list of costs into runs.
class Balance {
public:
  explicit Balance(ArrayRef<int64_t> costs) : costs(costs) {}

  /// How long each of so many runs is, none empty: the dearest run is as cheap as can be, and the
  /// others as even as that allows.
  SmallVector<size_t> cut(size_t runs) const {
    int64_t most = 0, total = 0;
    for (int64_t cost : costs) {
      most = std::max(most, cost);
      total += cost;
    }
    int64_t low = most, high = total; // The least bound lies between.
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      if (fits(0, runs, middle))
        high = middle;
      else
        low = middle + 1;
    }
    SmallVector<size_t> lengths;
    size_t first = 0;
    for (; runs > 0; --runs) {
      size_t length = getNext(first, runs, low, total);
      for (size_t i = 0; i < length; ++i)
        total -= costs[first++];
      lengths.push_back(length);
    }
    return lengths;
  }

private:
  /// Whether what begins at `first` can be cut into so many runs of at most `bound`.
  bool fits(size_t first, size_t runs, int64_t bound) const {
    if (costs.size() - first < runs)
      return false;
    size_t needed = first < costs.size();
    int64_t sum = 0;
    for (int64_t cost : costs.drop_front(first)) {
      if (sum > 0 && sum + cost > bound) {
        ++needed;
        sum = 0;
      }
      sum += cost;
    }
    return needed <= runs && sum <= bound;
  }

  /// Of the lengths that leave room for the other runs that whose cost is nearest to the average.
  size_t getNext(size_t first, size_t runs, int64_t bound, int64_t rest) const {
    size_t best = 1;
    int64_t sum = 0, distance = std::numeric_limits<int64_t>::max();
    for (size_t length = 1; first + length <= costs.size(); ++length) {
      sum += costs[first + length - 1];
      int64_t average = rest / int64_t(runs);
      if (sum > bound)
        break;
      bool isFeasible =
          runs == 1 ? first + length == costs.size() : fits(first + length, runs - 1, bound);
      if (isFeasible && std::abs(sum - average) <= distance) {
        best = length;
        distance = std::abs(sum - average);
      }
    }
    return best;
  }

  ArrayRef<int64_t> costs;
};

struct SplitStages : adapt::impl::SplitStagesBase<SplitStages> {
  using Base::Base;

  void runOnOperation() override {
    int64_t stages = getMeshSize(getOperation(), "pp");
    if (stages == 1)
      return;
    if (failed(getCalleesFirst(getOperation()))) // None calls itself.
      return signalPassFailure();
    for (func::FuncOp entry : getEntries(getOperation()))
      if (failed(Splitter(entry, stages).run()))
        return signalPassFailure();
  }

  class Splitter {
  public:
    Splitter(func::FuncOp entry, int64_t stages)
        : entry(entry), body(entry.getBody().front()), stages(stages), builder(entry.getContext()) {
    }

    LogicalResult run() {
      SmallVector<CallOp> calls(body.getOps<CallOp>());
      if (int64_t(calls.size()) < stages)
        return entry.emitError() << "@" << entry.getSymName() << " has " << calls.size()
                                 << " layers, too few for " << stages
                                 << " stages; --pp can be 1 to " << calls.size();
      if (failed(assignStages(calls)))
        return failure();
      for (CallOp call : calls)
        if (int64_t latest = getLatest(call->getOperands()); latest > stageOf[call])
          return call.emitError() << "needs what only stage " << latest << " has, but belongs to "
                                  << stageOf[call] << ": --pp needs layers one after the other";
      findPorts();
      for (int64_t stage = 0; stage < stages; ++stage)
        buildStage(stage);
      buildEntry();
      return success();
    }

  private:
    /// Cuts between calls. What depends on a call is in the same stage; what depends on none costs
    /// the first.
    LogicalResult assignStages(ArrayRef<CallOp> calls) {
      for (auto [number, call] : llvm::enumerate(calls))
        stageOf[call] = number;
      SmallVector<int64_t> costs(calls.size(), 0);
      for (Operation &op : body.without_terminator()) {
        if (!isa<CallOp>(op))
          stageOf[&op] = getLatest(op.getOperands());
        FailureOr<int64_t> cost = getCost(&op);
        if (failed(cost))
          return failure();
        costs[std::max<int64_t>(stageOf[&op], 0)] += *cost;
      }
      SmallVector<int64_t> stageOfCall;
      for (auto [stage, length] : llvm::enumerate(Balance(costs).cut(stages)))
        stageOfCall.append(length, stage);
      for (auto &[op, place] : stageOf)
        if (place != kAnywhere)
          place = stageOfCall[place];
      return success();
    }

    int64_t getStage(Value value) const {
      Operation *op = value.getDefiningOp();
      return op ? stageOf.lookup(op) : kAnywhere;
    }

    int64_t getLatest(ValueRange operands) const {
      int64_t latest = kAnywhere;
      for (Value operand : operands)
        if (!isa<PagedType>(operand.getType()))
          latest = std::max(latest, getStage(operand));
      return latest;
    }

    /// The operations that a stage computes, in order.
    SmallVector<Operation *> getOps(int64_t stage) {
      llvm::DenseSet<Operation *> needed;
      SmallVector<Operation *> ops;
      auto need = [&](ValueRange values) {
        for (Value value : values)
          if (Operation *op = value.getDefiningOp(); op && stageOf.lookup(op) == kAnywhere)
            needed.insert(op);
      };
      if (stage == stages - 1)
        need(body.getTerminator()->getOperands());
      for (Operation &op : llvm::reverse(body.without_terminator()))
        if (stageOf.lookup(&op) == stage || needed.contains(&op)) {
          need(op.getOperands());
          ops.push_back(&op);
        }
      std::reverse(ops.begin(), ops.end());
      return ops;
    }

    /// Values that stages take from others, and what each stage gives.
    void findPorts() {
      results.resize(stages);
      inputs.resize(stages);
      for (int64_t stage = 0; stage < stages; ++stage)
        for (Operation *op : getOps(stage))
          for (Value operand : op->getOperands())
            take(operand, stage);
      for (Value value : body.getTerminator()->getOperands()) {
        if (isa<BlockArgument>(value))
          continue;
        if (isa<PagedType>(value.getType())) {
          results[std::max<int64_t>(getStage(value), 0)].insert(value);
          continue;
        }
        // What no layer is needed for, the last stage returns.
        int64_t stage = getStage(value);
        results[stage == kAnywhere ? stages - 1 : stage].insert(value);
      }
    }

    void take(Value value, int64_t stage) {
      if (auto argument = dyn_cast<BlockArgument>(value)) {
        if (isa<PagedType>(value.getType()))
          inputs[stage].insert(argument);
        return;
      }
      int64_t from = getStage(value);
      if (from == kAnywhere || from == stage)
        return;
      inputs[stage].insert(value);
      results[from].insert(value);
    }

    std::string getPort(Value value) {
      int64_t stage = getStage(value);
      auto place = llvm::find(results[stage], value) - results[stage].begin();
      return "stage" + std::to_string(stage) + "." + std::to_string(place);
    }

    std::string getName(int64_t stage) {
      return (entry.getSymName() + ".stage" + llvm::Twine(stage)).str();
    }

    /// The stage's arguments: all of the entry's that are not state, what other stages give,
    /// states.
    SmallVector<Value> getArguments(int64_t stage) {
      SmallVector<Value> arguments;
      for (BlockArgument argument : body.getArguments())
        if (!isa<PagedType>(argument.getType()))
          arguments.push_back(argument);
      for (Value input : inputs[stage])
        if (!isa<PagedType>(input.getType()))
          arguments.push_back(input);
      for (Value input : inputs[stage])
        if (isa<PagedType>(input.getType()))
          arguments.push_back(input);
      return arguments;
    }

    SmallVector<Value> getResults(int64_t stage) {
      SmallVector<Value> values;
      for (bool state : {false, true})
        for (Value value : results[stage])
          if (isa<PagedType>(value.getType()) == state)
            values.push_back(value);
      return values;
    }

    void buildStage(int64_t stage) {
      SmallVector<Value> arguments = getArguments(stage), returned = getResults(stage);
      builder.setInsertionPoint(entry);
      auto function =
          func::FuncOp::create(builder, entry.getLoc(), getName(stage),
                               builder.getFunctionType(ValueRange(arguments).getTypes(),
                                                       ValueRange(returned).getTypes()));
      function.setPrivate();
      for (StringRef name : {AdaptDialect::kSymbols, AdaptDialect::kIndices})
        if (Attribute attribute = entry->getAttr(name))
          function->setAttr(name, attribute);
      Block *block = function.addEntryBlock();
      IRMapping mapping;
      for (auto [number, argument] : llvm::enumerate(arguments)) {
        mapping.map(argument, block->getArgument(number));
        Attribute name;
        if (auto from = dyn_cast<BlockArgument>(argument))
          name = entry.getArgAttr(from.getArgNumber(), kPortName);
        else
          name = builder.getStringAttr(getPort(argument));
        if (name)
          function.setArgAttr(number, kPortName, name);
      }
      builder.setInsertionPointToEnd(block);
      for (Operation *op : getOps(stage))
        builder.clone(*op, mapping);
      SmallVector<Value> values;
      Operation *yield = body.getTerminator();
      for (auto [number, value] : llvm::enumerate(returned)) {
        values.push_back(mapping.lookup(value));
        auto place = llvm::find(yield->getOperands(), value);
        Attribute name;
        if (place != yield->getOperands().end())
          name = entry.getResultAttr(place - yield->getOperands().begin(), kPortName);
        else
          name = builder.getStringAttr(getPort(value));
        if (name)
          function.setResultAttr(number, kPortName, name);
      }
      func::ReturnOp::create(builder, entry.getLoc(), values);
    }

    /// Calls the stages one after the other.
    void buildEntry() {
      SmallVector<Operation *> old;
      for (Operation &op : body.without_terminator())
        old.push_back(&op);
      builder.setInsertionPoint(body.getTerminator());
      IRMapping mapping; // values to results of calls
      for (int64_t stage = 0; stage < stages; ++stage) {
        SmallVector<Value> operands;
        for (Value argument : getArguments(stage)) {
          if (isa<BlockArgument>(argument)) {
            operands.push_back(argument);
            continue;
          }
          Value given = mapping.lookup(argument);
          operands.push_back(TransferOp::create(builder, argument.getLoc(), given.getType(), given,
                                                builder.getI64IntegerAttr(getStage(argument)),
                                                builder.getI64IntegerAttr(stage)));
        }
        SmallVector<Value> returned = getResults(stage);
        auto call = CallOp::create(builder, entry.getLoc(), ValueRange(returned).getTypes(),
                                   FlatSymbolRefAttr::get(builder.getContext(), getName(stage)),
                                   operands, builder.getDictionaryAttr({}));
        mapping.map(returned, call->getResults());
      }
      for (OpOperand &operand : body.getTerminator()->getOpOperands())
        if (!isa<BlockArgument>(operand.get()))
          operand.set(mapping.lookup(operand.get()));
      for (Operation *op : llvm::reverse(old))
        op->erase();
    }

    func::FuncOp entry;
    Block &body;
    int64_t stages;
    OpBuilder builder;
    DenseMap<Operation *, int64_t> stageOf;
    SmallVector<llvm::SetVector<Value>> inputs, results;
  };
};
} // namespace
