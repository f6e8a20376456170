#include "Simulate.h"
#include "CodeGen/Common/LinkKernels.h"
#include "CodeGen/Common/LlvmCode.h"
#include "Intrinsics.h"
#include "runtime/include/adapt/SimRuntime.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include <cstddef>

using namespace llvm;

namespace adapt::gpu {
namespace {
constexpr StringLiteral kRuntime = "adapt_sim_runtime";

/// Replaces the calls of one function.
class Rewriter {
public:
  Rewriter(Function &function, StringRef kernel)
      : function(function), module(*function.getParent()), kernel(kernel),
        builder(module.getContext()) {
    runtime = cast<GlobalVariable>(
        module.getOrInsertGlobal(kRuntime, PointerType::get(module.getContext(), 0)));
  }

  void run() {
    SmallVector<Instruction *> instructions;
    for (BasicBlock &block : function)
      for (Instruction &instruction : block)
        instructions.push_back(&instruction);
    for (Instruction *instruction : instructions) {
      builder.SetInsertPoint(instruction);
      Value *value = nullptr;
      if (computesHalves(*instruction)) {
        value = computeInFloat(*instruction);
      } else if (auto *call = dyn_cast<IntrinsicInst>(instruction)) {
        if (!isSimulated(call->getCalledFunction()->getName()))
          continue;
        value = replace(*call);
      } else if (isa<FenceInst>(instruction)) {
        // Lanes take turns; what orders memory is the call that lets another lane run.
      } else if (auto *cast = dyn_cast<FPExtInst>(instruction);
                 cast && cast->getSrcTy()->getScalarType()->isHalfTy()) {
        value = forEachElement(cast->getOperand(0), cast->getType(),
                               [&](Value *half) { return extendHalf(half, cast->getType()); });
      } else if (auto *cast = dyn_cast<FPTruncInst>(instruction);
                 cast && cast->getDestTy()->getScalarType()->isHalfTy()) {
        value = forEachElement(cast->getOperand(0), cast->getType(),
                               [&](Value *wide) { return truncateToHalf(wide); });
      } else {
        continue;
      }
      if (value)
        instruction->replaceAllUsesWith(value);
      instruction->eraseFromParent();
    }
  }

private:
  Type *i32() { return builder.getInt32Ty(); }

  /// Calls the function at an offset of AdaptSimRuntime.
  Value *call(size_t offset, Type *result, ArrayRef<Value *> args) {
    Type *pointer = builder.getPtrTy();
    Value *table = builder.CreateLoad(pointer, runtime);
    Value *slot = builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), table, offset);
    Value *callee = builder.CreateLoad(pointer, slot);
    SmallVector<Type *> types;
    for (Value *arg : args)
      types.push_back(arg->getType());
    CallInst *made = builder.CreateCall(FunctionType::get(result, types, false), callee, args);
    made->addFnAttr(Attribute::Convergent);
    return made;
  }
#define ADAPT_SIM_CALL(field, result, ...)                                                         \
  call(offsetof(AdaptSimRuntime, field), result, {__VA_ARGS__})

  /// A string of its own for each call: the same call is the same place.
  Value *place(StringRef what) {
    std::string text = (kernel + ": " + what + " " + Twine(++places[what])).str();
    auto *global = builder.CreateGlobalString(text, "place");
    global->setUnnamedAddr(GlobalValue::UnnamedAddr::None); // never merged
    return global;
  }

  Value *bits(Value *value) { return builder.CreateBitCast(value, i32()); }
  Value *fromBits(Value *value, Type *type) { return builder.CreateBitCast(value, type); }

  template <typename Body> Value *forEachElement(Value *value, Type *type, Body body) {
    auto *vector = dyn_cast<FixedVectorType>(type);
    if (!vector)
      return body(value);
    Value *result = PoisonValue::get(type);
    for (unsigned i = 0; i < vector->getNumElements(); ++i)
      result = builder.CreateInsertElement(result, body(builder.CreateExtractElement(value, i)), i);
    return result;
  }

