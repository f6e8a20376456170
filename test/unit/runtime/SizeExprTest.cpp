#include "adapt/SizeExpr.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

using namespace adapt;
using namespace adapt::rt;

namespace {

absl::StatusOr<SizeExpr> compile(const schema::Expr &expr) {
  return SizeExpr::compile(expr, [](absl::string_view name) -> std::optional<uint32_t> {
    if (name == "a")
      return 0;
    if (name == "b")
      return 1;
    return std::nullopt;
  });
}

schema::Expr parse(const std::string &text) {
  schema::Expr expr;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expr)) << text;
  return expr;
}

std::optional<int64_t> binary(const std::string &kind, int64_t a, int64_t b) {
  absl::StatusOr<SizeExpr> expr =
      compile(parse("binary { kind: " + kind + " lhs { symbol: 'a' } rhs { symbol: 'b' } }"));
  EXPECT_TRUE(expr.ok()) << expr.status();
  return expr->evaluate({a, b});
}

TEST(SizeExpr, Operators) {
  EXPECT_EQ(binary("ADD", 3, -5), -2);
  EXPECT_EQ(binary("SUB", 3, -5), 8);
  EXPECT_EQ(binary("MUL", 3, -5), -15);
  EXPECT_EQ(binary("MIN", 3, -5), -5);
  EXPECT_EQ(binary("MAX", 3, -5), 3);
  EXPECT_EQ(binary("FLOORDIV", 7, 2), 3);
  EXPECT_EQ(binary("FLOORDIV", -7, 2), -4);
  EXPECT_EQ(binary("FLOORDIV", -8, 2), -4);
  EXPECT_EQ(binary("CEILDIV", 7, 2), 4);
  EXPECT_EQ(binary("CEILDIV", -7, 2), -3);
  EXPECT_EQ(binary("CEILDIV", 8, 2), 4);
  EXPECT_EQ(binary("CEILDIV", 0, 2), 0);
  EXPECT_EQ(binary("MOD", 7, 3), 1);
  EXPECT_EQ(binary("MOD", -7, 3), 2);
}

TEST(SizeExpr, WhatHasNoValue) {
  EXPECT_EQ(binary("FLOORDIV", 1, 0), std::nullopt);
  EXPECT_EQ(binary("CEILDIV", 1, 0), std::nullopt);
  EXPECT_EQ(binary("MOD", 1, 0), std::nullopt);
  EXPECT_EQ(binary("MOD", 1, -3), std::nullopt);
  EXPECT_EQ(binary("FLOORDIV", INT64_MIN, -1), std::nullopt);
  EXPECT_EQ(binary("ADD", INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(binary("SUB", INT64_MIN, 1), std::nullopt);
  EXPECT_EQ(binary("MUL", INT64_MAX, 2), std::nullopt);
}

TEST(SizeExpr, NestedAndConstant) {
  // (a + 15) floordiv 16 * 16 - b
  absl::StatusOr<SizeExpr> expr = compile(parse(R"pb(
    binary { kind: SUB
      lhs { binary { kind: MUL
        lhs { binary { kind: FLOORDIV
          lhs { binary { kind: ADD lhs { symbol: "a" } rhs { constant: 15 } } }
          rhs { constant: 16 } } }
        rhs { constant: 16 } } }
      rhs { symbol: "b" } })pb"));
  ASSERT_TRUE(expr.ok()) << expr.status();
  EXPECT_EQ(expr->evaluate({17, 5}), 27);
  EXPECT_EQ(expr->constant(), std::nullopt);
  absl::StatusOr<SizeExpr> constant =
      compile(parse("binary { kind: MUL lhs { constant: 6 } rhs { constant: 7 } }"));
  ASSERT_TRUE(constant.ok());
  EXPECT_EQ(constant->constant(), 42);
}

TEST(SizeExpr, Refused) {
  EXPECT_EQ(compile(parse("")).status().message(), "empty expression");
  EXPECT_EQ(compile(parse("symbol: 'c'")).status().message(), "unknown symbol 'c'");
  EXPECT_EQ(compile(parse("binary { kind: ADD lhs { constant: 1 } }")).status().message(),
            "expression with a missing operand");
  schema::Expr unknown = parse("binary { lhs { constant: 1 } rhs { constant: 1 } }");
  unknown.mutable_binary()->set_kind(static_cast<schema::BinaryExpr::Kind>(99));
  EXPECT_EQ(compile(unknown).status().message(), "unknown operator 99");
  schema::Expr deep = parse("constant: 1");
  for (int i = 0; i < 100; ++i) {
    schema::Expr outer = parse("binary { kind: ADD rhs { constant: 1 } }");
    *outer.mutable_binary()->mutable_lhs() = deep;
    deep = outer;
  }
  EXPECT_EQ(compile(deep).status().message(), "expression nested deeper than 64 operators");
}

} // namespace
