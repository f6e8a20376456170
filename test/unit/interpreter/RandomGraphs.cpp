#include "RandomGraphs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>
#include <random>

using namespace adapt::test;
using llvm::formatv;

namespace {
/// -1 stands for T.
using Shape = std::vector<int64_t>;

struct Value {
  std::string name;
  Shape shape;
};

std::string toType(const Shape &shape, const char *element = "f32") {
  std::string text = "tensor<", dims;
  bool isSymbolic = false;
  for (int64_t size : shape) {
    text += size < 0 ? "?x" : std::to_string(size) + "x";
    dims += (dims.empty() ? "" : ", ") + (size < 0 ? std::string("T") : std::to_string(size));
    isSymbolic |= size < 0;
  }
  return text + element + (isSymbolic ? ", #adapt.dims<[" + dims + "]>>" : ">");
}

std::string toList(const std::vector<int64_t> &numbers) {
  std::vector<std::string> texts;
  for (int64_t number : numbers)
    texts.push_back(std::to_string(number));
  return "[" + llvm::join(texts, ", ") + "]";
}

class Generator {
public:
  explicit Generator(uint64_t seed) : random(seed) {}

  int64_t below(int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random);
  }
  /// Sizes of which few are divided by 2, 3 or 4.
  int64_t size() { return pick<int64_t>({2, 3, 4, 5, 6, 7, 8, 9, 12}); }
  template <typename T> T pick(const std::vector<T> &choices) {
    return choices[below(choices.size())];
  }

  std::string text;

  std::string add(const std::string &line, const Shape &shape) {
    std::string name = "%v" + std::to_string(number++);
    text += "    " + name + " = " + line + "\n";
    values.push_back({name, shape});
    return name;
  }

  /// A weight, split along a random axis or not at all.
  std::string param(const Shape &shape) {
    std::string name = "w" + std::to_string(number), shard;
    if (int64_t axis = below(shape.size() + 1); axis < int64_t(shape.size()))
      shard = formatv(" {{adapt.shard = #adapt.shard<axis = {0}>}", axis);
    return param(name, shape, shard);
  }

  std::string param(const std::string &name, const Shape &shape, const std::string &attributes) {
    std::string value = "%w" + std::to_string(number++);
    text +=
        formatv("    {0} = adapt.param \"{1}\" : {2} {{\n      %0 = adapt.source \"{1}\" : {2}\n"
                "      adapt.yield %0 : {2}\n    }{3}\n",
                value, name, toType(shape), attributes)
            .str();
    return value;
  }

  /// Along an axis where a value of any shape can be a weight's: the shape's axis `axis`.
  std::string broadcastParam(const Shape &shape, int64_t axis) {
    std::string weight = param({shape[axis]});
    return add(formatv("adapt.broadcast {0} dims = [{1}] : {2} -> {3}", weight, axis,
                       toType({shape[axis]}), toType(shape)),
               shape);
  }

  Value last() { return values.back(); }
  Value any() { return values[below(values.size())]; }
  /// A value of at least so many axes; the last one that has.
  Value ofRank(size_t rank) {
    for (const Value &value : llvm::reverse(values))
      if (value.shape.size() == rank)
        return value;
    return values.front();
  }

  void step(const std::string &family) {
    std::string chosen = family;
    if (family == "mixed")
      chosen = pick<std::string>({"elementwise", "shape", "linear", "normalization", "gather"});
    if (chosen == "elementwise")
      elementwise();
    else if (chosen == "shape")
      shape();
    else if (chosen == "linear")
      linear();
    else if (chosen == "normalization")
      normalization();
    else if (chosen == "gather")
      gather();
    else
      rope();
  }