  /// x86-64-v2 has no halves: it moves them, but each operation would be a call of a library.
  static bool isHalf(const Value *value) { return value->getType()->getScalarType()->isHalfTy(); }
  static bool computesHalves(const Instruction &instruction) {
    switch (instruction.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FDiv:
    case Instruction::FNeg:
    case Instruction::SIToFP:
    case Instruction::UIToFP:
      return isHalf(&instruction);
    case Instruction::FCmp:
    case Instruction::FPToSI:
    case Instruction::FPToUI:
      return isHalf(instruction.getOperand(0));
    case Instruction::Call:
      return isa<IntrinsicInst>(instruction) && isHalf(&instruction);
    default:
      return false;
    }
  }

  /// The same in f32, rounded: no other result than that of halves, as f32 has more than twice the
  /// bits (S. Figueroa, When is double rounding innocuous?).
  Value *computeInFloat(Instruction &old) {
    Type *wide = old.getType()->getWithNewType(builder.getFloatTy());
    SmallVector<Value *> operands;
    for (Value *operand : old.operand_values()) {
      if (isHalf(operand)) {
        Type *type = operand->getType()->getWithNewType(builder.getFloatTy());
        operand =
            forEachElement(operand, type, [&](Value *half) { return extendHalf(half, type); });
      }
      operands.push_back(operand);
    }
    Value *result = nullptr;
    if (auto *call = dyn_cast<IntrinsicInst>(&old))
      result = builder.CreateIntrinsic(call->getIntrinsicID(), {wide},
                                       ArrayRef(operands).take_front(call->arg_size()));
    else if (auto *compare = dyn_cast<FCmpInst>(&old))
      return builder.CreateFCmp(compare->getPredicate(), operands[0], operands[1]);
    else if (auto *cast = dyn_cast<CastInst>(&old))
      result =
          builder.CreateCast(cast->getOpcode(), operands[0], isHalf(&old) ? wide : old.getType());
    else if (old.getOpcode() == Instruction::FNeg)
      result = builder.CreateFNeg(operands[0]);
    else
      result = builder.CreateBinOp(static_cast<Instruction::BinaryOps>(old.getOpcode()),
                                   operands[0], operands[1]);
    if (!isHalf(&old))
      return result;
    return forEachElement(result, old.getType(),
                          [&](Value *element) { return truncateToHalf(element); });
  }

  /// Exact: subnormals are normalised by the scaling of a float.
  Value *extendHalf(Value *half, Type *type) {
    Value *word = builder.CreateZExt(builder.CreateBitCast(half, builder.getInt16Ty()), i32());
    Value *sign = builder.CreateShl(builder.CreateAnd(word, 0x8000), 16);
    Value *rest = builder.CreateShl(builder.CreateAnd(word, 0x7fff), 13);
    // As a float, the exponent is 112 too small: times 2^112.
    Value *scaled = builder.CreateFMul(builder.CreateBitCast(rest, builder.getFloatTy()),
                                       ConstantFP::get(builder.getFloatTy(), 0x1p112));
    // Infinity and NaN have all ones for their exponent.
    Value *special = builder.CreateICmpUGE(rest, builder.getInt32(0x7c00 << 13));
    Value *number = builder.CreateBitCast(scaled, i32());
    number =
        builder.CreateSelect(special, builder.CreateOr(rest, builder.getInt32(0x7f800000)), number);
    Value *result = builder.CreateBitCast(builder.CreateOr(number, sign), builder.getFloatTy());
    return type->getScalarType()->isDoubleTy() ? builder.CreateFPExt(result, builder.getDoubleTy())
                                               : result;
  }

