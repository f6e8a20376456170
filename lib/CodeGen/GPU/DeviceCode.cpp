#include "DeviceCode.h"
#include "CodeGen/Common/LinkKernels.h"
#include "CodeGen/Common/LlvmCode.h"
#include "Intrinsics.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Constants.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace adapt::gpu {
using namespace codegen;

namespace {
/// Constants live in global memory, which a GPU's code must know.
void moveConstants(llvm::Module &module) {
  SmallVector<llvm::GlobalVariable *> globals;
  for (llvm::GlobalVariable &global : module.globals())
    if (global.getAddressSpace() == 0)
      globals.push_back(&global);
  for (llvm::GlobalVariable *global : globals) {
    auto *moved = new llvm::GlobalVariable(
        module, global->getValueType(), global->isConstant(), llvm::GlobalValue::InternalLinkage,
        global->getInitializer(), "", global, llvm::GlobalValue::NotThreadLocal,
        /*AddressSpace=*/1);
    moved->setAlignment(global->getAlign());
    moved->takeName(global);
    global->replaceAllUsesWith(llvm::ConstantExpr::getAddrSpaceCast(moved, global->getType()));
    global->eraseFromParent();
  }
}
} // namespace

FailureOr<std::unique_ptr<llvm::Module>> translateToDevice(mlir::gpu::GPUModuleOp module,
                                                           const GpuTarget &target,
                                                           llvm::LLVMContext &context) {
  std::unique_ptr<llvm::TargetMachine> machine = target.createMachine();
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context, "kernel");
  if (!code)
    return module.emitError("translation to LLVM IR failed");
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  moveConstants(*code);
  if (!target.isCuda()) // version 5: ROCm 5.3 and later read it
    code->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", 500);
  for (llvm::Function &function : *code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    if (!machine->getTargetFeatureString().empty())
      function.addFnAttr("target-features", machine->getTargetFeatureString());
    if (function.hasLocalLinkage())
      function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  optimize(*code, *machine, /*vectorize=*/false);
  SmallVector<std::string> unknown = findUnknownCalls(*code);
  for (const std::string &name : unknown)
    module.emitError() << "the code uses " << name
                       << ", which neither the GPU code generator nor the simulation knows; a "
                          "function of this element type has no expansion";
  if (!unknown.empty())
    return failure();
  return code;
}

std::string emitAssembly(llvm::Module &module, const GpuTarget &target) {
  SmallString<0> text;
  emitFile(module, *target.createMachine(), llvm::CodeGenFileType::AssemblyFile, text);
  return std::string(text);
}

llvm::Expected<std::unique_ptr<llvm::Module>> linkModules(ArrayRef<std::string> bitcode,
                                                          llvm::LLVMContext &context) {
  std::unique_ptr<llvm::Module> whole;
  for (const std::string &bytes : bitcode) {
    auto part = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bytes, "kernel"), context);
    if (!part)
      return part.takeError();
    if (!whole)
      whole = std::move(*part);
    else if (llvm::Linker::linkModules(*whole, std::move(*part)))
      return llvm::createStringError("the kernels cannot be linked into one module");
  }
  if (!whole)
    return llvm::createStringError("there are no kernels");
  return whole;
}

//===----------------------------------------------------------------------===//
// HSACO
//===----------------------------------------------------------------------===//

namespace {
/// The metadata note of a code object (LLVM's AMDGPUUsage, "Code Object V3 and above").
llvm::Expected<std::string> getMetadata(StringRef object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "hsaco"));
  if (!file)
    return file.takeError();
  auto *elf = dyn_cast<llvm::object::ELF64LEObjectFile>(file->get());
  if (!elf)
    return llvm::createStringError("the linked code is no 64-bit ELF file");
  auto headers = elf->getELFFile().program_headers();
  if (!headers)
    return headers.takeError();
  for (const auto &header : *headers) {
    if (header.p_type != llvm::ELF::PT_NOTE)
      continue;
    llvm::Error error = llvm::Error::success();
    for (const auto &note : elf->getELFFile().notes(header, error))
      if (note.getName() == "AMDGPU" && note.getType() == llvm::ELF::NT_AMDGPU_METADATA) {
        llvm::consumeError(std::move(error));
        return llvm::toStringRef(note.getDesc(header.p_align)).str();
      }
    if (error)
      return error;
  }
  return llvm::createStringError("the linked code has no metadata");
}

