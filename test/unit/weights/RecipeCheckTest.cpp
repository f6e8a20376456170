// Recipes that must be refused; names and expressions.
#include "weights/Recipe.h"

#include "RecipeTesting.h"

#include <cmath>

namespace adapt::weights {
namespace {

using test::MemorySources;
using test::message;
using test::parse;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::string &recipe, const Bindings &bindings = {}) {
  MemorySources sources;
  sources.add<int32_t>("w", schema::I32, {2, 3}, {0, 1, 2, 3, 4, 5});
  absl::Status status = Evaluation::prepare(parse(recipe), bindings, sources).status();
  EXPECT_FALSE(status.ok()) << recipe;
  return message(status);
}

const std::string kSource = "nodes { type { element: I32 shape: [2, 3] } source { name: 'w' } } ";

TEST(RecipeCheck, Structure) {
  EXPECT_THAT(refusal(""), HasSubstr("no nodes"));
  EXPECT_THAT(refusal("nodes { type { element: I32 } }"), HasSubstr("no operation"));
  EXPECT_THAT(refusal("nodes { source { name: 'w' } }"), HasSubstr("no known element type"));
  EXPECT_THAT(refusal("nodes { type { element: I32 } source { name: '' } }"), HasSubstr("no name"));
  EXPECT_THAT(refusal("nodes { type { element: I32 } operands: 0 reshape {} }"),
              HasSubstr("not an earlier node"));
  EXPECT_THAT(refusal(kSource + "nodes { type { element: I32 } operands: 4000000000 reshape {} }"),
              HasSubstr("operand 4000000000"));
  EXPECT_THAT(refusal(kSource + "nodes { type { element: I32 } operands: [0, 0] reshape {} }"),
              HasSubstr("2 operands"));
  EXPECT_THAT(refusal("nodes { type { element: I32 } concat {} }"), HasSubstr("0 operands"));
  EXPECT_THAT(
      refusal(kSource + "nodes { type { element: F32 shape: [6] } operands: 0 reshape {} }"),
      HasSubstr("makes f32 from i32"));
}

TEST(RecipeCheck, Types) {
  auto splat = [](const std::string &type) {
    return "nodes { type { element: F32 " + type + " } splat {} }";
  };
  EXPECT_THAT(refusal(splat("shape: [-1]")), HasSubstr("negative"));
  EXPECT_THAT(refusal(splat("shape: [4294967296, 4294967296]")), HasSubstr("larger than"));
  EXPECT_THAT(refusal(splat("shape: [4611686018427387904]")), HasSubstr("larger than"));
  EXPECT_THAT(refusal(splat("shape: [4, 4] layout { n: 4 }")), HasSubstr("impossible layout"));
  EXPECT_THAT(refusal(splat("shape: [4, 4] layout { n: 65536 k: 65536 }")),
              HasSubstr("impossible layout"));
  EXPECT_THAT(refusal(splat("shape: [4, 4] layout { n: 2 k: 2 }")), HasSubstr("only pack"));
  EXPECT_THAT(refusal(splat("shape: [4] layout { n: 2 k: 2 }")), HasSubstr("not a matrix"));
  // Fits, but not with its padding.
  EXPECT_THAT(refusal(splat("shape: [9223372036854775807, 1] layout { n: 2 k: 2 }")),
              HasSubstr("larger than"));
  EXPECT_THAT(
      refusal(kSource + "nodes { type { element: I32 shape: [2, 3] } operands: 0 pack {} }"),
      HasSubstr("without a layout"));
  std::string packed = kSource + "nodes { type { element: I32 shape: [2, 3] layout { n: 2 k: 2 } } "
                                 "operands: 0 pack {} }";
  EXPECT_THAT(refusal(packed + "nodes { type { element: I32 shape: [6] } operands: 1 reshape {} }"),
              HasSubstr("packing comes last"));
}

TEST(RecipeCheck, Slices) {
  auto slice = [](const std::string &sizes, const std::string &offset,
                  const std::string &sizesAgain, const std::string &strides) {
    return kSource + "nodes { type { element: I32 shape: " + sizes +
           " } operands: 0 slice { offsets { " + offset +
           " } offsets { constant: 0 } sizes: " + sizesAgain + " strides: " + strides + " } }";
  };
  EXPECT_THAT(refusal(slice("[2, 3]", "constant: 1", "[2, 3]", "[1, 1]")), HasSubstr("do not fit"));
  EXPECT_THAT(refusal(slice("[1, 3]", "constant: -1", "[1, 3]", "[1, 1]")),
              HasSubstr("do not fit"));
  EXPECT_THAT(refusal(slice("[0, 3]", "constant: 3", "[0, 3]", "[1, 1]")), HasSubstr("do not fit"));
  EXPECT_THAT(refusal(slice("[2, 3]", "constant: 0", "[2, 3]", "[2, 1]")), HasSubstr("do not fit"));
  EXPECT_THAT(refusal(slice("[2, 3]", "constant: 0", "[2, 3]", "[9223372036854775807, 1]")),
              HasSubstr("do not fit"));
  EXPECT_THAT(refusal(slice("[1, 3]", "constant: 9223372036854775807", "[1, 3]", "[1, 1]")),
              HasSubstr("do not fit"));
  EXPECT_THAT(refusal(slice("[2, 3]", "constant: 0", "[2, 3]", "[0, 1]")),
              HasSubstr("not positive"));
  EXPECT_THAT(refusal(slice("[2, 3]", "constant: 0", "[2, 2]", "[1, 1]")), HasSubstr("differ"));
  EXPECT_THAT(refusal(slice("[2, 3]", "constant: 0", "[2]", "[1, 1]")), HasSubstr("for rank 2"));
  EXPECT_THAT(refusal(slice("[1, 3]", "symbol: 'tp'", "[1, 3]", "[1, 1]")),
              HasSubstr("'tp' has no value"));
  EXPECT_THAT(refusal(slice("[1, 3]", "", "[1, 3]", "[1, 1]")), HasSubstr("empty"));
}

TEST(RecipeCheck, ConcatTransposeReshapePad) {
  auto node = [](const std::string &shape, const std::string &rest) {
    return kSource + "nodes { type { element: I32 shape: " + shape + " } " + rest + " }";
  };
  EXPECT_THAT(refusal(node("[4, 3]", "operands: [0, 0] concat { axis: 2 }")), HasSubstr("axis 2"));
  EXPECT_THAT(refusal(node("[5, 3]", "operands: [0, 0] concat { axis: 0 }")), HasSubstr("have 4"));
  EXPECT_THAT(refusal(node("[4, 2]", "operands: [0, 0] concat { axis: 0 }")),
              HasSubstr("operand 0"));
  EXPECT_THAT(refusal(node("[2, 2]", "operands: 0 transpose { permutation: [0, 0] }")),
              HasSubstr("not a permutation"));
  EXPECT_THAT(refusal(node("[3, 2]", "operands: 0 transpose { permutation: [1, 2] }")),
              HasSubstr("not a permutation"));
  EXPECT_THAT(refusal(node("[3, 2]", "operands: 0 transpose { permutation: [1] }")),
              HasSubstr("permutes 1 axes"));
  EXPECT_THAT(refusal(node("[2, 3]", "operands: 0 transpose { permutation: [1, 0] }")),
              HasSubstr("from i32 [2, 3]"));
  EXPECT_THAT(refusal(node("[5]", "operands: 0 reshape {}")), HasSubstr("number of elements"));
  EXPECT_THAT(refusal(node("[3, 3]", "operands: 0 pad { low: [0, 0] high: [0, 0] }")),
              HasSubstr("do not make"));
  EXPECT_THAT(refusal(node("[1, 3]", "operands: 0 pad { low: [-1, 0] high: [0, 0] }")),
              HasSubstr("do not make"));
  EXPECT_THAT(refusal(node("[2, 3]", "operands: 0 pad { low: [0] high: [0, 0] }")),
              HasSubstr("1 low"));
  EXPECT_THAT(refusal(node("[3, 2]", "operands: 0 cast {}")), HasSubstr("not the same shape"));
}

TEST(RecipeCheck, AllProblemsAtOnce) {
  EXPECT_THAT(refusal(kSource +
                      "nodes { type { element: I32 shape: [5] } operands: 0 reshape {} }"
                      "nodes { type { element: I32 shape: [7] } operands: 0 reshape {} }"),
              AllOf(HasSubstr("2 problems"), HasSubstr("node 1"), HasSubstr("node 2")));
}

TEST(RecipeCheck, Depth) {
  std::string deep = kSource;
  for (int i = 0; i < 100; ++i)
    deep +=
        "nodes { type { element: I32 shape: [2, 3] } operands: " + std::to_string(i) + " cast {} }";
  EXPECT_THAT(refusal(deep), HasSubstr("deeper than 64"));
}

TEST(RecipeCheck, SourceDiffersFromItsType) {
  EXPECT_THAT(refusal("nodes { type { element: I32 shape: [3, 2] } source { name: 'w' } }"),
              AllOf(HasSubstr("'w'"), HasSubstr("i32 [2, 3]"), HasSubstr("i32 [3, 2]")));
  EXPECT_THAT(refusal("nodes { type { element: F32 shape: [2, 3] } source { name: 'w' } }"),
              AllOf(HasSubstr("i32 [2, 3]"), HasSubstr("f32 [2, 3]")));
  EXPECT_THAT(refusal("nodes { type { element: I32 shape: [2, 3] } source { name: '{x}' } }"),
              HasSubstr("'x' has no value"));
}

TEST(RecipeNames, Instantiate) {
  EXPECT_EQ(instantiate("model.layers.{layer}.x", {{"layer", 7}}).value(), "model.layers.7.x");
  EXPECT_EQ(instantiate("{a}{b}{a}", {{"a", 1}, {"b", -2}}).value(), "1-21");
  EXPECT_EQ(instantiate("plain", {}).value(), "plain");
  EXPECT_EQ(instantiate("", {}).value(), "");
  EXPECT_THAT(message(instantiate("l.{layer}.{expert}", {{"layer", 7}}).status()),
              AllOf(HasSubstr("'l.{layer}.{expert}'"), HasSubstr("'expert' has no value")));
  EXPECT_THAT(message(instantiate("l.{layer}", {{"layer", 7}, {"expert", 3}}).status()),
              HasSubstr("'expert' = 3 is not used"));
  EXPECT_EQ(instantiate("l", {{"layer", 7}}, Unused::Allow).value(), "l");
  for (const char *bad : {"{", "}", "{}", "a{b", "a}b", "{a{b}}", "{a}}"})
    EXPECT_THAT(message(instantiate(bad, {{"a", 1}, {"b", 1}}).status()), HasSubstr("braces"))
        << bad;
  EXPECT_THAT(placeholders("x.{b}.{a}.{b}").value(), ElementsAre("b", "a"));
}

TEST(RecipeExpr, Arithmetic) {
  auto binary = [](const std::string &kind, int64_t a, int64_t b) {
    schema::Expr expr;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "binary { kind: " + kind + " lhs { constant: " + std::to_string(a) +
            " } rhs { constant: " + std::to_string(b) + " } }",
        &expr));
    return evaluateExpr(expr, {});
  };
  EXPECT_EQ(binary("ADD", 2, 3).value(), 5);
  EXPECT_EQ(binary("SUB", 2, 3).value(), -1);
  EXPECT_EQ(binary("MUL", -2, 3).value(), -6);
  EXPECT_EQ(binary("MIN", -2, 3).value(), -2);
  EXPECT_EQ(binary("MAX", -2, 3).value(), 3);
  for (int64_t a = -7; a <= 7; ++a) {
    for (int64_t b : {-3, -2, -1, 1, 2, 3}) {
      EXPECT_EQ(binary("FLOORDIV", a, b).value(), std::floor(double(a) / double(b)));
      EXPECT_EQ(binary("CEILDIV", a, b).value(), std::ceil(double(a) / double(b)));
      EXPECT_EQ(binary("MOD", a, b).value(), a - b * int64_t(std::floor(double(a) / double(b))));
    }
  }
  for (const char *kind : {"FLOORDIV", "CEILDIV", "MOD"}) {
    EXPECT_THAT(message(binary(kind, 1, 0).status()), HasSubstr("by zero"));
    EXPECT_THAT(message(binary(kind, INT64_MIN, -1).status()), HasSubstr("overflows"));
  }
  EXPECT_THAT(message(binary("ADD", INT64_MAX, 1).status()), HasSubstr("overflows"));
  EXPECT_THAT(message(binary("SUB", INT64_MIN, 1).status()), HasSubstr("overflows"));
  EXPECT_THAT(message(binary("MUL", INT64_MIN, -1).status()), HasSubstr("overflows"));
  schema::Expr deep;
  schema::Expr *inner = &deep;
  for (int i = 0; i < 1000; ++i)
    inner = inner->mutable_binary()->mutable_lhs();
  EXPECT_THAT(message(evaluateExpr(deep, {}).status()), HasSubstr("deeper"));
}

} // namespace
} // namespace adapt::weights
