#include "dialects/Adapt/AdaptDialect.h"
#include <map>

using namespace mlir;
using namespace adapt;

//===----------------------------------------------------------------------===//
// Symbols and sizes
//===----------------------------------------------------------------------===//

AffineExpr adapt::getSymbolExpr(MLIRContext *context, StringRef name) {
  return getAffineSymbolExpr(context->getOrLoadDialect<AdaptDialect>()->internSymbol(name),
                             context);
}

StringRef adapt::getSymbolName(AffineSymbolExpr symbol) {
  return symbol.getContext()->getLoadedDialect<AdaptDialect>()->getSymbolName(symbol.getPosition());
}

SmallVector<AffineExpr> adapt::getDims(RankedTensorType type) {
  if (auto dims = dyn_cast_or_null<DimsAttr>(type.getEncoding()))
    return llvm::to_vector(dims.getExprs());
  SmallVector<AffineExpr> dims;
  for (int64_t size : type.getShape())
    dims.push_back(ShapedType::isDynamic(size) ? AffineExpr()
                                               : getAffineConstantExpr(size, type.getContext()));
  return dims;
}

bool adapt::hasNamedSizes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return !tensor || tensor.hasStaticShape() || isa_and_nonnull<DimsAttr>(tensor.getEncoding());
}

RankedTensorType adapt::getTensorType(ArrayRef<AffineExpr> dims, Type element) {
  SmallVector<int64_t> shape;
  for (AffineExpr dim : dims) {
    auto constant = dyn_cast_or_null<AffineConstantExpr>(dim);
    shape.push_back(constant ? constant.getValue() : ShapedType::kDynamic);
  }
  Attribute encoding;
  if (llvm::is_contained(shape, ShapedType::kDynamic))
    encoding = DimsAttr::get(element.getContext(), dims);
  return RankedTensorType::get(shape, element, encoding);
}

RankedTensorType adapt::withElementType(RankedTensorType type, Type element) {
  return RankedTensorType::get(type.getShape(), element, type.getEncoding());
}

RankedTensorType adapt::withoutEncoding(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

AffineExpr adapt::getNumElements(RankedTensorType type) {
  AffineExpr product = getAffineConstantExpr(1, type.getContext());
  for (AffineExpr dim : getDims(type)) {
    if (!dim)
      return {};
    product = product * dim;
  }
  return canonicalizeSize(product);
}

namespace {
/// A sum of products: coefficients by the product's atoms (names and divisions), as text in order.
struct Polynomial {
  using Product = std::map<std::string, std::pair<AffineExpr, unsigned>>; // atom and power
  struct Term {
    Product product;
    int64_t coefficient;
  };
  std::map<std::string, Term> terms;

  void add(const Product &product, int64_t coefficient) {
    std::string key;
    for (const auto &[name, power] : product)
      key += name + '^' + std::to_string(power.second) + ' ';
    Term &term = terms.try_emplace(key, Term{product, 0}).first->second;
    term.coefficient = llvm::SignExtend64<64>(uint64_t(term.coefficient) + uint64_t(coefficient));
    if (term.coefficient == 0)
      terms.erase(key);
  }
};

// Sums grow with products of sums, and powers with squares of squares, so that those of hostile
// input must end somewhere.
constexpr size_t kMaxTerms = 64;
constexpr unsigned kMaxPower = 32;

std::optional<Polynomial> expandSize(AffineExpr expr) {
  Polynomial result;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    result.add({}, constant.getValue());
    return result;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  bool isAdd = expr.getKind() == AffineExprKind::Add;
  if (!binary || (!isAdd && expr.getKind() != AffineExprKind::Mul)) {
    result.add({{toString(expr), {expr, 1}}}, 1);
    return result;
  }
  std::optional<Polynomial> lhs = expandSize(binary.getLHS()), rhs;
  if (lhs) // What failed is not to be walked as often as it is referred to.
    rhs = expandSize(binary.getRHS());
  if (!lhs || !rhs || lhs->terms.size() * rhs->terms.size() > kMaxTerms)
    return std::nullopt;
  if (isAdd) {
    for (const Polynomial *side : {&*lhs, &*rhs})
      for (const auto &[key, term] : side->terms)
        result.add(term.product, term.coefficient);
    return result;
  }
  for (const auto &[a, x] : lhs->terms)
    for (const auto &[b, y] : rhs->terms) {
      Polynomial::Product product = x.product;
      for (const auto &[name, power] : y.product) {
        auto &entry = product.try_emplace(name, power.first, 0).first->second;
        entry.second += power.second;
        if (entry.second > kMaxPower)
          return std::nullopt;
      }
      int64_t coefficient;
      if (llvm::MulOverflow(x.coefficient, y.coefficient, coefficient))
        return std::nullopt;
      result.add(product, coefficient);
    }
  return result;
}
} // namespace

AffineExpr adapt::canonicalizeSize(AffineExpr expr) {
  if (!expr || isa<AffineConstantExpr, AffineSymbolExpr>(expr))
    return expr;
  std::optional<Polynomial> polynomial = expandSize(expr);
  if (!polynomial)
    return expr;
  // Products by name first, the constant last.
  AffineExpr sum;
  int64_t constant = 0;
  for (const auto &[key, term] : polynomial->terms) {
    if (term.product.empty()) {
      constant = term.coefficient;
      continue;
    }
    AffineExpr product;
    for (const auto &[name, power] : term.product)
      for (unsigned i = 0; i < power.second; ++i)
        product = product ? product * power.first : power.first;
    product = product * term.coefficient;
    sum = sum ? sum + product : product;
  }
  if (!sum)
    return getAffineConstantExpr(constant, expr.getContext());
  return constant ? sum + constant : sum;
}

bool adapt::areEqualSizes(AffineExpr a, AffineExpr b) {
  return a == b || (a && b && canonicalizeSize(a) == canonicalizeSize(b));
}

AffineExpr adapt::getNumBytes(RankedTensorType type) {
  int64_t bits = type.getElementTypeBitWidth();
  int64_t bytes = bits == 1 ? 1 : (bits + 7) / 8;
  if (auto packed = dyn_cast_or_null<PackedAttr>(type.getEncoding())) {
    int64_t n = llvm::alignTo(type.getDimSize(0), packed.getN());
    int64_t k = llvm::alignTo(type.getDimSize(1), packed.getK());
    return getAffineConstantExpr(n * k * bytes, type.getContext());
  }
  AffineExpr elements = getNumElements(type);
  return elements ? elements * bytes : elements;
}

void adapt::collectSymbols(AffineExpr expr, llvm::SetVector<StringRef> &symbols) {
  if (!expr)
    return;
  expr.walk([&](AffineExpr e) {
    if (auto symbol = dyn_cast<AffineSymbolExpr>(e))
      symbols.insert(getSymbolName(symbol));
  });
}

void adapt::collectSymbols(Type type, llvm::SetVector<StringRef> &symbols) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    if (auto dims = dyn_cast_or_null<DimsAttr>(tensor.getEncoding()))
      for (AffineExpr expr : dims.getExprs())
        collectSymbols(expr, symbols);
}