uint64_t getNumber(llvm::msgpack::MapDocNode map, StringRef key) {
  auto found = map.find(key);
  return found != map.end() && found->second.getKind() == llvm::msgpack::Type::UInt
             ? found->second.getUInt()
             : 0;
}

llvm::Expected<std::vector<KernelResources>> readMetadata(StringRef object,
                                                          const GpuTarget &target) {
  auto text = getMetadata(object);
  if (!text)
    return text.takeError();
  llvm::msgpack::Document document;
  if (!document.readFromBlob(*text, /*Multi=*/false) || !document.getRoot().isMap())
    return llvm::createStringError("the metadata of the linked code cannot be read");
  std::vector<KernelResources> result;
  llvm::msgpack::DocNode kernels = document.getRoot().getMap()["amdhsa.kernels"];
  if (!kernels.isArray())
    return llvm::createStringError("the metadata of the linked code names no kernels");
  for (llvm::msgpack::DocNode &node : kernels.getArray()) {
    llvm::msgpack::MapDocNode kernel = node.getMap();
    KernelResources resources;
    resources.symbol = kernel[".name"].getString().str();
    resources.registers = getNumber(kernel, ".vgpr_count") + getNumber(kernel, ".agpr_count");
    resources.scalarRegisters = getNumber(kernel, ".sgpr_count");
    resources.sharedBytes = getNumber(kernel, ".group_segment_fixed_size");
    resources.scratchBytes = getNumber(kernel, ".private_segment_fixed_size");
    resources.spills =
        getNumber(kernel, ".vgpr_spill_count") + getNumber(kernel, ".sgpr_spill_count");
    if (getNumber(kernel, ".wavefront_size") != static_cast<uint64_t>(target.warp))
      return llvm::createStringError("kernel '" + resources.symbol + "' was made for waves of " +
                                     llvm::Twine(getNumber(kernel, ".wavefront_size")) +
                                     " lanes, not " + llvm::Twine(target.warp));
    // The ABI: eight bytes an argument, one after the other.
    if (auto args = kernel.find(".args"); args != kernel.end() && args->second.isArray())
      for (auto [index, argument] : llvm::enumerate(args->second.getArray())) {
        auto kind = argument.getMap()[".value_kind"].getString();
        if (!kind.starts_with("hidden_") && (getNumber(argument.getMap(), ".offset") != 8 * index ||
                                             getNumber(argument.getMap(), ".size") != 8))
          return llvm::createStringError("argument " + llvm::Twine(index) + " of kernel '" +
                                         resources.symbol + "' is not where the ABI has it");
      }
    if (resources.sharedBytes > target.maxShared)
      return llvm::createStringError(
          "kernel '" + resources.symbol + "' needs " + llvm::Twine(resources.sharedBytes) +
          " bytes of shared memory; there are " + llvm::Twine(target.maxShared));
    result.push_back(std::move(resources));
  }
  return result;
}
} // namespace

llvm::Expected<std::pair<std::string, std::vector<KernelResources>>>
emitCodeObject(llvm::Module &module, const GpuTarget &target) {
  SmallString<0> object;
  emitFile(module, *target.createMachine(), llvm::CodeGenFileType::ObjectFile, object);
  auto linked = linkShared({std::string(object)});
  if (!linked)
    return linked.takeError();
  auto resources = readMetadata(*linked, target);
  if (!resources)
    return resources.takeError();
  return std::pair(std::move(*linked), std::move(*resources));
}

} // namespace adapt::gpu
