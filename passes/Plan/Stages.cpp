#include "passes/Plan/Stages.h"

using namespace mlir;
using namespace adapt;

FailureOr<SmallVector<Stage>> adapt::getStages(func::FuncOp entry) {
  SmallVector<Stage> stages;
  auto add = [&](func::FuncOp function) -> Stage & {
    Stage &stage = stages.emplace_back();
    stage.function = function;
    stage.number = stages.size() - 1;
    stage.outputs.resize(function.getNumResults(), true);
    return stage;
  };
  if (entry.getBody().front().getOps<TransferOp>().empty()) {
    add(entry);
    return stages;
  }

  auto module = entry->getParentOfType<ModuleOp>();
  LogicalResult result = success();
  llvm::DenseMap<Operation *, int64_t> numbers; // stages of calls
  for (Operation &op : entry.getBody().front().without_terminator()) {
    auto call = dyn_cast<CallOp>(op);
    if (!call && !isa<TransferOp>(op))
      result = op.emitOpError() << "stands in @" << entry.getSymName()
                                << " between its stages, where calls and transfers only may be";
    if (!call)
      continue;
    numbers[call] = stages.size();
    Stage &stage = add(module.lookupSymbol<func::FuncOp>(call.getCallee()));
    for (OpResult value : call->getResults())
      stage.outputs[value.getResultNumber()] =
          llvm::is_contained(value.getUsers(), entry.getBody().front().getTerminator());
    for (auto [place, operand] : llvm::enumerate(call->getOperands()))
      if (!isa<BlockArgument>(operand) && !operand.getDefiningOp<TransferOp>())
        result = call.emitOpError()
                 << "takes operand " << place << " from another stage without a transfer";
  }
  int64_t tag = 0;
  for (auto transfer : entry.getBody().front().getOps<TransferOp>()) {
    auto value = dyn_cast<OpResult>(transfer.getInput());
    auto from = value ? numbers.find(value.getOwner()) : numbers.end();
    if (from == numbers.end() || from->second != int64_t(transfer.getFrom())) {
      result = transfer.emitOpError()
               << "does not carry what stage " << transfer.getFrom() << " returns";
      continue;
    }
    stages[from->second].sent.push_back({value.getResultNumber(), int64_t(transfer.getTo()), tag});
    for (OpOperand &use : transfer.getResult().getUses()) {
      auto to = numbers.find(use.getOwner());
      if (to == numbers.end() || to->second != int64_t(transfer.getTo()) ||
          !transfer.getResult().hasOneUse()) {
        result = transfer.emitOpError()
                 << "does not go to one operand of stage " << transfer.getTo();
        break;
      }
      stages[to->second].received.push_back(
          {use.getOperandNumber(), int64_t(transfer.getFrom()), tag});
    }
    ++tag;
  }
  if (failed(result))
    return failure();
  return stages;
}
