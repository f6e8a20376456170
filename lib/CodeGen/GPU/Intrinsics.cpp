#include "Intrinsics.h"
#include "Simulate.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace adapt::gpu {
namespace {
/// Intrinsics that every target has instructions for, or that are nothing in the code.
bool isPlain(const IntrinsicInst &call) {
  switch (call.getIntrinsicID()) {
  case Intrinsic::sqrt:
    return call.getType()->getScalarSizeInBits() >= 32;
  case Intrinsic::fabs:
  case Intrinsic::copysign:
  case Intrinsic::rint:
  case Intrinsic::nearbyint:
  case Intrinsic::roundeven:
  case Intrinsic::floor:
  case Intrinsic::ceil:
  case Intrinsic::trunc:
  case Intrinsic::minnum:
  case Intrinsic::maxnum:
  case Intrinsic::minimum:
  case Intrinsic::maximum:
  case Intrinsic::fmuladd:
  case Intrinsic::abs:
  case Intrinsic::smin:
  case Intrinsic::smax:
  case Intrinsic::umin:
  case Intrinsic::umax:
  case Intrinsic::ctpop:
  case Intrinsic::ctlz:
  case Intrinsic::cttz:
  case Intrinsic::fshl:
  case Intrinsic::fshr:
  case Intrinsic::bswap:
  case Intrinsic::bitreverse:
  case Intrinsic::usub_sat:
  case Intrinsic::uadd_sat:
  case Intrinsic::ssub_sat:
  case Intrinsic::sadd_sat:
  case Intrinsic::umul_with_overflow:
  case Intrinsic::uadd_with_overflow:
  case Intrinsic::usub_with_overflow:
  case Intrinsic::smul_with_overflow:
  case Intrinsic::fptosi_sat:
  case Intrinsic::fptoui_sat:
  case Intrinsic::vector_reduce_fadd:
  case Intrinsic::vector_reduce_fmul:
  case Intrinsic::vector_reduce_add:
  case Intrinsic::vector_reduce_fmax:
  case Intrinsic::vector_reduce_fmin:
  case Intrinsic::memcpy:
  case Intrinsic::memmove:
  case Intrinsic::memset:
  case Intrinsic::lifetime_start:
  case Intrinsic::lifetime_end:
  case Intrinsic::assume:
  case Intrinsic::experimental_noalias_scope_decl:
  case Intrinsic::dbg_value:
  case Intrinsic::dbg_declare:
    return true;
  default:
    return false;
  }
}
} // namespace

SmallVector<std::string> findUnknownCalls(const Module &module) {
  SmallVector<std::string> names;
  for (const Function &function : module) {
    auto add = [&](StringRef what) {
      std::string name = ("'" + what + "' in kernel '" + function.getName() + "'").str();
      if (!is_contained(names, name))
        names.push_back(std::move(name));
    };
    for (const BasicBlock &block : function)
      for (const Instruction &instruction : block) {
        auto *call = dyn_cast<CallBase>(&instruction);
        if (!call)
          continue;
        const Function *callee = call->getCalledFunction();
        if (call->isInlineAsm())
          add("inline assembly");
        else if (!callee)
          add("a call through a pointer");
        else if (auto *intrinsic = dyn_cast<IntrinsicInst>(call)) {
          if (!isPlain(*intrinsic) && !isSimulated(callee->getName()))
            add(callee->getName());
        } else if (callee->isDeclaration()) {
          add(callee->getName());
        }
      }
  }
  return names;
}

} // namespace adapt::gpu
