#include "EmitObject.h"
#include "CodeGen/Common/LlvmCode.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;

namespace adapt::cpu {
using namespace codegen;

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
  optimize(*code, *machine, /*vectorize=*/true);
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
  // The runtime offers a kernel what every process has, and nothing else.
  auto undefined = getUndefined(object);
  if (!undefined)
    return module.emitError("LLVM made no valid object: " + llvm::toString(undefined.takeError()));
  for (const std::string &name : *undefined)
    module.emitError() << "the code calls '" << name
                       << "', which no bundle can offer; a function of this element type has no "
                          "expansion";
  if (!undefined->empty())
    return failure();
  return std::string(object);
}

} // namespace adapt::cpu