std::optional<int64_t>
adapt::evaluateSize(AffineExpr expr, llvm::function_ref<std::optional<int64_t>(StringRef)> lookup) {
  if (!expr)
    return std::nullopt;
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return lookup(getSymbolName(symbol));
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  std::optional<int64_t> lhs = evaluateSize(binary.getLHS(), lookup);
  std::optional<int64_t> rhs = evaluateSize(binary.getRHS(), lookup);
  if (!lhs || !rhs)
    return std::nullopt;
  int64_t result;
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return llvm::AddOverflow(*lhs, *rhs, result) ? std::nullopt : std::optional(result);
  case AffineExprKind::Mul:
    return llvm::MulOverflow(*lhs, *rhs, result) ? std::nullopt : std::optional(result);
  case AffineExprKind::FloorDiv:
    return *rhs <= 0 ? std::nullopt : std::optional(llvm::divideFloorSigned(*lhs, *rhs));
  case AffineExprKind::CeilDiv:
    return *rhs <= 0 ? std::nullopt : std::optional(llvm::divideCeilSigned(*lhs, *rhs));
  case AffineExprKind::Mod:
    return *rhs <= 0 ? std::nullopt : std::optional(llvm::mod(*lhs, *rhs));
  default:
    return std::nullopt;
  }
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
enum Precedence { kSum = 0, kProduct = 1, kAtom = 2 };

void print(raw_ostream &os, AffineExpr expr, Precedence outer) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    os << constant.getValue();
    return;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    os << getSymbolName(symbol);
    return;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  bool sum = binary.getKind() == AffineExprKind::Add;
  Precedence mine = sum ? kSum : kProduct;
  if (mine < outer)
    os << '(';
  print(os, binary.getLHS(), mine);
  AffineExpr rhs = binary.getRHS();
  if (sum) {
    auto constant = dyn_cast<AffineConstantExpr>(rhs);
    auto product = dyn_cast<AffineBinaryOpExpr>(rhs);
    auto factor = product && product.getKind() == AffineExprKind::Mul
                      ? dyn_cast<AffineConstantExpr>(product.getRHS())
                      : AffineConstantExpr();
    if (constant && constant.getValue() < 0) {
      os << " - " << -constant.getValue();
    } else if (factor && factor.getValue() == -1) {
      os << " - ";
      print(os, product.getLHS(), kProduct);
    } else {
      os << " + ";
      print(os, rhs, kSum);
    }
  } else {
    switch (binary.getKind()) {
    case AffineExprKind::Mul:
      os << " * ";
      break;
    case AffineExprKind::FloorDiv:
      os << " floordiv ";
      break;
    case AffineExprKind::CeilDiv:
      os << " ceildiv ";
      break;
    default:
      os << " mod ";
      break;
    }
    print(os, rhs, kAtom);
  }
  if (mine < outer)
    os << ')';
}

