// The tile body of attention: scores, online softmax (Milakov and Gimelshein 2018,
// arXiv:1805.02867), finish. The same for all targets, over *lanes*: a CPU has 16 keys in a vector,
// a GPU one in each thread of a warp.
#pragma once

#include "CodeGen/Common/KernelBuilder.h"

namespace adapt::codegen {

/// Lower than any score, and finite: a row whose keys so far were all masked.
inline constexpr double kNoMaximum = -1e30;

/// What lanes are. Values "of the lanes" have one element per key.
class AttendLanes {
public:
  virtual ~AttendLanes() = default;
  /// A scalar in every lane.
  virtual mlir::Value broadcast(mlir::Value scalar) = 0;
  /// Over the lanes, f32.
  virtual mlir::Value getMaximum(mlir::Value lanes) = 0;
  virtual mlir::Value getSum(mlir::Value lanes) = 0;
};

/// The scores of a row for the keys of a chunk.
class AttendScores {
public:
  virtual ~AttendScores() = default;
  using Visit =
      llvm::function_ref<mlir::Value(mlir::Value scores, mlir::Value place, mlir::Value carried)>;
  /// Visits all, as many at once as there are lanes, with the value that the last visit returned.
  virtual mlir::Value fold(mlir::Value init, Visit visit) = 0;
  /// Keeps the softmax's numerators of the scores at this place.
  virtual void keep(mlir::Value weights, mlir::Value place) = 0;
};

class AttendTile {
public:
  AttendTile(KernelBuilder &b, PagedAttendOp op, AttendLanes &lanes)
      : b(b), builder(b.getBuilder()), loc(b.getLoc()), op(op), lanes(lanes) {}

  /// The first key that a query at this position sees (i64), rounded down to a multiple of `chunk`.
  mlir::Value getFirstKey(mlir::Value position, int64_t chunk);
  /// Scores in units of log2 from the products q·k of the lanes, -infinity where masked. Key
  /// numbers are of the lanes, the position is a scalar; i32.
  mlir::Value getScores(mlir::Value products, mlir::Value keyNumbers, mlir::Value position);

  /// A row's state: its maximum so far; the sum of its weights, of the lanes; and what was summed
  /// and mixed before is to be multiplied with.
  struct Row {
    mlir::Value maximum, sum, shrink;
  };
  /// weights = 2^(score - maximum); what was summed before shrinks where the maximum grew.
  Row update(mlir::Value maximum, mlir::Value sum, AttendScores &scores);

  /// The sum over all keys, for `finish`.
  mlir::Value getTotal(mlir::Value sum) { return lanes.getSum(sum); }
  /// mixed / total, rounded.
  mlir::Value finish(mlir::Value mixed, mlir::Value total, mlir::Type element);

private:
  mlir::Value larger(mlir::Value a, mlir::Value c);

  KernelBuilder &b;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  PagedAttendOp op;
  AttendLanes &lanes;
};

} // namespace adapt::codegen
