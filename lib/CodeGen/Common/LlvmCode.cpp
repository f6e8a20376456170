#include "LlvmCode.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace adapt::codegen {

void optimize(Module &module, TargetMachine &machine, bool vectorize) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  PipelineTuningOptions tuning;
  // Unrolling reorders the weights' stream and spills tiles; the kernels unroll where it pays.
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = vectorize;
  tuning.LoopVectorization = vectorize;
  tuning.SLPVectorization = false;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3).run(module, modules);
}

bool emitFile(Module &module, TargetMachine &machine, CodeGenFileType kind,
              SmallVectorImpl<char> &bytes) {
  raw_svector_ostream os(bytes);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind))
    return false;
  passes.run(module);
  return true;
}

Expected<std::vector<std::string>> getUndefined(StringRef bytes, ArrayRef<StringRef> offered) {
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!file)
    return file.takeError();
  std::vector<std::string> names;
  for (const object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      consumeError(flags.takeError());
      consumeError(name.takeError());
      continue;
    }
    if ((*flags & object::SymbolRef::SF_Undefined) && !name->empty() && *name != "memcpy" &&
        *name != "memmove" && *name != "memset" && *name != "_GLOBAL_OFFSET_TABLE_" &&
        !is_contained(offered, *name))
      names.push_back(name->str());
  }
  return names;
}

} // namespace adapt::codegen
