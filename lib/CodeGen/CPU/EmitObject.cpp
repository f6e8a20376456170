#include "EmitObject.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;

namespace adapt::cpu {
namespace {
void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  // Unrolling reorders the weights' stream and spills tiles; the kernels unroll where it pays.
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = true;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

bool emitFile(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType kind,
              SmallVectorImpl<char> &bytes) {
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind))
    return false;
  passes.run(module);
  return true;
}

// The runtime offers a kernel these functions and no others.
LogicalResult checkUndefined(ModuleOp module, StringRef object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file)
    return module.emitError("LLVM made no valid object: " + llvm::toString(file.takeError()));
  LogicalResult result = success();
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
      continue;
    }
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() && *name != "memcpy" &&
        *name != "memmove" && *name != "memset" && *name != "_GLOBAL_OFFSET_TABLE_")
      result = module.emitError() << "the code calls '" << *name
                                  << "', which no bundle can offer; a function of this element "
                                     "type has no expansion";
  }
  return result;
}
} // namespace

FailureOr<std::string> emitObject(ModuleOp module, const CpuTarget &target,
                                  llvm::function_ref<void(StringRef, StringRef)> dump) {
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context, "kernel");
  if (!code)
    return module.emitError("translation to LLVM IR failed");
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.level);
    if (!target.features.empty())
      function.addFnAttr("target-features", target.features);
    function.addFnAttr("tune-cpu", target.cpu);
    if (target.avx512)
      function.addFnAttr("prefer-vector-width", "512");
  }
  optimize(*code, *machine);
  if (dump) {
    std::string text;
    llvm::raw_string_ostream os(text);
    code->print(os, nullptr);
    dump("ll", text);
    SmallString<0> assembly;
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*code);
    emitFile(*copy, *machine, llvm::CodeGenFileType::AssemblyFile, assembly);
    dump("s", assembly);
  }
  SmallString<0> object;
  if (!emitFile(*code, *machine, llvm::CodeGenFileType::ObjectFile, object))
    return module.emitError("LLVM cannot write object files for this target");
  if (failed(checkUndefined(module, object)))
    return failure();
  return std::string(object);
}

} // namespace adapt::cpu