  /// To nearest even, from a float (a double goes through one: twice rounded, as nobody does it).
  Value *truncateToHalf(Value *wide) {
    if (wide->getType()->isDoubleTy())
      wide = builder.CreateFPTrunc(wide, builder.getFloatTy());
    Value *word = builder.CreateBitCast(wide, i32());
    Value *sign = builder.CreateAnd(builder.CreateLShr(word, 16), 0x8000);
    Value *size = builder.CreateAnd(word, 0x7fffffff);
    // Normal: 13 bits less, rounded by an addition; the exponent is 112 too large.
    Value *odd = builder.CreateAnd(builder.CreateLShr(size, 13), 1);
    Value *rounded =
        builder.CreateAdd(size, builder.CreateAdd(odd, builder.getInt32(0xfff - (112 << 23))));
    Value *normal = builder.CreateLShr(rounded, 13);
    // Below 2^-14: the addition of 1/2 leaves the steps of 2^-24 in the last bits, rounded.
    Value *half = ConstantFP::get(builder.getFloatTy(), 0.5);
    Value *sum = builder.CreateFAdd(builder.CreateBitCast(size, builder.getFloatTy()), half);
    Value *small =
        builder.CreateSub(builder.CreateBitCast(sum, i32()), builder.getInt32(0x3f000000));
    Value *result = builder.CreateSelect(builder.CreateICmpULT(size, builder.getInt32(113 << 23)),
                                         small, normal);
    // From 65520 on: infinity. A NaN stays one.
    result = builder.CreateSelect(builder.CreateICmpUGE(size, builder.getInt32(0x477ff000)),
                                  builder.getInt32(0x7c00), result);
    result = builder.CreateSelect(builder.CreateICmpUGT(size, builder.getInt32(0x7f800000)),
                                  builder.getInt32(0x7e00), result);
    result = builder.CreateTrunc(builder.CreateOr(result, sign), builder.getInt16Ty());
    return builder.CreateBitCast(result, builder.getHalfTy());
  }

  Value *replace(IntrinsicInst &old);
  Value *replaceNvvm(IntrinsicInst &old, StringRef name);
  Value *replaceAmdgcn(IntrinsicInst &old, StringRef name);
  static Value *axis(IRBuilder<> &builder, StringRef name) {
    return builder.getInt32(name.back() - 'x');
  }

  Function &function;
  Module &module;
  StringRef kernel;
  IRBuilder<> builder;
  GlobalVariable *runtime;
  StringMap<unsigned> places;
};

Value *Rewriter::replace(IntrinsicInst &old) {
  StringRef name = old.getCalledFunction()->getName();
  if (name.consume_front("llvm.nvvm."))
    return replaceNvvm(old, name);
  name.consume_front("llvm.amdgcn.");
  return replaceAmdgcn(old, name);
}

