// Faults for tests: would the simulation find them?
#include "Simulate.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace adapt::gpu {

bool plantFault(Module &module, StringRef fault) {
  bool planted = false;
  for (Function &function : module) {
    SmallVector<Instruction *> erased;
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<IntrinsicInst>(&instruction);
      StringRef name = call ? call->getCalledFunction()->getName() : "";
      if (fault == "barrier" && (name.contains("barrier.cta") || name.ends_with("barrier0") ||
                                 name.ends_with("s.barrier"))) {
        erased.push_back(&instruction);
      } else if (fault == "width" && name.contains("shfl.sync.bfly")) {
        // Segments of half a warp.
        call->setArgOperand(3, ConstantInt::get(call->getArgOperand(3)->getType(), 0x100f));
        planted = true;
      } else if (fault == "width" && name.contains("ds.bpermute")) {
        // The upper half of a wave reads the lower.
        IRBuilder<> builder(call);
        call->setArgOperand(0, builder.CreateAnd(call->getArgOperand(0), 31 * 4));
        planted = true;
      } else if (auto *compare = dyn_cast<ICmpInst>(&instruction);
                 compare && fault == "mask" && compare->getOperand(0)->getType()->isIntegerTy(32)) {
        // One more: of the comparisons of 32 bits, which are those of key numbers and positions.
        if (compare->getPredicate() == CmpInst::ICMP_SLE ||
            compare->getPredicate() == CmpInst::ICMP_SGT ||
            compare->getPredicate() == CmpInst::ICMP_SLT ||
            compare->getPredicate() == CmpInst::ICMP_SGE) {
          IRBuilder<> builder(compare);
          compare->setOperand(1, builder.CreateAdd(compare->getOperand(1), builder.getInt32(1)));
          planted = true;
        }
      }
    }
    for (Instruction *instruction : erased)
      instruction->eraseFromParent();
    planted |= !erased.empty();
  }
  return planted;
}

} // namespace adapt::gpu
