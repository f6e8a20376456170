// How many heads and elements a weight has once the ranks divide them.
#pragma once

#include "dialects/Adapt/AdaptDialect.h"

namespace adapt {

/// Of key/value heads: padded to `base`, each then copied `copies` times. Queries of a head are
/// padded to `queries`, a multiple of the copies, which share them out.
struct HeadSizes {
  int64_t base, copies, queries;
  int64_t getHeads() const { return base * copies; }
};

/// For heads of so many queries each (0: key/value heads) on so many ranks: heads are padded to a
/// multiple of the ranks if there are as many as ranks, else to the least divisor of the ranks.
HeadSizes getHeadSizes(int64_t heads, int64_t queries, int64_t ranks);

/// Whether a weight with this role and size of its axis needs zeros on so many ranks.
bool needsPadding(ShardAttr shard, int64_t size, int64_t ranks);

/// The role of the weight once it is padded.
ShardAttr getPadded(ShardAttr shard, int64_t ranks);

/// The padded weight, built of recipe operations.
mlir::Value padWeight(mlir::OpBuilder &builder, mlir::Value weight, ShardAttr shard, int64_t ranks);

} // namespace adapt
