#include "adapt/SizeExpr.h"

#include <algorithm>

using namespace adapt;
using namespace adapt::rt;

absl::StatusOr<SizeExpr>
SizeExpr::compile(const schema::Expr &expr,
                  absl::FunctionRef<std::optional<uint32_t>(absl::string_view)> lookup) {
  SizeExpr result;
  ADAPT_RETURN_IF_ERROR(result.append(expr, lookup, 1));
  return result;
}

absl::Status SizeExpr::append(const schema::Expr &expr,
                              absl::FunctionRef<std::optional<uint32_t>(absl::string_view)> lookup,
                              int depth) {
  if (depth > kMaxDepth)
    return absl::InvalidArgumentError(
        absl::StrCat("expression nested deeper than ", kMaxDepth, " operators"));
  switch (expr.kind_case()) {
  case schema::Expr::kConstant:
    code.push_back({Op::kConstant, expr.constant()});
    return absl::OkStatus();
  case schema::Expr::kSymbol: {
    std::optional<uint32_t> index = lookup(expr.symbol());
    if (!index)
      return absl::InvalidArgumentError(absl::StrCat("unknown symbol '", expr.symbol(), "'"));
    code.push_back({Op::kSymbol, *index});
    isConstant = false;
    return absl::OkStatus();
  }
  case schema::Expr::kBinary: {
    const schema::BinaryExpr &binary = expr.binary();
    if (!binary.has_lhs() || !binary.has_rhs())
      return absl::InvalidArgumentError("expression with a missing operand");
    Op op;
    switch (binary.kind()) {
    case schema::BinaryExpr::ADD:
      op = Op::kAdd;
      break;
    case schema::BinaryExpr::SUB:
      op = Op::kSub;
      break;
    case schema::BinaryExpr::MUL:
      op = Op::kMul;
      break;
    case schema::BinaryExpr::FLOORDIV:
      op = Op::kFloorDiv;
      break;
    case schema::BinaryExpr::CEILDIV:
      op = Op::kCeilDiv;
      break;
    case schema::BinaryExpr::MOD:
      op = Op::kMod;
      break;
    case schema::BinaryExpr::MIN:
      op = Op::kMin;
      break;
    case schema::BinaryExpr::MAX:
      op = Op::kMax;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("unknown operator ", static_cast<int>(binary.kind())));
    }
    ADAPT_RETURN_IF_ERROR(append(binary.lhs(), lookup, depth + 1));
    ADAPT_RETURN_IF_ERROR(append(binary.rhs(), lookup, depth + 1));
    code.push_back({op, 0});
    return absl::OkStatus();
  }
  case schema::Expr::KIND_NOT_SET:
    break;
  }
  return absl::InvalidArgumentError("empty expression");
}

std::optional<int64_t> SizeExpr::evaluate(absl::Span<const int64_t> symbols) const {
  // Depth d of nesting needs at most d values at a time.
  int64_t stack[kMaxDepth + 1];
  size_t top = 0;
  for (const Instruction &instruction : code) {
    if (instruction.op == Op::kConstant) {
      stack[top++] = instruction.value;
      continue;
    }
    if (instruction.op == Op::kSymbol) {
      stack[top++] = symbols[instruction.value];
      continue;
    }
    int64_t rhs = stack[--top];
    int64_t &lhs = stack[top - 1];
    switch (instruction.op) {
    case Op::kAdd:
      if (__builtin_add_overflow(lhs, rhs, &lhs))
        return std::nullopt;
      break;
    case Op::kSub:
      if (__builtin_sub_overflow(lhs, rhs, &lhs))
        return std::nullopt;
      break;
    case Op::kMul:
      if (__builtin_mul_overflow(lhs, rhs, &lhs))
        return std::nullopt;
      break;
    case Op::kFloorDiv:
    case Op::kCeilDiv:
    case Op::kMod: {
      if (rhs <= 0)
        return std::nullopt;
      int64_t quotient = lhs / rhs, remainder = lhs % rhs;
      if (remainder < 0) {
        --quotient;
        remainder += rhs;
      }
      if (instruction.op == Op::kMod)
        lhs = remainder;
      else
        lhs = quotient + (instruction.op == Op::kCeilDiv && remainder != 0);
      break;
    }
    case Op::kMin:
      lhs = std::min(lhs, rhs);
      break;
    case Op::kMax:
      lhs = std::max(lhs, rhs);
      break;
    case Op::kConstant:
    case Op::kSymbol:
      break;
    }
  }
  return stack[0];
}
