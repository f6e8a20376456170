#include "weights/Recipe.h"

#include "weights/RecipeValues.h"

#include "fmt/format.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

namespace adapt::weights {

using schema::RecipeNode;
using schema::TensorType;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static absl::Span<const int64_t> shapeOf(const TensorType &type) {
  return absl::MakeConstSpan(type.shape().data(), size_t(type.shape_size()));
}

std::string typeString(const TensorType &type) {
  std::string text = fmt::format("{} {}", elementName(type.element()), shapeString(shapeOf(type)));
  if (isPacked(type))
    text += fmt::format(" packed {}x{}", type.layout().n(), type.layout().k());
  return text;
}

std::vector<int64_t> physicalShape(const TensorType &type) {
  std::vector<int64_t> shape(type.shape().begin(), type.shape().end());
  if (!isPacked(type))
    return shape;
  int64_t n = type.layout().n(), k = type.layout().k();
  auto blocks = [](int64_t extent, int64_t block) {
    return extent / block + (extent % block != 0);
  };
  return {blocks(shape[0], n), blocks(shape[1], k), n, k};
}

absl::Status checkType(const TensorType &type) {
  constexpr uint32_t kMaxBlock = 1 << 16; // elements of n * k, far above any real layout
  auto invalid = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format("type {} {}", typeString(type), why));
  };
  if (elementBytes(type.element()) == 0)
    return invalid("has no known element type");
  if (isPacked(type)) {
    if (type.shape_size() != 2)
      return invalid("is packed, but not a matrix");
    uint64_t n = type.layout().n(), k = type.layout().k();
    if (n == 0 || k == 0 || n * k > kMaxBlock)
      return invalid(fmt::format(
          "has an impossible layout: n and k must be positive, n*k at most {}", kMaxBlock));
  }
  for (int64_t extent : type.shape())
    if (extent < 0)
      return invalid("has a negative extent");
  std::optional<uint64_t> count = countElements(physicalShape(type));
  std::optional<uint64_t> bytes =
      count ? checkedMul(*count, elementBytes(type.element())) : std::nullopt;
  if (!bytes || *bytes > uint64_t(INT64_MAX))
    return invalid("is larger than 2^63 bytes");
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> storedBytes(const TensorType &type) {
  if (absl::Status status = checkType(type); !status.ok())
    return status;
  return *countElements(physicalShape(type)) * elementBytes(type.element());
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

namespace {

/// Checks the nodes of a recipe one by one, as far as that goes without sources.
class Checker {
public:
  Checker(const schema::Recipe &recipe, const Bindings *bindings)
      : recipe(recipe), bindings(bindings), depths(size_t(recipe.nodes_size()), 0) {}

  absl::Status check() {
    if (recipe.nodes().empty())
      return absl::InvalidArgumentError("recipe has no nodes");
    for (number = 0; number < recipe.nodes_size(); ++number)
      checkNode(recipe.nodes(number));
    return problems.status("recipe");
  }

  /// Offsets of a slice, by the bindings. Only after `check`.
  static std::vector<int64_t> sliceOffsets(const RecipeNode::Slice &slice,
                                           const Bindings &bindings) {
    std::vector<int64_t> offsets;
    for (const schema::Expr &expr : slice.offsets())
      offsets.push_back(evaluateExpr(expr, bindings).value());
    return offsets;
  }

private:
  static std::string_view opName(const RecipeNode &node) {
    switch (node.op_case()) {
    case RecipeNode::kSource:
      return "source";
    case RecipeNode::kSplat:
      return "splat";
    case RecipeNode::kSlice:
      return "slice";
    case RecipeNode::kConcat:
      return "concat";
    case RecipeNode::kTranspose:
      return "transpose";
    case RecipeNode::kReshape:
      return "reshape";
    case RecipeNode::kCast:
      return "cast";
    case RecipeNode::kPad:
      return "pad";
    case RecipeNode::kPack:
      return "pack";
    default:
      return "unknown";
    }
  }

  void problem(const RecipeNode &node, std::string_view why) {
    problems.add(fmt::format("node {} ({}): {}", number, opName(node), why));
  }
  bool require(bool holds, const RecipeNode &node, std::string_view why) {
    if (!holds)
      problem(node, why);
    return holds;
  }

  const TensorType &operandType(const RecipeNode &node, int i = 0) const {
    return recipe.nodes(int(node.operands(i))).type();
  }

  void checkNode(const RecipeNode &node) {
    if (absl::Status status = checkType(node.type()); !status.ok())
      return problem(node, toStd(status.message()));
    RecipeNode::OpCase op = node.op_case();
    if (!require(op != RecipeNode::OP_NOT_SET, node, "has no operation that this version knows"))
      return;
    bool isLeaf = op == RecipeNode::kSource || op == RecipeNode::kSplat;
    bool isConcat = op == RecipeNode::kConcat;
    int operands = node.operands_size();
    if (!require(isConcat ? operands >= 1 : operands == (isLeaf ? 0 : 1), node,
                 fmt::format("has {} operands", operands)))
      return;
    for (uint32_t operand : node.operands()) {
      if (!require(operand < uint32_t(number), node,
                   fmt::format("operand {} is not an earlier node", operand)))
        return;
      if (!require(!isPacked(recipe.nodes(int(operand)).type()), node,
                   "takes a packed operand; packing comes last"))
        return;
      depths[size_t(number)] = std::max(depths[size_t(number)], depths[operand] + 1);
    }
    constexpr unsigned kMaxDepth = 64;
    if (!require(depths[size_t(number)] <= kMaxDepth, node,
                 fmt::format("is deeper than {} operations", kMaxDepth)))
      return;
    if (!require((op == RecipeNode::kPack) == isPacked(node.type()), node,
                 op == RecipeNode::kPack ? "has a type without a layout"
                                         : "has a packed type; only pack makes one"))
      return;
    if (!isLeaf && op != RecipeNode::kCast &&
        !require(operandType(node).element() == node.type().element(), node,
                 fmt::format("makes {} from {}", elementName(node.type().element()),
                             elementName(operandType(node).element()))))
      return;
    checkOp(node);
  }

  void checkOp(const RecipeNode &node) {
    switch (node.op_case()) {
    case RecipeNode::kSource: {
      auto names = placeholders(node.source().name());
      if (!names.ok())
        problem(node, toStd(names.status().message()));
      require(!node.source().name().empty(), node, "has no name");
      return;
    }
    case RecipeNode::kSplat:
      return;
    case RecipeNode::kSlice:
      return checkSlice(node);
    case RecipeNode::kConcat:
      return checkConcat(node);
    case RecipeNode::kTranspose:
      return checkTranspose(node);
    case RecipeNode::kReshape:
      require(countElements(shapeOf(operandType(node))) == countElements(shapeOf(node.type())),
              node,
              fmt::format("makes {} from {}: not the same number of elements",
                          typeString(node.type()), typeString(operandType(node))));
      return;
    case RecipeNode::kCast:
    case RecipeNode::kPack:
      require(shapeOf(operandType(node)) == shapeOf(node.type()), node,
              fmt::format("makes {} from {}: not the same shape", typeString(node.type()),
                          typeString(operandType(node))));
      return;
    case RecipeNode::kPad:
      return checkPad(node);
    case RecipeNode::OP_NOT_SET:
      return;
    }
  }

  void checkSlice(const RecipeNode &node) {
    const RecipeNode::Slice &slice = node.slice();
    const TensorType &from = operandType(node);
    int rank = from.shape_size();
    if (!require(slice.offsets_size() == rank && slice.sizes_size() == rank &&
                     slice.strides_size() == rank,
                 node,
                 fmt::format("has {} offsets, {} sizes and {} strides for rank {}",
                             slice.offsets_size(), slice.sizes_size(), slice.strides_size(), rank)))
      return;
    if (!require(std::equal(slice.sizes().begin(), slice.sizes().end(), node.type().shape().begin(),
                            node.type().shape().end()),
                 node, fmt::format("sizes differ from the type {}", typeString(node.type()))))
      return;
    for (int d = 0; d < rank; ++d) {
      int64_t size = slice.sizes(d), stride = slice.strides(d), extent = from.shape(d);
      if (!require(stride > 0, node,
                   fmt::format("stride {} of dimension {} is not positive", stride, d)))
        continue;
      // Without bindings only constants are known.
      int64_t offset = 0;
      if (bindings || slice.offsets(d).kind_case() == schema::Expr::kConstant) {
        absl::StatusOr<int64_t> value =
            evaluateExpr(slice.offsets(d), bindings ? *bindings : Bindings());
        if (!value.ok()) {
          problem(node, toStd(value.status().message()));
          continue;
        }
        offset = *value;
      }
      int64_t last = 0; // one past the last element taken
      bool fits = offset >= 0 &&
                  !__builtin_mul_overflow(std::max<int64_t>(size, 1) - 1, stride, &last) &&
                  !__builtin_add_overflow(last, offset, &last) &&
                  !__builtin_add_overflow(last, size > 0 ? 1 : 0, &last) && last <= extent;
      require(fits, node,
              fmt::format("{} elements from {} by {} do not fit dimension {} of {}", size, offset,
                          stride, d, typeString(from)));
    }
  }

  void checkConcat(const RecipeNode &node) {
    int axis = int(node.concat().axis());
    const TensorType &type = node.type();
    if (!require(node.concat().axis() < uint32_t(type.shape_size()), node,
                 fmt::format("axis {} of rank {}", node.concat().axis(), type.shape_size())))
      return;
    int64_t sum = 0;
    for (int i = 0; i < node.operands_size(); ++i) {
      TensorType operand = operandType(node, i);
      bool fits = operand.shape_size() == type.shape_size() && operand.element() == type.element();
      for (int d = 0; fits && d < type.shape_size(); ++d)
        fits = d == axis || operand.shape(d) == type.shape(d);
      if (!require(fits, node,
                   fmt::format("operand {} of type {} does not fit {}", i, typeString(operand),
                               typeString(type))))
        return;
      if (__builtin_add_overflow(sum, operand.shape(axis), &sum))
        return problem(node, "the sum of the extents overflows");
    }
    require(
        sum == type.shape(axis), node,
        fmt::format("operands have {} along axis {}, the type {}", sum, axis, typeString(type)));
  }

  void checkTranspose(const RecipeNode &node) {
    const TensorType &from = operandType(node);
    const auto &permutation = node.transpose().permutation();
    int rank = from.shape_size();
    if (!require(permutation.size() == rank && node.type().shape_size() == rank, node,
                 fmt::format("permutes {} axes of rank {} to rank {}", permutation.size(), rank,
                             node.type().shape_size())))
      return;
    std::vector<bool> seen(size_t(rank), false);
    for (int d = 0; d < rank; ++d) {
      uint32_t axis = permutation[d];
      if (!require(axis < uint32_t(rank) && !seen[axis], node, "is not a permutation"))
        return;
      seen[axis] = true;
      if (!require(node.type().shape(d) == from.shape(int(axis)), node,
                   fmt::format("makes {} from {}", typeString(node.type()), typeString(from))))
        return;
    }
  }

  void checkPad(const RecipeNode &node) {
    const RecipeNode::Pad &pad = node.pad();
    const TensorType &from = operandType(node), &type = node.type();
    int rank = from.shape_size();
    if (!require(pad.low_size() == rank && pad.high_size() == rank && type.shape_size() == rank,
                 node,
                 fmt::format("has {} low and {} high pads for rank {}", pad.low_size(),
                             pad.high_size(), rank)))
      return;
    for (int d = 0; d < rank; ++d) {
      int64_t sum = from.shape(d);
      bool fits = pad.low(d) >= 0 && pad.high(d) >= 0 &&
                  !__builtin_add_overflow(sum, pad.low(d), &sum) &&
                  !__builtin_add_overflow(sum, pad.high(d), &sum) && sum == type.shape(d);
      if (!require(fits, node,
                   fmt::format("pads {} and {} of dimension {} do not make {} from {}", pad.low(d),
                               pad.high(d), d, typeString(type), typeString(from))))
        return;
    }
  }

  const schema::Recipe &recipe;
  const Bindings *bindings;
  std::vector<unsigned> depths;
  int number = 0;
  Problems problems;
};

} // namespace

absl::Status checkRecipe(const schema::Recipe &recipe) { return Checker(recipe, nullptr).check(); }

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

static absl::StatusOr<ValueRef> makeSource(const RecipeNode &node, const Bindings &bindings,
                                           const SourceProvider &sources) {
  absl::StatusOr<std::string> name =
      instantiate(node.source().name(), bindings.indices, Unused::Allow);
  if (!name.ok())
    return name.status();
  absl::StatusOr<SourceTensor> tensor = sources.source(*name);
  if (!tensor.ok())
    return tensor.status();
  if (tensor->element != node.type().element() ||
      absl::MakeConstSpan(tensor->shape) != shapeOf(node.type()))
    return absl::InvalidArgumentError(fmt::format(
        "source tensor {} is {} {}, but its recipe was made for {}", quote(*name),
        elementName(tensor->element), shapeString(tensor->shape), typeString(node.type())));
  uint64_t count = tensor->isSplat ? 1 : *countElements(tensor->shape);
  if (tensor->data.size() != count * elementBytes(tensor->element))
    return absl::InternalError(fmt::format("source tensor {} has {} bytes of data instead of {}",
                                           quote(*name), tensor->data.size(),
                                           count * elementBytes(tensor->element)));
  return makeMemory(tensor->element, std::move(tensor->shape), tensor->data.data(),
                    tensor->isSplat);
}

static ValueRef makeOp(const RecipeNode &node, const std::vector<ValueRef> &values,
                       const Bindings &bindings) {
  std::vector<ValueRef> operands;
  for (uint32_t operand : node.operands())
    operands.push_back(values[operand]);
  const TensorType &type = node.type();
  std::vector<int64_t> shape(type.shape().begin(), type.shape().end());
  switch (node.op_case()) {
  case RecipeNode::kSplat:
    return makeSplat(type.element(), std::move(shape), node.splat().value());
  case RecipeNode::kSlice:
    return makeSlice(operands[0], Checker::sliceOffsets(node.slice(), bindings),
                     node.slice().sizes(), node.slice().strides());
  case RecipeNode::kConcat:
    return makeConcat(std::move(operands), node.concat().axis());
  case RecipeNode::kTranspose:
    return makeTranspose(operands[0], node.transpose().permutation());
  case RecipeNode::kReshape:
    return makeReshape(operands[0], std::move(shape));
  case RecipeNode::kCast:
    return makeCast(operands[0], type.element());
  case RecipeNode::kPad:
    return makePad(operands[0], node.pad().low(), node.pad().high(), node.pad().value());
  case RecipeNode::kPack:
    return makePack(operands[0], type.layout().n(), type.layout().k());
  default:
    return nullptr;
  }
}

absl::StatusOr<Evaluation> Evaluation::prepare(const schema::Recipe &recipe,
                                               const Bindings &bindings,
                                               const SourceProvider &sources) {
  if (absl::Status status = Checker(recipe, &bindings).check(); !status.ok())
    return status;
  std::vector<ValueRef> values;
  for (const RecipeNode &node : recipe.nodes()) {
    if (node.op_case() == RecipeNode::kSource) {
      absl::StatusOr<ValueRef> source = makeSource(node, bindings, sources);
      if (!source.ok())
        return source.status();
      values.push_back(std::move(*source));
    } else {
      values.push_back(makeOp(node, values, bindings));
    }
  }
  Evaluation evaluation;
  evaluation.resultType = recipe.nodes(recipe.nodes_size() - 1).type();
  evaluation.resultBytes = storedBytes(evaluation.resultType).value();
  evaluation.result = values.back();
  return evaluation;
}

std::optional<absl::Span<const std::byte>> Evaluation::inPlace() const {
  const std::byte *memory = result->inPlace();
  if (!memory)
    return std::nullopt;
  return absl::MakeConstSpan(memory, resultBytes);
}

/// About 1 MiB, a multiple of the granule, and where that is not much more, of whole rows.
uint64_t Evaluation::pieceElements() const {
  uint64_t target = std::max<uint64_t>(1, (uint64_t(1) << 20) / result->elementBytes);
  uint64_t unit = result->granule();
  if (unit == 1 && !result->shape.empty() && uint64_t(result->shape.back()) * 64 <= 4 * target)
    unit = std::max<uint64_t>(1, uint64_t(result->shape.back()) * 64);
  return std::max<uint64_t>(1, target / unit) * unit;
}

void Evaluation::read(absl::Span<std::byte> out, unsigned threads) const {
  uint64_t total = resultBytes / result->elementBytes, piece = pieceElements();
  uint64_t pieces = total / piece + (total % piece != 0);
  std::atomic<uint64_t> next = 0;
  auto work = [&] {
    for (uint64_t i; (i = next.fetch_add(1)) < pieces;) {
      uint64_t begin = i * piece;
      result->read(begin, std::min(piece, total - begin),
                   out.data() + begin * result->elementBytes);
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (unsigned i = 1; i < std::min<uint64_t>(threads, pieces); ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error &) {
    // No more threads to be had; those that there are do the work.
  }
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

absl::Status Evaluation::stream(const Sink &sink) const {
  uint64_t total = resultBytes / result->elementBytes, piece = pieceElements();
  if (const std::byte *memory = result->inPlace())
    return resultBytes ? sink(absl::MakeConstSpan(memory, resultBytes)) : absl::OkStatus();
  std::vector<std::byte> buffer(std::min(piece, total) * result->elementBytes);
  for (uint64_t begin = 0; begin < total; begin += piece) {
    uint64_t count = std::min(piece, total - begin);
    result->read(begin, count, buffer.data());
    absl::Status status = sink(absl::MakeConstSpan(buffer).first(count * result->elementBytes));
    if (!status.ok())
      return status;
  }
  return absl::OkStatus();
}

absl::Status evaluate(const schema::Recipe &recipe, const Bindings &bindings,
                      const SourceProvider &sources, absl::Span<std::byte> out, unsigned threads) {
  absl::StatusOr<Evaluation> evaluation = Evaluation::prepare(recipe, bindings, sources);
  if (!evaluation.ok())
    return evaluation.status();
  if (evaluation->bytes() != out.size())
    return absl::InvalidArgumentError(fmt::format("recipe makes {} bytes ({}), not {}",
                                                  evaluation->bytes(),
                                                  typeString(evaluation->type()), out.size()));
  evaluation->read(out, threads);
  return absl::OkStatus();
}

} // namespace adapt::weights
