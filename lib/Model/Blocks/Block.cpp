#include "Blocks/Block.h"

namespace adapt {

llvm::ArrayRef<const BlockKind *> getBlockKinds() {
  static const BlockKind *const kinds[] = {&kEmbedding, &kAttention, &kGatedMlp, &kHead};
  return kinds;
}

const BlockKind *findBlockKind(llvm::StringRef name) {
  for (const BlockKind *kind : getBlockKinds())
    if (kind->name == name)
      return kind;
  return nullptr;
}

} // namespace adapt
