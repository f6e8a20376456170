#include "passes/Plan/CommunicationReport.h"
#include "passes/Plan/MemoryReport.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace adapt;

std::vector<Communication> adapt::reportCommunication(program::ModuleOp program) {
  auto mesh = program->getParentOfType<mlir::ModuleOp>();
  auto getName = [](Value buffer) {
    return cast<program::BufferOpInterface>(buffer.getDefiningOp()).getBufferName().str();
  };
  llvm::MapVector<Operation *, Communication> found;
  forEachStep(program, [&](Operation *step, DictionaryAttr) {
    Communication row;
    if (auto collective = dyn_cast<program::CollectiveOp>(step)) {
      int64_t ranks = getMeshSize(mesh, collective.getAxis());
      row.kind = stringifyCollectiveKind(collective.getKind()).str();
      row.axis = collective.getAxis().str();
      row.buffer = getName(collective.getFrom());
      row.payload = collective.getPayloadBytes(ranks);
      row.wire = collective.getWireBytes(ranks);
    } else if (auto send = dyn_cast<program::SendOp>(step)) {
      row.kind = "transfer";
      row.axis = "pp";
      row.buffer = getName(send.getBuffer());
      row.peer = send.getPeer();
      row.payload = row.wire = send.getBytes().getExprs().front();
    } else {
      return;
    }
    row.function = step->getParentOfType<program::FunctionOp>().getSymName().str();
    ++found.try_emplace(step, std::move(row)).first->second.count;
  });
  std::vector<Communication> rows;
  for (auto &[step, row] : found)
    rows.push_back(std::move(row));
  return rows;
}