Value *Rewriter::replaceNvvm(IntrinsicInst &old, StringRef name) {
  auto arg = [&](unsigned i) { return old.getArgOperand(i); };
  if (name.consume_front("read.ptx.sreg.")) {
    if (name.starts_with("tid."))
      return ADAPT_SIM_CALL(thread_id, i32(), axis(builder, name));
    if (name.starts_with("ctaid."))
      return ADAPT_SIM_CALL(block_id, i32(), axis(builder, name));
    if (name.starts_with("ntid."))
      return ADAPT_SIM_CALL(block_dim, i32(), axis(builder, name));
    if (name.starts_with("nctaid."))
      return ADAPT_SIM_CALL(grid_dim, i32(), axis(builder, name));
    if (name == "laneid")
      return call(offsetof(AdaptSimRuntime, lane_id), i32(), {});
    return builder.getInt32(32); // warpsize
  }
  if (name == "barrier0" || name == "barrier.cta.sync.aligned.all") {
    ADAPT_SIM_CALL(barrier, builder.getVoidTy(), place("barrier"));
    return nullptr;
  }
  if (name == "bar.warp.sync") {
    ADAPT_SIM_CALL(warp_barrier, builder.getVoidTy(), arg(0), place("bar.warp.sync"));
    return nullptr;
  }
  // shfl.sync.MODE.TYPE[p]: mask, value, b, c; with p the result is {value, in range}.
  name.consume_front("shfl.sync.");
  auto [mode, type] = name.split('.');
  uint32_t number = mode == "up"     ? ADAPT_SIM_UP
                    : mode == "down" ? ADAPT_SIM_DOWN
                    : mode == "bfly" ? ADAPT_SIM_BUTTERFLY
                                     : ADAPT_SIM_INDEX;
  bool both = type.ends_with("p");
  Value *inRange = ConstantPointerNull::get(builder.getPtrTy());
  if (both) {
    IRBuilder<> entry(&*function.getEntryBlock().getFirstInsertionPt());
    inRange = entry.CreateAlloca(i32());
  }
  Value *result = ADAPT_SIM_CALL(shuffle_sync, i32(), builder.getInt32(number), arg(0),
                                 bits(arg(1)), arg(2), arg(3), inRange, place("shfl.sync"));
  result = fromBits(result, arg(1)->getType());
  if (!both)
    return result;
  Value *pair = builder.CreateInsertValue(PoisonValue::get(old.getType()), result, 0);
  Value *flag = builder.CreateICmpNE(builder.CreateLoad(i32(), inRange), builder.getInt32(0));
  return builder.CreateInsertValue(pair, flag, 1);
}

Value *Rewriter::replaceAmdgcn(IntrinsicInst &old, StringRef name) {
  auto arg = [&](unsigned i) { return old.getArgOperand(i); };
  auto wide = [&](unsigned i) { return builder.CreateZExt(arg(i), i32()); };
  if (name.starts_with("workitem.id."))
    return ADAPT_SIM_CALL(thread_id, i32(), axis(builder, name));
  if (name.starts_with("workgroup.id."))
    return ADAPT_SIM_CALL(block_id, i32(), axis(builder, name));
  if (name == "wavefrontsize")
    return builder.getInt32(64);
  if (name == "mbcnt.lo" || name == "mbcnt.hi") {
    // base + the number of lanes below this one in half a mask.
    Value *lane = call(offsetof(AdaptSimRuntime, lane_id), i32(), {});
    Value *below = builder.CreateSub(
        builder.CreateShl(builder.getInt64(1), builder.CreateZExt(lane, builder.getInt64Ty())),
        builder.getInt64(1));
    if (name == "mbcnt.hi")
      below = builder.CreateLShr(below, 32);
    Value *counted = builder.CreateAnd(arg(0), builder.CreateTrunc(below, i32()));
    return builder.CreateAdd(builder.CreateUnaryIntrinsic(Intrinsic::ctpop, counted), arg(1));
  }
  if (name == "s.barrier") {
    ADAPT_SIM_CALL(barrier, builder.getVoidTy(), place("s_barrier"));
    return nullptr;
  }
  if (name == "wave.barrier") {
    ADAPT_SIM_CALL(wave_barrier, builder.getVoidTy(), place("wave_barrier"));
    return nullptr;
  }
  if (name == "ds.bpermute")
    return ADAPT_SIM_CALL(ds_bpermute, i32(), arg(0), arg(1), place("ds_bpermute"));
  if (name == "ds.permute")
    return ADAPT_SIM_CALL(ds_permute, i32(), arg(0), arg(1), place("ds_permute"));
  if (name == "ds.swizzle")
    return ADAPT_SIM_CALL(ds_swizzle, i32(), arg(0), arg(1), place("ds_swizzle"));
  if (name == "update.dpp.i32")
    return ADAPT_SIM_CALL(update_dpp, i32(), arg(0), arg(1), arg(2), arg(3), arg(4), wide(5),
                          place("update_dpp"));
  if (name == "readlane.i32")
    return ADAPT_SIM_CALL(read_lane, i32(), arg(0), arg(1), place("readlane"));
  if (name == "readfirstlane.i32")
    return ADAPT_SIM_CALL(read_first_lane, i32(), arg(0), place("readfirstlane"));
  // ballot.i64
  return ADAPT_SIM_CALL(ballot, builder.getInt64Ty(), wide(0), place("ballot"));
}

