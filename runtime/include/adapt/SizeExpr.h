// Sizes of a program: small integer expressions over named symbols, compiled for evaluation at
// every step.
#pragma once
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "adapt/Status.h"
#include "expr.pb.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace adapt::rt {

/// A schema::Expr as postfix code. Evaluation neither allocates nor recurses.
class SizeExpr {
public:
  /// `lookup` gives a symbol's index in the array that evaluate() reads, or nothing where there is
  /// no such symbol. Errors: an expression or operand that is missing, unknown symbols or
  /// operators, nesting deeper than kMaxDepth.
  static absl::StatusOr<SizeExpr>
  compile(const schema::Expr &expr,
          absl::FunctionRef<std::optional<uint32_t>(absl::string_view)> lookup);

  /// Nothing on overflow of 64 bits and on division by what is not positive. Division rounds
  /// towards minus infinity (FLOORDIV, MOD) or plus infinity (CEILDIV).
  std::optional<int64_t> evaluate(absl::Span<const int64_t> symbols) const;

  /// The value where no symbol occurs (and it can be computed).
  std::optional<int64_t> constant() const { return isConstant ? evaluate({}) : std::nullopt; }

  static constexpr int kMaxDepth = 64;

private:
  enum class Op : uint8_t {
    kConstant,
    kSymbol,
    kAdd,
    kSub,
    kMul,
    kFloorDiv,
    kCeilDiv,
    kMod,
    kMin,
    kMax
  };
  struct Instruction {
    Op op;
    int64_t value; // the constant, or the symbol's index
  };
  absl::Status append(const schema::Expr &expr,
                      absl::FunctionRef<std::optional<uint32_t>(absl::string_view)> lookup,
                      int depth);

  std::vector<Instruction> code;
  bool isConstant = true;
};

} // namespace adapt::rt
