#include "weights/Bindings.h"

#include "fmt/format.h"

#include <algorithm>

namespace adapt::weights {

/// Splits a pattern into text and placeholders: calls `text(piece)` and `name(placeholder)`.
template <typename Text, typename Name>
static absl::Status splitPattern(std::string_view pattern, Text text, Name name) {
  size_t begin = 0;
  while (true) {
    size_t brace = pattern.find_first_of("{}", begin);
    text(pattern.substr(begin, std::min(brace, pattern.size()) - begin));
    if (brace == pattern.npos)
      return absl::OkStatus();
    size_t close = pattern.find_first_of("{}", brace + 1);
    if (pattern[brace] == '}' || close == pattern.npos || pattern[close] == '{' ||
        close == brace + 1)
      return absl::InvalidArgumentError(
          fmt::format("name pattern {} has unbalanced or empty braces", quote(pattern)));
    name(pattern.substr(brace + 1, close - brace - 1));
    begin = close + 1;
  }
}

absl::StatusOr<std::vector<std::string>> placeholders(std::string_view pattern) {
  std::vector<std::string> names;
  absl::Status status = splitPattern(
      pattern, [](std::string_view) {},
      [&](std::string_view name) {
        if (std::find(names.begin(), names.end(), name) == names.end())
          names.emplace_back(name);
      });
  if (!status.ok())
    return status;
  return names;
}

absl::StatusOr<std::string> instantiate(std::string_view pattern, const IntegerMap &indices,
                                        Unused unused) {
  std::string result;
  std::vector<std::string> used;
  Problems problems;
  absl::Status status = splitPattern(
      pattern, [&](std::string_view text) { result += text; },
      [&](std::string_view name) {
        auto found = indices.find(name);
        if (found == indices.end()) {
          problems.add(fmt::format("index {} has no value here", quote(name)));
          return;
        }
        result += std::to_string(found->second);
        used.emplace_back(name);
      });
  if (!status.ok())
    return status;
  if (unused == Unused::Refuse)
    for (const auto &[name, value] : indices)
      if (std::find(used.begin(), used.end(), name) == used.end())
        problems.add(fmt::format("index {} = {} is not used", quote(name), value));
  if (!problems.empty())
    return problems.status("name pattern " + quote(pattern));
  return result;
}

static absl::StatusOr<int64_t> evaluateExpr(const schema::Expr &expr, const Bindings &bindings,
                                            unsigned depth) {
  using schema::BinaryExpr;
  constexpr unsigned kMaxDepth = 100;
  if (depth > kMaxDepth)
    return absl::InvalidArgumentError(fmt::format("expression is deeper than {}", kMaxDepth));
  switch (expr.kind_case()) {
  case schema::Expr::kConstant:
    return expr.constant();
  case schema::Expr::kSymbol: {
    for (const IntegerMap *map : {&bindings.symbols, &bindings.indices})
      if (auto found = map->find(expr.symbol()); found != map->end())
        return found->second;
    return absl::InvalidArgumentError(
        fmt::format("symbol {} has no value here", quote(expr.symbol())));
  }
  case schema::Expr::kBinary:
    break;
  default:
    return absl::InvalidArgumentError("expression is empty");
  }

  absl::StatusOr<int64_t> lhs = evaluateExpr(expr.binary().lhs(), bindings, depth + 1);
  if (!lhs.ok())
    return lhs;
  absl::StatusOr<int64_t> rhs = evaluateExpr(expr.binary().rhs(), bindings, depth + 1);
  if (!rhs.ok())
    return rhs;
  int64_t a = *lhs, b = *rhs, result = 0;
  BinaryExpr::Kind kind = expr.binary().kind();
  bool divides =
      kind == BinaryExpr::FLOORDIV || kind == BinaryExpr::CEILDIV || kind == BinaryExpr::MOD;
  if (divides && b == 0)
    return absl::InvalidArgumentError(fmt::format("division of {} by zero in an expression", a));
  bool overflow = divides && a == INT64_MIN && b == -1;
  if (!overflow) {
    bool inexact = divides && a % b != 0, negative = (a < 0) != (b < 0);
    switch (kind) {
    case BinaryExpr::ADD:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryExpr::SUB:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryExpr::MUL:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryExpr::FLOORDIV:
      result = a / b - (inexact && negative);
      break;
    case BinaryExpr::CEILDIV:
      result = a / b + (inexact && !negative);
      break;
    case BinaryExpr::MOD: // of the sign of b: a - floordiv(a, b) * b
      result = a % b + (inexact && negative ? b : 0);
      break;
    case BinaryExpr::MIN:
      result = std::min(a, b);
      break;
    case BinaryExpr::MAX:
      result = std::max(a, b);
      break;
    default:
      return absl::InvalidArgumentError(
          fmt::format("unknown operator {} in an expression", int(kind)));
    }
  }
  if (overflow)
    return absl::OutOfRangeError(fmt::format("expression over {} and {} overflows", a, b));
  return result;
}

absl::StatusOr<int64_t> evaluateExpr(const schema::Expr &expr, const Bindings &bindings) {
  return evaluateExpr(expr, bindings, 0);
}

} // namespace adapt::weights
