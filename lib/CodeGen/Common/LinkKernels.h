#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace adapt::codegen {

/// Links objects into a shared object of their machine (x86-64 or AMDGPU), by lld in this process;
/// returns its bytes. One thread at a time may call it.
llvm::Expected<std::string> linkShared(llvm::ArrayRef<std::string> objects);

} // namespace adapt::codegen
