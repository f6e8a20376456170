// head: of the tokens whose logits are asked for, norm and logits in f32.
#pragma once

#include "Blocks/Block.h"

namespace adapt {

struct Head : Block {
  Norm inputNorm;
  Linear projection;
  bool isTied = false; ///< config.json says that the embedding's table is the projection

  mlir::Value build(BlockBuilder &b, mlir::Value hidden) const override;
};

} // namespace adapt