  std::mt19937_64 random;
  std::vector<Value> values;
  int number = 0;

private:
  void elementwise() {
    Value x = any();
    std::string type = toType(x.shape);
    switch (below(5)) {
    case 0:
    case 1:
      add(formatv("adapt.{0} {1} : {2}",
                  pick<std::string>({"neg", "tanh", "sigmoid", "abs", "sin", "erf", "cos"}), x.name,
                  type),
          x.shape);
      return;
    case 2: {
      // With another of its shape.
      std::string other = x.name;
      for (const Value &value : values)
        if (value.shape == x.shape && below(2))
          other = value.name;
      add(formatv("adapt.{0} {1}, {2} : {3}",
                  pick<std::string>({"add", "sub", "mul", "maximum", "minimum"}), x.name, other,
                  type),
          x.shape);
      return;
    }
    case 3: {
      // With a weight along one of its axes of known size.
      std::vector<int64_t> axes;
      for (auto [axis, size] : llvm::enumerate(x.shape))
        if (size > 0)
          axes.push_back(axis);
      if (axes.empty())
        return;
      std::string weight = broadcastParam(x.shape, pick(axes));
      add(formatv("adapt.{0} {1}, {2} : {3}", pick<std::string>({"add", "mul"}), x.name, weight,
                  type),
          x.shape);
      return;
    }
    default:
      add(formatv("adapt.gated_activation silu {0}, {1} : {2}", x.name, x.name, type), x.shape);
      return;
    }
  }

  void linear() {
    Value x = last();
    int64_t k = x.shape.back();
    if (k < 0 || x.shape.empty() || below(4) == 0)
      x = ofRank(2), k = x.shape.back();
    if (k < 0)
      return shape();
    if (x.shape.size() == 3 && below(2) == 0) {
      // [b, m, k] times its transpose.
      Shape turned = {x.shape[0], x.shape[2], x.shape[1]},
            out = {x.shape[0], x.shape[1], x.shape[1]};
      std::string transposed = add(formatv("adapt.transpose {0} [0, 2, 1] : {1} -> {2}", x.name,
                                           toType(x.shape), toType(turned)),
                                   turned);
      add(formatv("adapt.batch_matmul {0}, {1} : {2}, {3} -> {4}", x.name, transposed,
                  toType(x.shape), toType(turned), toType(out)),
          out);
      return;
    }
    if (x.shape.size() == 3 && x.shape[1] > 0 && below(2) == 0) {
      // [T, C, x] as a picture of one axis.
      int64_t m = size();
      std::string weight = param({m, x.shape[1], 1});
      Shape out = {x.shape[0], m, x.shape[2]};
      add(formatv(
              "adapt.conv {0}, {1} strides = [1] dilations = [1] pads = [0, 0] groups = 1 : {2}, "
              "{3} -> {4}",
              x.name, weight, toType(x.shape), toType({m, x.shape[1], 1}), toType(out)),
          out);
      return;
    }
    int64_t n = size();
    std::string weight = param({n, k});
    Shape out = x.shape;
    out.back() = n;
    add(formatv("adapt.matmul {0}, {1} : {2}, {3} -> {4}", x.name, weight, toType(x.shape),
                toType({n, k}), toType(out)),
        out);
    if (below(2))
      add(formatv("adapt.add {0}, {1} : {2}", last().name, broadcastParam(out, out.size() - 1),
                  toType(out)),
          out);
  }