/// `void NAME(void *const *args)`, which loads the arguments and calls the lane's function.
void createEntry(Function &lane, StringRef name) {
  Module &module = *lane.getParent();
  IRBuilder<> builder(module.getContext());
  Type *pointer = builder.getPtrTy();
  auto *entry = Function::Create(FunctionType::get(builder.getVoidTy(), {pointer}, false),
                                 GlobalValue::ExternalLinkage, name, module);
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", entry));
  SmallVector<Value *> args;
  for (Argument &argument : lane.args()) {
    Value *slot =
        builder.CreateConstInBoundsGEP1_64(pointer, entry->getArg(0), argument.getArgNo());
    args.push_back(builder.CreateLoad(argument.getType(), builder.CreateLoad(pointer, slot)));
  }
  builder.CreateCall(&lane, args);
  builder.CreateRetVoid();
}
} // namespace

bool isSimulated(StringRef name) {
  if (name.consume_front("llvm.nvvm.")) {
    if (name.consume_front("read.ptx.sreg."))
      return is_contained({"tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z", "ntid.x",
                           "ntid.y", "ntid.z", "nctaid.x", "nctaid.y", "nctaid.z", "laneid",
                           "warpsize"},
                          name);
    if (name.consume_front("shfl.sync.")) {
      auto [mode, type] = name.split('.');
      return is_contained({"up", "down", "bfly", "idx"}, mode) &&
             is_contained({"i32", "f32", "i32p", "f32p"}, type);
    }
    return is_contained({"barrier0", "barrier.cta.sync.aligned.all", "bar.warp.sync"}, name);
  }
  if (name.consume_front("llvm.amdgcn."))
    return is_contained({"workitem.id.x", "workitem.id.y", "workitem.id.z", "workgroup.id.x",
                         "workgroup.id.y", "workgroup.id.z", "wavefrontsize", "mbcnt.lo",
                         "mbcnt.hi", "s.barrier", "wave.barrier", "ds.bpermute", "ds.permute",
                         "ds.swizzle", "update.dpp.i32", "readlane.i32", "readfirstlane.i32",
                         "ballot.i64"},
                        name);
  return false;
}

Error simulate(Module &module) {
  SmallVector<std::string> unknown = findUnknownCalls(module);
  if (!unknown.empty())
    return createStringError("the simulation does not know " + join(unknown, ", "));
  std::unique_ptr<TargetMachine> machine = createSimulationMachine();
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  while (!module.named_metadata_empty())
    module.eraseNamedMetadata(&*module.named_metadata_begin());

  SmallVector<Function *> kernels;
  for (Function &function : module)
    if (!function.isDeclaration())
      kernels.push_back(&function);
  for (Function *function : kernels) {
    std::string name = function->getName().str();
    // What was inferred of memory and of other lanes holds on the GPU only.
    function->setAttributes(AttributeList());
    function->addFnAttr(Attribute::NoUnwind);
    function->addFnAttr("target-cpu", machine->getTargetCPU());
    function->setCallingConv(CallingConv::C);
    function->setMetadata("reqd_work_group_size", nullptr);
    Rewriter(*function, name).run();
    function->setName(name + ".lane");
    function->setLinkage(GlobalValue::InternalLinkage);
    createEntry(*function, name);
  }
  for (Function &function : make_early_inc_range(module))
    if (function.isDeclaration() && function.use_empty())
      function.eraseFromParent();
  // Shared memory: other lanes write it while one waits.
  for (GlobalVariable &global : module.globals())
    if (global.getAddressSpace() == 3) {
      global.setLinkage(GlobalValue::ExternalLinkage);
      global.setVisibility(GlobalValue::HiddenVisibility);
      global.setInitializer(Constant::getNullValue(global.getValueType()));
    }
  std::string problem;
  raw_string_ostream os(problem);
  if (verifyModule(module, &os))
    return createStringError("the simulated code is not valid: " + problem);
  return Error::success();
}

