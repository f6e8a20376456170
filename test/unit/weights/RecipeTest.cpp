// Recipes against a naive evaluation, element by element, of what each operation is defined to do.
#include "weights/Recipe.h"

#include "weights/Cast.h"

#include "RecipeTesting.h"

#include <cmath>
#include <numeric>
#include <random>

namespace adapt::weights {
namespace {

using test::MemorySources;
using test::message;
using test::parse;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> run(const schema::Recipe &recipe, const SourceProvider &sources,
                   const Bindings &bindings = {}, unsigned threads = 1) {
  auto evaluation = Evaluation::prepare(recipe, bindings, sources);
  EXPECT_TRUE(evaluation.ok()) << evaluation.status();
  if (!evaluation.ok())
    return {};
  std::vector<T> out(evaluation->bytes() / sizeof(T));
  evaluation->read(absl::MakeSpan(reinterpret_cast<std::byte *>(out.data()), evaluation->bytes()),
                   threads);
  std::vector<std::byte> streamed;
  EXPECT_TRUE(evaluation
                  ->stream([&](absl::Span<const std::byte> piece) {
                    streamed.insert(streamed.end(), piece.begin(), piece.end());
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(streamed.size(), evaluation->bytes());
  EXPECT_TRUE(streamed.empty() || !std::memcmp(streamed.data(), out.data(), streamed.size()));
  return out;
}

const std::string kSource = "nodes { type { element: I32 shape: [2, 3] } source { name: 'w' } } ";

//===----------------------------------------------------------------------===//
// Fixed examples
//===----------------------------------------------------------------------===//

TEST(Recipe, PackPutsRowsSideBySideAndPadsWithZeros) {
  // [3, 5] in blocks of 2 x 2: the third row of blocks of columns is half padding, and so is the
  // second panel.
  MemorySources sources;
  std::vector<uint16_t> values(15);
  std::iota(values.begin(), values.end(), 1);
  sources.add("w", schema::BF16, {3, 5}, values);
  schema::Recipe recipe = parse(
      "nodes { type { element: BF16 shape: [3, 5] } source { name: 'w' } }"
      "nodes { type { element: BF16 shape: [3, 5] layout { n: 2 k: 2 } } operands: 0 pack {} }");
  EXPECT_THAT(run<uint16_t>(recipe, sources),
              ElementsAre(1, 2, 6, 7, 3, 4, 8, 9, 5, 0, 10, 0, // rows 0 and 1
                          11, 12, 0, 0, 13, 14, 0, 0, 15, 0, 0, 0));
  EXPECT_THAT(physicalShape(recipe.nodes(1).type()), ElementsAre(2, 3, 2, 2));
  EXPECT_EQ(storedBytes(recipe.nodes(1).type()).value(), 48u);
}

TEST(Recipe, FusedProjectionOfOneRank) {
  // Rows 2..3 of q and row 1 of k, by the rank's coordinate; one below the other; layer 7.
  MemorySources sources;
  sources.add<float>("layers.7.q", schema::F32, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  sources.add<float>("layers.7.k", schema::F32, {2, 2}, {10, 11, 12, 13});
  schema::Recipe recipe = parse(R"(
      nodes { type { element: F32 shape: [4, 2] } source { name: 'layers.{layer}.q' } }
      nodes { type { element: F32 shape: [2, 2] } operands: 0 slice {
        offsets { binary { kind: MUL lhs { symbol: 'tp' } rhs { constant: 2 } } }
        offsets { constant: 0 } sizes: [2, 2] strides: [1, 1] } }
      nodes { type { element: F32 shape: [2, 2] } source { name: 'layers.{layer}.k' } }
      nodes { type { element: F32 shape: [1, 2] } operands: 2 slice {
        offsets { symbol: 'tp' } offsets { constant: 0 } sizes: [1, 2] strides: [1, 1] } }
      nodes { type { element: F32 shape: [3, 2] } operands: 1 operands: 3 concat { axis: 0 } })");
  EXPECT_THAT(run<float>(recipe, sources, {{{"layer", 7}}, {{"tp", 1}}}),
              ElementsAre(4, 5, 6, 7, 12, 13));
  EXPECT_THAT(run<float>(recipe, sources, {{{"layer", 7}}, {{"tp", 0}}}),
              ElementsAre(0, 1, 2, 3, 10, 11));
  EXPECT_THAT(message(Evaluation::prepare(recipe, {{{"layer", 7}}, {{"tp", 2}}}, sources).status()),
              AllOf(HasSubstr("node 1 (slice)"), HasSubstr("node 3 (slice)")));
  EXPECT_THAT(message(Evaluation::prepare(recipe, {{{"layer", 8}}, {{"tp", 0}}}, sources).status()),
              HasSubstr("layers.8.q"));
}

TEST(Recipe, PlainSourceIsInPlace) {
  MemorySources sources;
  sources.add<int32_t>("w", schema::I32, {2, 3}, {0, 1, 2, 3, 4, 5});
  std::string rows = kSource + "nodes { type { element: I32 shape: [1, 3] } operands: 0 slice { "
                               "offsets { constant: 1 } offsets { constant: 0 } sizes: [1, 3] "
                               "strides: [1, 1] } }";
  for (auto [recipe, offset] : std::initializer_list<std::pair<std::string, int>>{
           {kSource, 0},
           {kSource + "nodes { type { element: I32 shape: [6] } operands: 0 reshape {} }", 0},
           {rows, 12}}) {
    auto evaluation = Evaluation::prepare(parse(recipe), {}, sources);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    ASSERT_TRUE(evaluation->inPlace());
    EXPECT_EQ(evaluation->inPlace()->data(), sources.source("w")->data.data() + offset);
  }
  auto transposed =
      Evaluation::prepare(parse(kSource + "nodes { type { element: I32 shape: [3, 2] } operands: 0 "
                                          "transpose { permutation: [1, 0] } }"),
                          {}, sources);
  EXPECT_FALSE(transposed->inPlace());
}

TEST(Recipe, SplatOfAGiantCostsNothing) {
  // 2^40 elements of which four are read.
  schema::Recipe recipe = parse(
      "nodes { type { element: BF16 shape: [1048576, 1048576] } splat { value: 1.5 } }"
      "nodes { type { element: F32 shape: [1048576, 1048576] } operands: 0 cast {} }"
      "nodes { type { element: F32 shape: [1048576, 1048576] } operands: 1 "
      "transpose { permutation: [1, 0] } }"
      "nodes { type { element: F32 shape: [2, 2] } operands: 2 slice { offsets { constant: 7 } "
      "offsets { constant: 9 } sizes: [2, 2] strides: [1000, 1000] } }");
  EXPECT_THAT(run<float>(recipe, MemorySources()), ElementsAre(1.5f, 1.5f, 1.5f, 1.5f));
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

template <typename From, typename To>
std::vector<To> cast(ElementType from, ElementType to, const std::vector<From> &values) {
  std::vector<To> out(values.size());
  CastFunction convert = castFunction(from, to);
  EXPECT_NE(convert, nullptr);
  convert(reinterpret_cast<const std::byte *>(values.data()),
          reinterpret_cast<std::byte *>(out.data()), values.size());
  return out;
}

TEST(Recipe, CastOfIntegersWraps) {
  // From the fault table, A08.
  EXPECT_THAT((cast<int16_t, int8_t>(schema::I16, schema::I8, {200, -129, 300})),
              ElementsAre(-56, 127, 44));
  EXPECT_THAT((cast<int64_t, uint8_t>(schema::I64, schema::U8, {-1, 256, 255})),
              ElementsAre(255, 0, 255));
  EXPECT_THAT((cast<uint8_t, int64_t>(schema::BOOL, schema::I64, {0, 1, 7})), ElementsAre(0, 1, 1));
  EXPECT_THAT((cast<int8_t, float>(schema::I8, schema::F32, {-128, 127})),
              ElementsAre(-128.0f, 127.0f));
}

TEST(Recipe, CastToBool) {
  EXPECT_THAT((cast<float, uint8_t>(schema::F32, schema::BOOL, {0.3f, -0.0f, NAN})),
              ElementsAre(1, 0, 1));
  EXPECT_THAT((cast<int64_t, uint8_t>(schema::I64, schema::BOOL, {0, 256, -1})),
              ElementsAre(0, 1, 1));
}

TEST(Recipe, CastOfFloatsToIntegersStaysInRange) {
  EXPECT_THAT((cast<float, int8_t>(schema::F32, schema::I8,
                                   {1.9f, -1.9f, 127.9f, 128.0f, 1e30f, -128.9f, -1e30f, NAN})),
              ElementsAre(1, -1, 127, 127, 127, -128, -128, 0));
  EXPECT_THAT((cast<double, int64_t>(schema::F64, schema::I64, {9.3e18, -9.3e18, 1e18})),
              ElementsAre(INT64_MAX, INT64_MIN, INT64_C(1000000000000000000)));
  EXPECT_THAT((cast<double, uint64_t>(schema::F64, schema::U64, {1.9e19, -1.0, 1.8e19})),
              ElementsAre(UINT64_MAX, 0u, UINT64_C(18000000000000000000)));
}

TEST(Recipe, EveryPairOfTypesKeepsSmallIntegers) {
  for (const ElementInfo &from : kElementInfos) {
    for (const ElementInfo &to : kElementInfos) {
      std::byte first[8], second[8], back[8];
      storeElement(1.0, from.element, first);
      CastFunction there = castFunction(from.element, to.element);
      CastFunction f64 = castFunction(to.element, schema::F64);
      ASSERT_TRUE(there && f64);
      there(first, second, 1);
      f64(second, back, 1);
      double value;
      std::memcpy(&value, back, sizeof value);
      EXPECT_EQ(value, 1.0) << from.name << " to " << to.name;
    }
  }
  EXPECT_EQ(castFunction(schema::F32, schema::ELEMENT_TYPE_UNSPECIFIED), nullptr);
}

TEST(Recipe, DoubleCastRoundsTwice) {
  // f32 to bf16 and back is not nothing, and stays where it is when slices and transposes move.
  MemorySources sources;
  sources.add<float>("w", schema::F32, {2, 1}, {1.001f, 2.5f});
  schema::Recipe recipe = parse(
      "nodes { type { element: F32 shape: [2, 1] } source { name: 'w' } }"
      "nodes { type { element: BF16 shape: [2, 1] } operands: 0 cast {} }"
      "nodes { type { element: F32 shape: [2, 1] } operands: 1 cast {} }"
      "nodes { type { element: F32 shape: [1, 2] } operands: 2 transpose { permutation: [1, 0] } }"
      "nodes { type { element: F32 shape: [2] } operands: 3 reshape {} }");
  EXPECT_THAT(run<float>(recipe, sources), ElementsAre(1.0f, 2.5f));
}

//===----------------------------------------------------------------------===//
// Random recipes
//===----------------------------------------------------------------------===//

/// A tensor of exact small numbers.
struct Naive {
  std::vector<int64_t> shape;
  std::vector<double> values;

  size_t number(const std::vector<int64_t> &index) const {
    size_t result = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      result = result * size_t(shape[d]) + size_t(index[d]);
    return result;
  }
};

/// Makes a tensor by asking for each element.
template <typename F> Naive generate(std::vector<int64_t> shape, F element) {
  Naive result{std::move(shape), {}};
  size_t count = 1;
  for (int64_t extent : result.shape)
    count *= size_t(extent);
  std::vector<int64_t> index(result.shape.size(), 0);
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    for (size_t d = result.shape.size(); d-- > 0;) {
      index[d] = int64_t(rest % size_t(result.shape[d]));
      rest /= size_t(result.shape[d]);
    }
    result.values.push_back(element(index));
  }
  return result;
}

class RandomRecipe {
public:
  explicit RandomRecipe(uint64_t seed) : random(seed) {
    int64_t sources = between(1, 3);
    for (int64_t i = 0; i < sources; ++i)
      addSource();
    int64_t steps = between(1, 8);
    for (int64_t i = 0; i < steps; ++i)
      addStep();
  }

  schema::Recipe recipe;
  MemorySources sources;
  std::vector<Naive> values;

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }

private:
  schema::RecipeNode &addNode(Naive value, ElementType element) {
    schema::RecipeNode &node = *recipe.add_nodes();
    node.mutable_type()->set_element(element);
    for (int64_t extent : value.shape)
      node.mutable_type()->add_shape(extent);
    values.push_back(std::move(value));
    return node;
  }

  void addSource() {
    std::vector<int64_t> shape(size_t(between(0, 4)));
    for (int64_t &extent : shape)
      extent = between(0, 9) ? between(1, 7) : 0;
    // Up to 2401 values: f16 holds integers up to 2048.
    int64_t next = 0;
    Naive value = generate(shape, [&](auto &) { return double(next++ % 2048); });
    std::string name = "s" + std::to_string(values.size());
    switch (between(0, 3)) {
    case 0:
      sources.add(name, schema::F32, shape,
                  std::vector<float>(value.values.begin(), value.values.end()));
      addNode(value, schema::F32).mutable_source()->set_name(name);
      break;
    case 1:
      sources.add(name, schema::I16, shape,
                  std::vector<int16_t>(value.values.begin(), value.values.end()));
      addNode(value, schema::I16).mutable_source()->set_name(name);
      break;
    case 2:
      sources.add(name, schema::F64, shape, value.values);
      addNode(value, schema::F64).mutable_source()->set_name(name);
      break;
    default:
      for (double &v : value.values)
        v = 5;
      addNode(value, schema::F16).mutable_splat()->set_value(5);
      break;
    }
  }

  void addStep() {
    uint32_t operand = uint32_t(
        between(std::max<int64_t>(0, int64_t(values.size()) - 2), int64_t(values.size()) - 1));
    const Naive from = values[operand];
    ElementType element = recipe.nodes(int(operand)).type().element();
    size_t rank = from.shape.size();
    switch (between(0, 5)) {
    case 0: { // slice
      std::vector<int64_t> offsets, sizes, strides;
      for (int64_t extent : from.shape) {
        strides.push_back(between(1, 3));
        offsets.push_back(between(0, extent));
        int64_t most = (extent - offsets.back() + strides.back() - 1) / strides.back();
        sizes.push_back(between(0, 3) ? most : between(0, most));
      }
      schema::RecipeNode &node = addNode(generate(sizes,
                                                  [&](auto index) {
                                                    for (size_t d = 0; d < rank; ++d)
                                                      index[d] = offsets[d] + index[d] * strides[d];
                                                    return from.values[from.number(index)];
                                                  }),
                                         element);
      node.add_operands(operand);
      node.mutable_slice();
      for (size_t d = 0; d < rank; ++d) {
        node.mutable_slice()->add_offsets()->set_constant(offsets[d]);
        node.mutable_slice()->add_sizes(sizes[d]);
        node.mutable_slice()->add_strides(strides[d]);
      }
      return;
    }
    case 1: { // concat with itself, or with others of the same form
      if (rank == 0)
        return;
      uint32_t axis = uint32_t(between(0, int64_t(rank) - 1));
      std::vector<uint32_t> parts{operand};
      for (uint32_t i = 0; i < values.size(); ++i) {
        bool fits =
            values[i].shape.size() == rank && recipe.nodes(int(i)).type().element() == element;
        for (size_t d = 0; fits && d < rank; ++d)
          fits = d == axis || values[i].shape[d] == from.shape[d];
        if (fits && between(0, 1))
          parts.push_back(i);
      }
      std::vector<int64_t> shape = from.shape;
      shape[axis] = 0;
      for (uint32_t part : parts)
        shape[axis] += values[part].shape[axis];
      if (shape[axis] > 20)
        return;
      schema::RecipeNode &node =
          addNode(generate(shape,
                           [&](auto index) {
                             size_t part = 0;
                             while (index[axis] >= values[parts[part]].shape[axis])
                               index[axis] -= values[parts[part++]].shape[axis];
                             const Naive &piece = values[parts[part]];
                             return piece.values[piece.number(index)];
                           }),
                  element);
      for (uint32_t part : parts)
        node.add_operands(part);
      node.mutable_concat()->set_axis(axis);
      return;
    }
    case 2: { // transpose
      std::vector<uint32_t> permutation(rank);
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), random);
      std::vector<int64_t> shape;
      for (uint32_t axis : permutation)
        shape.push_back(from.shape[axis]);
      schema::RecipeNode &node = addNode(generate(shape,
                                                  [&](auto &index) {
                                                    std::vector<int64_t> source(rank);
                                                    for (size_t d = 0; d < rank; ++d)
                                                      source[permutation[d]] = index[d];
                                                    return from.values[from.number(source)];
                                                  }),
                                         element);
      node.add_operands(operand);
      node.mutable_transpose();
      for (uint32_t axis : permutation)
        node.mutable_transpose()->add_permutation(axis);
      return;
    }
    case 3: { // reshape: a divisor of each extent moves to a dimension of its own
      std::vector<int64_t> shape;
      bool flatten = between(0, 2) == 0;
      for (int64_t extent : from.shape) {
        int64_t divisor = between(1, 3);
        if (extent % divisor)
          divisor = 1;
        if (shape.size() < 5)
          shape.push_back(divisor);
        else
          divisor = 1;
        shape.push_back(extent / divisor);
      }
      if (flatten)
        shape = {int64_t(from.values.size())};
      schema::RecipeNode &node = addNode({shape, from.values}, element);
      node.add_operands(operand);
      node.mutable_reshape();
      return;
    }
    case 4: { // cast
      static constexpr ElementType kTypes[] = {schema::F32, schema::F16, schema::I16, schema::I64};
      schema::RecipeNode &node = addNode(from, kTypes[between(0, 3)]);
      node.add_operands(operand);
      node.mutable_cast();
      return;
    }
    default: { // pad
      std::vector<int64_t> low, high, shape;
      for (int64_t extent : from.shape) {
        low.push_back(between(0, 1) ? between(0, 2) : 0);
        high.push_back(between(0, 1) ? between(0, 2) : 0);
        shape.push_back(extent + low.back() + high.back());
      }
      schema::RecipeNode &node = addNode(generate(shape,
                                                  [&](auto index) {
                                                    for (size_t d = 0; d < rank; ++d) {
                                                      index[d] -= low[d];
                                                      if (index[d] < 0 || index[d] >= from.shape[d])
                                                        return -3.0;
                                                    }
                                                    return from.values[from.number(index)];
                                                  }),
                                         element);
      node.add_operands(operand);
      node.mutable_pad()->set_value(-3);
      for (size_t d = 0; d < rank; ++d) {
        node.mutable_pad()->add_low(low[d]);
        node.mutable_pad()->add_high(high[d]);
      }
      return;
    }
    }
  }

  std::mt19937_64 random;
};

/// The last node with the element type f64, so that it can be compared.
std::vector<double> asF64(schema::Recipe recipe, const SourceProvider &sources, unsigned threads) {
  schema::TensorType type = recipe.nodes(recipe.nodes_size() - 1).type();
  type.set_element(schema::F64);
  schema::RecipeNode &node = *recipe.add_nodes();
  *node.mutable_type() = type;
  node.add_operands(uint32_t(recipe.nodes_size()) - 2);
  node.mutable_cast();
  return run<double>(recipe, sources, {}, threads);
}

TEST(Recipe, RandomRecipesAgreeWithTheirDefinition) {
  size_t elements = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    RandomRecipe random(seed);
    const Naive &expected = random.values.back();
    ASSERT_TRUE(checkRecipe(random.recipe).ok()) << checkRecipe(random.recipe);
    ASSERT_EQ(asF64(random.recipe, random.sources, 1 + seed % 3), expected.values)
        << "seed " << seed << "\n"
        << random.recipe.DebugString();
    elements += expected.values.size();
  }
  EXPECT_GT(elements, 100'000u);
}

TEST(Recipe, RangesOfARecipeAreItsParts) {
  // Read in slices along the first dimension, from inside a larger recipe.
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomRecipe random(seed);
    const Naive &expected = random.values.back();
    int64_t count = int64_t(expected.values.size());
    int64_t begin = random.between(0, count), end = random.between(begin, count);
    schema::Recipe recipe = random.recipe;
    ElementType element = recipe.nodes(recipe.nodes_size() - 1).type().element();
    schema::RecipeNode &flat = *recipe.add_nodes();
    flat.mutable_type()->set_element(element);
    flat.mutable_type()->add_shape(count);
    flat.add_operands(uint32_t(recipe.nodes_size()) - 2);
    flat.mutable_reshape();
    schema::RecipeNode &part = *recipe.add_nodes();
    part.mutable_type()->set_element(element);
    part.mutable_type()->add_shape(end - begin);
    part.add_operands(uint32_t(recipe.nodes_size()) - 2);
    part.mutable_slice()->add_offsets()->set_constant(begin);
    part.mutable_slice()->add_sizes(end - begin);
    part.mutable_slice()->add_strides(1);
    ASSERT_EQ(asF64(recipe, random.sources, 1),
              std::vector<double>(expected.values.begin() + begin, expected.values.begin() + end))
        << "seed " << seed;
  }
}

TEST(Recipe, PackOfAnythingAgreesWithItsDefinition) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    auto between = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    int64_t rows = between(0, 40), columns = between(0, 1200), n = between(1, 17),
            k = between(1, 9);
    // Rows one after the other from two sources, of which one is transposed.
    int64_t cut = between(0, rows);
    std::vector<float> top(size_t(cut * columns)), bottom(size_t((rows - cut) * columns));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        (r < cut ? top[size_t(r * columns + c)] : bottom[size_t(c * (rows - cut) + r - cut)]) =
            float(r * 2000 + c);
    MemorySources sources;
    sources.add("top", schema::F32, {cut, columns}, top);
    sources.add("bottom", schema::F32, {columns, rows - cut}, bottom);
    auto type = [](int64_t a, int64_t b) {
      return "type { element: F32 shape: [" + std::to_string(a) + ", " + std::to_string(b) + "] ";
    };
    schema::Recipe recipe = parse(
        "nodes { " + type(cut, columns) + "} source { name: 'top' } } nodes { " +
        type(columns, rows - cut) + "} source { name: 'bottom' } } nodes { " +
        type(rows - cut, columns) + "} operands: 1 transpose { permutation: [1, 0] } } nodes { " +
        type(rows, columns) + "} operands: [0, 2] concat { axis: 0 } } nodes { " +
        type(rows, columns) + " layout { n: " + std::to_string(n) + " k: " + std::to_string(k) +
        "} } operands: 3 pack {} }");
    std::vector<float> expected;
    for (int64_t p = 0; p < (rows + n - 1) / n; ++p)
      for (int64_t b = 0; b < (columns + k - 1) / k; ++b)
        for (int64_t r = p * n; r < (p + 1) * n; ++r)
          for (int64_t c = b * k; c < (b + 1) * k; ++c)
            expected.push_back(r < rows && c < columns ? float(r * 2000 + c) : 0.0f);
    ASSERT_EQ(run<float>(recipe, sources, {}, 2), expected)
        << rows << "x" << columns << " in " << n << "x" << k;
  }
}

TEST(Recipe, ManyPiecesAndThreads) {
  // Larger than the pieces that results are read in; transposed and packed.
  constexpr int64_t kRows = 1500, kColumns = 2100;
  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0.0f);
  MemorySources sources;
  sources.add("w", schema::F32, {kRows, kColumns}, values);
  schema::Recipe recipe =
      parse("nodes { type { element: F32 shape: [1500, 2100] } source { name: 'w' } }"
            "nodes { type { element: F32 shape: [2100, 1500] } operands: 0 "
            "transpose { permutation: [1, 0] } }");
  for (unsigned threads : {1, 2, 7}) {
    std::vector<float> result = run<float>(recipe, sources, {}, threads);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kColumns; ++c)
        ASSERT_EQ(result[size_t(c * kRows + r)], float(r * kColumns + c));
  }
}

} // namespace
} // namespace adapt::weights