ParseResult parseSum(AsmParser &parser, AffineExpr &result);

ParseResult parseAtom(AsmParser &parser, AffineExpr &result) {
  MLIRContext *context = parser.getContext();
  if (succeeded(parser.parseOptionalLParen()))
    return failure(parseSum(parser, result) || parser.parseRParen());
  int64_t integer;
  OptionalParseResult parsed = parser.parseOptionalInteger(integer);
  if (parsed.has_value()) {
    result = getAffineConstantExpr(integer, context);
    return *parsed;
  }
  StringRef name;
  if (failed(parser.parseOptionalKeyword(&name)))
    return parser.emitError(parser.getCurrentLocation(),
                            "expected a size: an integer, a name or '('");
  result = getSymbolExpr(context, name);
  return success();
}

ParseResult parseProduct(AsmParser &parser, AffineExpr &result) {
  if (parseAtom(parser, result))
    return failure();
  while (true) {
    AffineExpr rhs;
    auto divisor = [&]() -> ParseResult {
      SMLoc loc = parser.getCurrentLocation();
      if (parseAtom(parser, rhs))
        return failure();
      auto constant = dyn_cast<AffineConstantExpr>(rhs);
      if (constant && constant.getValue() <= 0)
        return parser.emitError(loc, "a divisor must be positive");
      return success();
    };
    if (succeeded(parser.parseOptionalStar())) {
      if (parseAtom(parser, rhs))
        return failure();
      result = result * rhs;
    } else if (succeeded(parser.parseOptionalKeyword("floordiv"))) {
      if (divisor())
        return failure();
      result = result.floorDiv(rhs);
    } else if (succeeded(parser.parseOptionalKeyword("ceildiv"))) {
      if (divisor())
        return failure();
      result = result.ceilDiv(rhs);
    } else if (succeeded(parser.parseOptionalKeyword("mod"))) {
      if (divisor())
        return failure();
      result = result % rhs;
    } else {
      return success();
    }
  }
}

ParseResult parseSum(AsmParser &parser, AffineExpr &result) {
  if (parseProduct(parser, result))
    return failure();
  while (true) {
    AffineExpr rhs;
    if (succeeded(parser.parseOptionalPlus())) {
      if (parseProduct(parser, rhs))
        return failure();
      result = result + rhs;
    } else if (succeeded(parser.parseOptionalMinus())) {
      if (parseProduct(parser, rhs))
        return failure();
      result = result - rhs;
    } else {
      return success();
    }
  }
}
} // namespace

void adapt::printSize(raw_ostream &os, AffineExpr expr) {
  if (expr)
    print(os, expr, kSum);
  else
    os << '?';
}

std::string adapt::toString(AffineExpr expr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printSize(os, expr);
  return text;
}

//===----------------------------------------------------------------------===//
// #adapt.dims
//===----------------------------------------------------------------------===//

Attribute DimsAttr::parse(AsmParser &parser, Type) {
  SmallVector<AffineExpr> exprs;
  auto parseOne = [&] { return parseSum(parser, exprs.emplace_back()); };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne) ||
      parser.parseGreater())
    return {};
  return DimsAttr::get(parser.getContext(), exprs);
}

void DimsAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getExprs(), printer,
                        [&](AffineExpr expr) { printSize(printer.getStream(), expr); });
  printer << "]>";
}

LogicalResult DimsAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getExprs().size())
    return emitError() << "#adapt.dims names " << getExprs().size()
                       << " sizes for a tensor of rank " << shape.size();
  for (auto [axis, pair] : llvm::enumerate(llvm::zip_equal(shape, getExprs()))) {
    auto [size, expr] = pair;
    auto constant = dyn_cast<AffineConstantExpr>(expr);
    if (ShapedType::isDynamic(size) && constant)
      return emitError() << "axis " << axis << " is dynamic in the shape but "
                         << constant.getValue() << " in #adapt.dims: write the size into the shape";
    if (!ShapedType::isDynamic(size) && (!constant || constant.getValue() != size))
      return emitError() << "axis " << axis << " is " << size << " in the shape but "
                         << toString(expr) << " in #adapt.dims";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// #adapt.packed
//===----------------------------------------------------------------------===//

LogicalResult PackedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != 2 || ShapedType::isDynamicShape(shape))
    return emitError() << "#adapt.packed stores a matrix of static sizes, not rank "
                       << shape.size();
  if (getN() <= 0 || getK() <= 0)
    return emitError() << "#adapt.packed<" << getN() << ", " << getK()
                       << "> must have positive panel sizes";
  return success();
}