Expected<SimulatedObject> emitSimulatedObject(Module &module) {
  SimulatedObject result;
  raw_string_ostream shared(result.shared);
  for (Function &function : module)
    if (function.hasExternalLinkage() && !function.isDeclaration())
      for (GlobalVariable &global : module.globals())
        if (global.getAddressSpace() == 3 &&
            global.getName().starts_with((function.getName() + ".shared").str()))
          shared << function.getName() << ' ' << global.getName() << ' '
                 << module.getDataLayout().getTypeAllocSize(global.getValueType()) << '\n';
  std::unique_ptr<TargetMachine> machine = createSimulationMachine();
  codegen::optimize(module, *machine, /*vectorize=*/false);
  SmallString<0> object;
  if (!codegen::emitFile(module, *machine, CodeGenFileType::ObjectFile, object))
    return createStringError("LLVM cannot write object files for x86-64");
  auto undefined = codegen::getUndefined(object, {kRuntime});
  if (!undefined)
    return undefined.takeError();
  if (!undefined->empty())
    return createStringError("the simulated code calls " + join(*undefined, ", ") +
                             ", which nothing offers; a function of this element type has no "
                             "expansion");
  result.object = std::string(object);
  return result;
}

Expected<std::string> linkSimulation(ArrayRef<SimulatedObject> objects, const GpuTarget &target) {
  // What the library exports beside its kernels.
  LLVMContext context;
  Module module("simulation", context);
  std::unique_ptr<TargetMachine> machine = createSimulationMachine();
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  IRBuilder<> builder(context);
  Type *pointer = builder.getPtrTy(), *i32 = builder.getInt32Ty(), *i64 = builder.getInt64Ty();
  auto define = [&](StringRef name, Constant *value, bool isConstant) {
    new GlobalVariable(module, value->getType(), isConstant, GlobalValue::ExternalLinkage, value,
                       name);
  };
  define("adapt_sim_version", ConstantInt::get(i32, ADAPT_SIM_VERSION), true);
  define("adapt_sim_warp", ConstantInt::get(i32, target.warp), true);
  define(kRuntime, ConstantPointerNull::get(cast<PointerType>(pointer)), false);
  auto *entry = StructType::get(context, {pointer, pointer, i64});
  SmallVector<Constant *> entries;
  std::vector<std::string> files;
  for (const SimulatedObject &object : objects) {
    files.push_back(object.object);
    SmallVector<StringRef> lines;
    StringRef(object.shared).split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines) {
      SmallVector<StringRef> words;
      line.split(words, ' ');
      uint64_t bytes = 0;
      if (words.size() != 3 || words[2].getAsInteger(10, bytes))
        return createStringError("the list of shared memory is damaged: " + line);
      auto *kernel = cast<Function>(
          module.getOrInsertFunction(words[0], builder.getVoidTy(), pointer).getCallee());
      auto *data = new GlobalVariable(module, builder.getInt8Ty(), false,
                                      GlobalValue::ExternalLinkage, nullptr, words[1]);
      data->setVisibility(GlobalValue::HiddenVisibility);
      entries.push_back(ConstantStruct::get(entry, {kernel, data, ConstantInt::get(i64, bytes)}));
    }
  }
  entries.push_back(Constant::getNullValue(entry));
  define("adapt_sim_shared", ConstantArray::get(ArrayType::get(entry, entries.size()), entries),
         false);
  SmallString<0> object;
  if (!codegen::emitFile(module, *machine, CodeGenFileType::ObjectFile, object))
    return createStringError("LLVM cannot write object files for x86-64");
  files.push_back(std::string(object));
  return codegen::linkShared(files);
}

} // namespace adapt::gpu
