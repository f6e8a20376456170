//===- Bindings.h - Values of indices and symbols -------------------------===//
//
// What a call binds: indices that fill the placeholders of names ("layers.{layer}.q") and symbols
// of expressions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/Support.h"

#include "expr.pb.h"

#include <map>

namespace adapt::weights {

using IntegerMap = std::map<std::string, int64_t, std::less<>>;

struct Bindings {
  IntegerMap indices; // fill `{index}` placeholders of names; also seen by expressions
  IntegerMap symbols; // seen by expressions: mesh coordinates
};

/// The names in braces, in order, without repetition. Errors: unbalanced or empty braces.
absl::StatusOr<std::vector<std::string>> placeholders(std::string_view pattern);

enum class Unused { Refuse, Allow };

/// "model.layers.{layer}.x" with {layer: 7} is "model.layers.7.x". Errors: a placeholder without a
/// value; with Unused::Refuse also a value without a placeholder (two instances would have one
/// name).
absl::StatusOr<std::string> instantiate(std::string_view pattern, const IntegerMap &indices,
                                        Unused unused = Unused::Refuse);

/// Errors: an unknown symbol, overflow, division by zero.
absl::StatusOr<int64_t> evaluateExpr(const schema::Expr &expr, const Bindings &bindings);

} // namespace adapt::weights
