#include "DotStep.h"
#include "dialects/Adapt/ToLinalg.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"

using namespace mlir;

namespace adapt::cpu {

std::optional<DotStep> DotStep::get(const CpuTarget &target, Type stored, Type scalar,
                                    int64_t depth) {
  if (stored.isF64() || scalar.isF64() || !isa<FloatType>(stored) || !isa<FloatType>(scalar))
    return std::nullopt;
  if (stored.isBF16() && depth == 2)
    return DotStep(scalar.isBF16() && target.avx512bf16 ? Kind::Bf16Dot : Kind::Bf16Fma, 2,
                   target.fma);
  if (depth == 1)
    return DotStep(Kind::Fma, 1, target.fma);
  return std::nullopt;
}

Value DotStep::loadVector(CpuKernelBuilder &b, Pointer pointer, Value index, VectorType type,
                          int64_t used) {
  return used < type.getDimSize(0) ? b.loadMasked(pointer, index, type, b.constant(used))
                                   : b.load(pointer, index, type);
}

DotStep::Operand DotStep::loadLanes(CpuKernelBuilder &b, Pointer stored, Value index,
                                    int64_t lanes) const {
  OpBuilder &builder = b.getBuilder();
  Location loc = b.getLoc();
  switch (kind) {
  case Kind::Bf16Dot:
    return {loadVector(b, stored, index, b.vector(2 * kLanes, stored.element), 2 * lanes)};
  case Kind::Bf16Fma: {
    // A bf16 is the upper half of an f32; the lower of a pair is shifted up.
    VectorType ints = b.vector(kLanes, b.i32()), floats = b.vector(kLanes, b.f32());
    Value pairs = loadVector(b, stored, index, ints, lanes);
    Value even = arith::ShLIOp::create(builder, loc, pairs, b.intConstant(ints, 16));
    Value odd = arith::AndIOp::create(builder, loc, pairs, b.intConstant(ints, 0xffff0000));
    return {vector::BitCastOp::create(builder, loc, floats, even),
            vector::BitCastOp::create(builder, loc, floats, odd)};
  }
  case Kind::Fma:
    return {
        widen(builder, loc, loadVector(b, stored, index, b.vector(kLanes, stored.element), lanes))};
  }
  llvm_unreachable("all kinds are covered");
}

DotStep::Operand DotStep::loadScalars(CpuKernelBuilder &b, Pointer row, Value index,
                                      int64_t count) const {
  OpBuilder &builder = b.getBuilder();
  Location loc = b.getLoc();
  if (kind == Kind::Bf16Dot) {
    Value pair;
    if (count == 2)
      pair = b.load(row, index, b.i32());
    else
      pair =
          arith::ExtUIOp::create(builder, loc, b.i32(), b.load(row, index, builder.getI16Type()));
    return {vector::BitCastOp::create(builder, loc, b.vector(2 * kLanes, row.element),
                                      b.broadcast(pair, kLanes))};
  }
  Operand result;
  for (int64_t i = 0; i < count; ++i) {
    Value scalar = widen(builder, loc, b.load(row, b.add(index, i)));
    result.push_back(b.broadcast(scalar, kLanes));
  }
  return result;
}

Value DotStep::accumulate(CpuKernelBuilder &b, Value sum, const Operand &lanes,
                          const Operand &scalars) const {
  OpBuilder &builder = b.getBuilder();
  Location loc = b.getLoc();
  if (kind == Kind::Bf16Dot)
    return x86vector::DotBF16Op::create(builder, loc, sum.getType(), sum, lanes[0], scalars[0]);
  for (auto [lane, scalar] : llvm::zip(lanes, scalars)) { // scalars may be fewer, at a row's end
    if (fma)
      sum = vector::FMAOp::create(builder, loc, lane, scalar, sum);
    else
      sum = arith::AddFOp::create(builder, loc, sum,
                                  arith::MulFOp::create(builder, loc, lane, scalar));
  }
  return sum;
}

} // namespace adapt::cpu