  void shape() {
    Value x = below(3) ? last() : any();
    size_t rank = x.shape.size();
    std::string type = toType(x.shape);
    switch (below(6)) {
    case 0: { // Cuts an axis in two.
      for (size_t axis = 0; axis < rank; ++axis)
        for (int64_t part : {2, 3, 5})
          if (x.shape[axis] > part && x.shape[axis] % part == 0) {
            Shape out = x.shape;
            out[axis] /= part;
            out.insert(out.begin() + axis + below(2), part);
            if (out.size() <= 4)
              add(formatv("adapt.reshape {0} : {1} -> {2}", x.name, type, toType(out)), out);
            return;
          }
      return;
    }
    case 1: { // Makes one of the last two.
      if (rank < 2 || x.shape[rank - 1] < 0 || x.shape[rank - 2] < 0)
        return;
      Shape out(x.shape.begin(), x.shape.end() - 1);
      out.back() *= x.shape.back();
      add(formatv("adapt.reshape {0} : {1} -> {2}", x.name, type, toType(out)), out);
      return;
    }
    case 2: {
      std::vector<int64_t> permutation(rank);
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), random);
      Shape out;
      for (int64_t axis : permutation)
        out.push_back(x.shape[axis]);
      add(formatv("adapt.transpose {0} {1} : {2} -> {3}", x.name, toList(permutation), type,
                  toType(out)),
          out);
      return;
    }
    case 3: {
      int64_t axis = below(rank);
      if (x.shape[axis] < 3)
        return;
      Shape out = x.shape, offsets(rank, 0), strides(rank, 1);
      offsets[axis] = below(2);
      out[axis] = 1 + below(x.shape[axis] - offsets[axis]);
      add(formatv("adapt.slice {0} offsets = {1} strides = {2} : {3} -> {4}", x.name,
                  toList(offsets), toList(strides), type, toType(out)),
          out);
      return;
    }
    case 4: {
      int64_t axis = below(rank);
      if (x.shape[axis] < 0)
        return;
      Shape out = x.shape;
      out[axis] *= 2;
      add(formatv("adapt.concat axis {0} ({1}, {1}) : ({2}, {2}) -> {3}", axis, x.name, type,
                  toType(out)),
          out);
      return;
    }
    default: {
      if (rank < 2)
        return;
      int64_t axis = below(rank);
      Shape out = x.shape;
      out.erase(out.begin() + axis);
      add(formatv("adapt.reduce {0} {1} axes = [{2}] : {3} -> {4}",
                  pick<std::string>({"sum", "mean", "max", "min"}), x.name, axis, type,
                  toType(out)),
          out);
      return;
    }
    }
  }

  void normalization() {
    Value x = last();
    int64_t width = x.shape.back();
    std::string type = toType(x.shape);
    int64_t kind = below(3);
    if (width < 0 || kind == 0) {
      add(formatv("adapt.softmax {0} axis = {1} : {2}", x.name, below(x.shape.size()), type),
          x.shape);
      return;
    }
    std::string weight = param("n" + std::to_string(number), {width}, "");
    if (kind == 1)
      add(formatv("adapt.rms_norm {0}, {1} epsilon = 1.0e-3 : {2}, {3}", x.name, weight, type,
                  toType({width})),
          x.shape);
    else
      add(formatv("adapt.layer_norm {0}, {1}, {1} epsilon = 1.0e-3 : {2}, {3}, {3}", x.name, weight,
                  type, toType({width})),
          x.shape);
    linear();
  }

  void gather() {
    int64_t axis = below(2);
    Shape table = {3 + below(6), size()}, out = {-1, table[1]};
    if (axis == 1)
      table = {size(), 3 + below(6)}, out = {table[0], -1};
    std::string weight = param(table);
    add(formatv("adapt.gather {0}[%i] {{axis = {1} : i64} : {2}, tensor<?xi32, #adapt.dims<[T]>> "
                "-> {3}",
                weight, axis, toType(table), toType(out)),
        out);
  }

  /// Of heads that a split matmul makes.
  void rope() {
    Value x = ofRank(2);
    if (x.shape.back() < 0 || x.shape.front() >= 0)
      return;
    int64_t heads = 1 + below(5), half = 1 + below(3), width = heads * 2 * half, k = x.shape.back();
    std::vector<std::string> frequencies;
    for (int64_t i = 0; i < half; ++i)
      frequencies.push_back(formatv("{0:e6}", 1.0 / double(i + 1)));
    Shape out = {-1, width}, split = {-1, heads, 2 * half};
    std::string table = "%t" + std::to_string(number);
    text +=
        formatv(
            "    {0}:2 = adapt.rope_table %i inverse_frequencies = dense<[{1}]> : tensor<{2}xf32> "
            ": tensor<?xi32, #adapt.dims<[T]>> -> {3}\n",
            table, llvm::join(frequencies, ", "), half, toType({-1, half}))
            .str();
    std::string weight = param({width, k});
    std::string h = add(formatv("adapt.matmul {0}, {1} : {2}, {3} -> {4}", x.name, weight,
                                toType(x.shape), toType({width, k}), toType(out)),
                        out);
    std::string s =
        add(formatv("adapt.reshape {0} : {1} -> {2}", h, toType(out), toType(split)), split);
    std::string r = add(formatv("adapt.rope {0}, {1}#0, {1}#1 : {2}, {3}", s, table, toType(split),
                                toType({-1, half})),
                        split);
    add(formatv("adapt.reshape {0} : {1} -> {2}", r, toType(split), toType(out)), out);
    linear();
  }
};
} // namespace

