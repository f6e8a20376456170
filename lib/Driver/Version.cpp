#include "adapt/Driver/Version.h"
#include "adapt/Target/Target.h"
#include "llvm/Config/llvm-config.h"

using namespace adapt;

llvm::StringRef adapt::getVersion() { return ADAPT_VERSION; }

llvm::StringRef adapt::getCommit() {
  return
#include "Driver/commit.inc"
      ;
}

llvm::StringRef adapt::getLLVMVersion() { return LLVM_VERSION_STRING; }

std::string adapt::getVersionText(llvm::StringRef tool) {
  std::string text = (tool + " " + getVersion() + " (" + getCommit() + "), LLVM " +
                      getLLVMVersion() + "\ntargets:")
                         .str();
  for (const std::string &name : listTargets())
    text += " " + name;
  return text;
}
