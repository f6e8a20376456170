#include "adapt/Support/Version.h"
#include "runtime/include/adapt/Version.h"
#include "llvm/Config/llvm-config.h"

using namespace adapt;

llvm::StringRef adapt::getVersion() { return rt::version(); }
llvm::StringRef adapt::getCommit() { return rt::commit(); }
llvm::StringRef adapt::getLLVMVersion() { return LLVM_VERSION_STRING; }

std::string adapt::getVersionText(llvm::StringRef tool) {
  return (tool + " " + getVersion() + " (" + getCommit() + "), LLVM " + getLLVMVersion()).str();
}