const std::vector<std::string> &adapt::test::getGraphFamilies() {
  static const std::vector<std::string> families = {
      "elementwise", "shape", "linear", "normalization", "gather", "rope", "mixed"};
  return families;
}

std::string adapt::test::makeGraph(const std::string &family, uint64_t seed) {
  Generator g(seed);
  int64_t width = g.size();
  g.values.push_back({"%x", {-1, width}});
  // Something that is split, to begin with.
  int64_t n = g.size();
  std::string weight = g.param({n, width});
  g.add(formatv("adapt.matmul %x, {0} : {1}, {2} -> {3}", weight, toType({-1, width}),
                toType({n, width}), toType({-1, n})),
        {-1, n});
  for (int64_t steps = 2 + g.below(5); steps > 0; --steps)
    g.step(family);
  std::vector<std::string> names, types;
  for (size_t i = g.values.size(), first = i > 3 ? i - 3 : 1; i-- > first;) {
    names.push_back(g.values[i].name);
    types.push_back(toType(g.values[i].shape));
  }
  return formatv(
      "module {{\n  func.func @main(%x: {0}, %i: tensor<?xi32, #adapt.dims<[T]>>) -> ({1}) "
      "attributes {{adapt.symbols = [\"T\"]} {{\n{2}    return {3} : {1}\n  }\n}\n",
      toType({-1, width}), llvm::join(types, ", "), g.text, llvm::join(names, ", "));
}

namespace {
// $D hidden, $V vocabulary, $K key/value heads of $E, $Q query heads, $G of them for each of the
// others, $H half of $E, $A = $Q * $E, $B = $K * $E, $M of the MLP.
constexpr const char *kLayer = R"(
  func.func private @layer(%x: $hidden {adapt.name = "hidden"}, %cosines: $rope {adapt.name = "cosines"},
      %sines: $rope {adapt.name = "sines"}, %starts: $starts {adapt.name = "seq_starts"},
      %lens: $lens {adapt.name = "kv_lens"}, %table: $table {adapt.name = "block_table"},
      %kv: $kv {adapt.name = "kv"}) -> ($hidden {adapt.name = "hidden"}, $kv)
      attributes {adapt.symbols = ["T", "S", "B"], adapt.indices = ["layer"]} {
    %wn = adapt.param "layers.{layer}.norm" : tensor<$Dxf32> {
      %0 = adapt.source "{layer}.norm" : tensor<$Dxf32>
      adapt.yield %0 : tensor<$Dxf32>
    }
    %wq = adapt.param "layers.{layer}.q" : tensor<$Ax$Dxf32> {
      %0 = adapt.source "{layer}.q" : tensor<$Ax$Dxf32>
      adapt.yield %0 : tensor<$Ax$Dxf32>
    } {adapt.shard = #adapt.shard<axis = 0, heads = $K, queries = $G>}
    %bq = adapt.param "layers.{layer}.q.bias" : tensor<$Axf32> {
      %0 = adapt.source "{layer}.q.bias" : tensor<$Axf32>
      adapt.yield %0 : tensor<$Axf32>
    } {adapt.shard = #adapt.shard<axis = 0, heads = $K, queries = $G>}
    %wk = adapt.param "layers.{layer}.k" : tensor<$Bx$Dxf32> {
      %0 = adapt.source "{layer}.k" : tensor<$Bx$Dxf32>
      adapt.yield %0 : tensor<$Bx$Dxf32>
    } {adapt.shard = #adapt.shard<axis = 0, heads = $K>}
    %wv = adapt.param "layers.{layer}.v" : tensor<$Bx$Dxf32> {
      %0 = adapt.source "{layer}.v" : tensor<$Bx$Dxf32>
      adapt.yield %0 : tensor<$Bx$Dxf32>
    } {adapt.shard = #adapt.shard<axis = 0, heads = $K>}
    %wo = adapt.param "layers.{layer}.o" : tensor<$Dx$Axf32> {
      %0 = adapt.source "{layer}.o" : tensor<$Dx$Axf32>
      adapt.yield %0 : tensor<$Dx$Axf32>
    } {adapt.shard = #adapt.shard<axis = 1, heads = $K, queries = $G>}
    %wg = adapt.param "layers.{layer}.gate" : tensor<$Mx$Dxf32> {
      %0 = adapt.source "{layer}.gate" : tensor<$Mx$Dxf32>
      adapt.yield %0 : tensor<$Mx$Dxf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %wu = adapt.param "layers.{layer}.up" : tensor<$Mx$Dxf32> {
      %0 = adapt.source "{layer}.up" : tensor<$Mx$Dxf32>
      adapt.yield %0 : tensor<$Mx$Dxf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %wd = adapt.param "layers.{layer}.down" : tensor<$Dx$Mxf32> {
      %0 = adapt.source "{layer}.down" : tensor<$Dx$Mxf32>
      adapt.yield %0 : tensor<$Dx$Mxf32>
    } {adapt.shard = #adapt.shard<axis = 1>}
    %n = adapt.rms_norm %x, %wn epsilon = 1.0e-6 : $hidden, tensor<$Dxf32>
    %q0 = adapt.matmul %n, %wq : $hidden, tensor<$Ax$Dxf32> -> tensor<?x$Axf32, #adapt.dims<[T, $A]>>
    %qb = adapt.broadcast %bq dims = [1] : tensor<$Axf32> -> tensor<?x$Axf32, #adapt.dims<[T, $A]>>
    %q1 = adapt.add %q0, %qb : tensor<?x$Axf32, #adapt.dims<[T, $A]>>
    %q2 = adapt.reshape %q1 : tensor<?x$Axf32, #adapt.dims<[T, $A]>> -> $queries
    %k1 = adapt.matmul %n, %wk : $hidden, tensor<$Bx$Dxf32> -> tensor<?x$Bxf32, #adapt.dims<[T, $B]>>
    %k2 = adapt.reshape %k1 : tensor<?x$Bxf32, #adapt.dims<[T, $B]>> -> $keys
    %v1 = adapt.matmul %n, %wv : $hidden, tensor<$Bx$Dxf32> -> tensor<?x$Bxf32, #adapt.dims<[T, $B]>>
    %v2 = adapt.reshape %v1 : tensor<?x$Bxf32, #adapt.dims<[T, $B]>> -> $keys
    %q3 = adapt.rope %q2, %cosines, %sines : $queries, $rope
    %k3 = adapt.rope %k2, %cosines, %sines : $keys, $rope
    %a, %kv1 = adapt.paged_attention %q3, %k3, %v2, %kv at %starts, %lens, %table scale = 5.0e-01
        : ($queries, $keys, $keys, $kv, $starts, $lens, $table) -> ($queries, $kv)
    %a1 = adapt.reshape %a : $queries -> tensor<?x$Axf32, #adapt.dims<[T, $A]>>
    %o = adapt.matmul %a1, %wo : tensor<?x$Axf32, #adapt.dims<[T, $A]>>, tensor<$Dx$Axf32> -> $hidden
    %h = adapt.add %x, %o : $hidden
    %g0 = adapt.matmul %h, %wg : $hidden, tensor<$Mx$Dxf32> -> tensor<?x$Mxf32, #adapt.dims<[T, $M]>>
    %u0 = adapt.matmul %h, %wu : $hidden, tensor<$Mx$Dxf32> -> tensor<?x$Mxf32, #adapt.dims<[T, $M]>>
    %g = adapt.gated_activation silu %g0, %u0 : tensor<?x$Mxf32, #adapt.dims<[T, $M]>>
    %d = adapt.matmul %g, %wd : tensor<?x$Mxf32, #adapt.dims<[T, $M]>>, tensor<$Dx$Mxf32> -> $hidden
    %y = adapt.add %h, %d : $hidden
    return %y, %kv1 : $hidden, $kv
  }
}
)";

constexpr const char *kMain = R"(module {
  func.func @main(%ids: $tokens {adapt.name = "token_ids"}, %positions: $tokens {adapt.name = "positions"},
      %starts: $starts {adapt.name = "seq_starts"}, %lens: $lens {adapt.name = "kv_lens"},
      %table: $table {adapt.name = "block_table"}, %rows: tensor<?xi32, #adapt.dims<[L]>> {adapt.name = "logit_rows"}$states)
      -> (tensor<?x$Vxf32, #adapt.dims<[L, $V]>> {adapt.name = "logits"}$kvs)
      attributes {adapt.symbols = ["T", "S", "B", "L"]} {
    %cosines, %sines = adapt.rope_table %positions inverse_frequencies = dense<0.25> : tensor<$Hxf32> : $tokens -> $rope
    %embed = adapt.param "embed" : tensor<$Vx$Dxf32> {
      %0 = adapt.source "embed" : tensor<$Vx$Dxf32>
      adapt.yield %0 : tensor<$Vx$Dxf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %x0 = adapt.gather %embed[%ids] : tensor<$Vx$Dxf32>, $tokens -> $hidden
$calls    %picked = adapt.gather %x$N[%rows] : $hidden, tensor<?xi32, #adapt.dims<[L]>> -> tensor<?x$Dxf32, #adapt.dims<[L, $D]>>
    %head = adapt.param "head" : tensor<$Vx$Dxf32> {
      %0 = adapt.source "head" : tensor<$Vx$Dxf32>
      adapt.yield %0 : tensor<$Vx$Dxf32>
    } {adapt.shard = #adapt.shard<axis = 0>}
    %logits = adapt.matmul %picked, %head : tensor<?x$Dxf32, #adapt.dims<[L, $D]>>, tensor<$Vx$Dxf32> -> tensor<?x$Vxf32, #adapt.dims<[L, $V]>>
    return %logits$outs : tensor<?x$Vxf32, #adapt.dims<[L, $V]>>$kvs
  }
)";
} // namespace

std::string adapt::test::makeLanguageModel(uint64_t seed) {
  Generator g(seed);
  int64_t layers = 2 + g.below(3), heads = 1 + g.below(5), group = 1 + g.below(4),
          half = 1 + g.below(3);
  int64_t hidden = g.size(), mlp = g.size() + g.below(4), vocabulary = 5 + g.below(9);
  std::string states, kvs, outs, calls;
  for (int64_t i = 0; i < layers; ++i) {
    states += formatv(", %kv{0}: $kv {{adapt.name = \"kv.{0}\"}", i);
    kvs += ", $kv";
    outs += formatv(", %o{0}", i);
    calls += formatv(
        "    %x{1}, %o{0} = adapt.call @layer(%x{0}, %cosines, %sines, %starts, %lens, %table, "
        "%kv{0}) {{layer = {0}} : ($hidden, $rope, $rope, $starts, $lens, $table, $kv) -> "
        "($hidden, $kv)\n",
        i, i + 1);
  }
  // In order: what is put in may hold what comes later.
  std::pair<std::string, std::string> replacements[] = {
      {"$states", states},
      {"$kvs", kvs},
      {"$outs", outs},
      {"$calls", calls},
      {"$tokens", "tensor<?xi32, #adapt.dims<[T]>>"},
      {"$hidden", "tensor<?x$Dxf32, #adapt.dims<[T, $D]>>"},
      {"$rope", "tensor<?x$Hxf32, #adapt.dims<[T, $H]>>"},
      {"$starts", "tensor<?xi32, #adapt.dims<[S + 1]>>"},
      {"$lens", "tensor<?xi32, #adapt.dims<[S]>>"},
      {"$table", "tensor<?x?xi32, #adapt.dims<[S, B]>>"},
      {"$queries", "tensor<?x$Qx$Exf32, #adapt.dims<[T, $Q, $E]>>"},
      {"$keys", "tensor<?x$Kx$Exf32, #adapt.dims<[T, $K, $E]>>"},
      {"$kv", "!adapt.paged<tensor<$Kx$Exf32>, tensor<$Kx$Exf32>>"},
      {"$D", std::to_string(hidden)},
      {"$V", std::to_string(vocabulary)},
      {"$K", std::to_string(heads)},
      {"$E", std::to_string(2 * half)},
      {"$H", std::to_string(half)},
      {"$Q", std::to_string(heads * group)},
      {"$G", std::to_string(group)},
      {"$A", std::to_string(heads * group * 2 * half)},
      {"$B", std::to_string(heads * 2 * half)},
      {"$M", std::to_string(mlp)},
      {"$N", std::to_string(layers)}};
  std::string text = std::string(kMain) + kLayer;
  for (const auto &[from, to] : replacements)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}
