#include "adapt/Support/Expr.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::json::Value;

namespace adapt {

struct Expr::Node {
  enum class Kind { Literal, Name, List, Index, Member, Unary, Binary, Conditional, Call };
  Kind kind = Kind::Literal;
  Value literal = nullptr;
  std::string name; ///< of a name, member or function; the operator of unary and binary nodes
  llvm::SmallVector<std::shared_ptr<const Node>, 3> operands;
};

namespace {

using Node = Expr::Node;
using NodePtr = std::shared_ptr<const Node>;

template <typename... Args> Error makeError(const char *format, Args &&...args) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), format,
                                 std::forward<Args>(args)...);
}
Error makeError(const std::string &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

constexpr unsigned kMaxDepth = 100;

/// Binary operators by how tightly they bind; all associate to the left but `??`.
unsigned getPrecedence(StringRef op) {
  return llvm::StringSwitch<unsigned>(op)
      .Case("or", 1)
      .Case("and", 2)
      .Cases({"==", "!=", "<", "<=", ">", ">=", "in"}, 4)
      .Case("??", 5)
      .Cases({"+", "-"}, 6)
      .Cases({"*", "/", "//", "%"}, 7)
      .Default(0);
}
constexpr unsigned kNotPrecedence = 3;

class Parser {
public:
  explicit Parser(StringRef text) : text(text) { advance(); }

  Expected<NodePtr> parseAll() {
    auto root = parseConditional();
    if (!root)
      return root.takeError();
    if (!token.empty())
      return unexpected("the end");
    return root;
  }

private:
  void advance() {
    size_t start = text.find_first_not_of(" \t\r\n", position);
    tokenStart = start == StringRef::npos ? text.size() : start;
    StringRef rest = text.drop_front(tokenStart);
    size_t length = 0;
    if (rest.empty()) {
      length = 0;
    } else if (llvm::isDigit(rest[0]) ||
               (rest[0] == '.' && rest.size() > 1 && llvm::isDigit(rest[1]))) {
      while (length < rest.size() && (llvm::isAlnum(rest[length]) || rest[length] == '.' ||
                                      ((rest[length] == '-' || rest[length] == '+') && length > 0 &&
                                       (rest[length - 1] == 'e' || rest[length - 1] == 'E'))))
        ++length;
    } else if (llvm::isAlpha(rest[0]) || rest[0] == '_') {
      while (length < rest.size() && (llvm::isAlnum(rest[length]) || rest[length] == '_'))
        ++length;
    } else if (rest[0] == '\'' || rest[0] == '"') {
      size_t end = rest.find(rest[0], 1);
      length = end == StringRef::npos ? rest.size() : end + 1;
    } else {
      length = 1;
      for (StringRef op : {"??", "==", "!=", "<=", ">=", "//"})
        if (rest.starts_with(op))
          length = 2;
    }
    token = rest.take_front(length);
    position = tokenStart + length;
  }

  bool consume(StringRef expected) {
    if (token != expected)
      return false;
    advance();
    return true;
  }

  Error unexpected(StringRef expected) {
    std::string found = token.empty() ? "the end" : "'" + token.str() + "'";
    return makeError("in '" + text.str() + "' at column " + std::to_string(tokenStart + 1) +
                     ": expected " + expected.str() + ", found " + found);
  }

  static NodePtr make(Node::Kind kind, StringRef name, std::initializer_list<NodePtr> operands) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->name = name.str();
    node->operands.assign(operands.begin(), operands.end());
    return node;
  }
  static NodePtr makeLiteral(Value value) {
    auto node = std::make_shared<Node>();
    node->literal = std::move(value);
    return node;
  }

  Expected<NodePtr> parseConditional() {
    if (++depth > kMaxDepth)
      return makeError("in '%s': nested too deep", text.str().c_str());
    llvm::scope_exit leave([&] { --depth; });
    auto condition = parseBinary(1);
    if (!condition || !consume("?"))
      return condition;
    auto then = parseConditional();
    if (!then)
      return then;
    if (!consume(":"))
      return unexpected("':'");
    auto otherwise = parseConditional();
    if (!otherwise)
      return otherwise;
    return make(Node::Kind::Conditional, "?", {*condition, *then, *otherwise});
  }

  Expected<NodePtr> parseBinary(unsigned least) {
    if (++depth > kMaxDepth)
      return makeError("in '%s': nested too deep", text.str().c_str());
    llvm::scope_exit leave([&] { --depth; });
    if (least <= kNotPrecedence && token == "not") {
      advance();
      auto operand = parseBinary(kNotPrecedence);
      if (!operand)
        return operand;
      return parseRest(make(Node::Kind::Unary, "not", {*operand}), least);
    }
    auto lhs = parseUnary();
    if (!lhs)
      return lhs;
    return parseRest(*lhs, least);
  }

  Expected<NodePtr> parseRest(NodePtr lhs, unsigned least) {
    while (true) {
      std::string op = token.str();
      unsigned precedence = getPrecedence(op);
      if (precedence < least || precedence == 0)
        return lhs;
      advance();
      auto rhs = parseBinary(op == "??" ? precedence : precedence + 1);
      if (!rhs)
        return rhs;
      lhs = make(Node::Kind::Binary, op, {lhs, *rhs});
    }
  }

  Expected<NodePtr> parseUnary() {
    if (++depth > kMaxDepth)
      return makeError("in '%s': nested too deep", text.str().c_str());
    llvm::scope_exit leave([&] { --depth; });
    if (consume("-")) {
      auto operand = parseUnary();
      if (!operand)
        return operand;
      return make(Node::Kind::Unary, "-", {*operand});
    }
    auto value = parsePrimary();
    while (value) {
      if (consume("[")) {
        auto index = parseConditional();
        if (!index)
          return index;
        if (!consume("]"))
          return unexpected("']'");
        value = make(Node::Kind::Index, "", {*value, *index});
      } else if (consume(".")) {
        if (!isName(token))
          return unexpected("a name after '.'");
        value = make(Node::Kind::Member, token, {*value});
        advance();
      } else {
        return value;
      }
    }
    return value;
  }

  static bool isName(StringRef token) {
    return !token.empty() && (llvm::isAlpha(token[0]) || token[0] == '_') &&
           !llvm::is_contained({"and", "or", "not", "in", "true", "false", "null"}, token);
  }

  Expected<NodePtr> parsePrimary() {
    if (consume("(")) {
      auto inner = parseConditional();
      if (inner && !consume(")"))
        return unexpected("')'");
      return inner;
    }
    if (consume("["))
      return parseOperands(Node::Kind::List, "", "]");
    if (consume("true"))
      return makeLiteral(true);
    if (consume("false"))
      return makeLiteral(false);
    if (consume("null"))
      return makeLiteral(nullptr);
    if (token.starts_with("'") || token.starts_with("\"")) {
      if (token.size() < 2 || token.back() != token.front())
        return unexpected("a closing quote");
      Value value(token.drop_front().drop_back().str());
      advance();
      return makeLiteral(std::move(value));
    }
    if (!token.empty() && (llvm::isDigit(token[0]) || token[0] == '.')) {
      int64_t integer;
      double real;
      if (!token.getAsInteger(10, integer)) {
        advance();
        return makeLiteral(integer);
      }
      if (token.find_first_of(".eE") == StringRef::npos || token.getAsDouble(real))
        return unexpected("a number");
      advance();
      return makeLiteral(real);
    }
    if (!isName(token))
      return unexpected("a value");
    std::string name = token.str();
    advance();
    if (consume("("))
      return parseOperands(Node::Kind::Call, name, ")");
    return make(Node::Kind::Name, name, {});
  }

  Expected<NodePtr> parseOperands(Node::Kind kind, StringRef name, StringRef close) {
    if (kind == Node::Kind::Call && !llvm::is_contained({"min", "max", "len"}, name))
      return makeError("in '" + text.str() + "': there is no function '" + name.str() +
                       "'; there are min, max and len");
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->name = name.str();
    if (consume(close))
      return node;
    do {
      auto operand = parseConditional();
      if (!operand)
        return operand;
      node->operands.push_back(*operand);
    } while (consume(","));
    if (!consume(close))
      return unexpected("',' or '" + close.str() + "'");
    return node;
  }

  StringRef text;
  size_t position = 0;
  size_t tokenStart = 0;
  StringRef token;
  unsigned depth = 0;
};

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

bool isNumber(const Value &value) { return value.kind() == Value::Number; }

/// Whether two values are equal; numbers compare by value, whatever their form.
bool isEqual(const Value &a, const Value &b) {
  if (isNumber(a) && isNumber(b)) {
    auto x = a.getAsInteger(), y = b.getAsInteger();
    return x && y ? *x == *y : *a.getAsNumber() == *b.getAsNumber();
  }
  return a == b;
}

class Evaluator {
public:
  explicit Evaluator(Expr::Scope scope) : scope(scope) {}

  Expected<Value> evaluate(const Node &node) {
    switch (node.kind) {
    case Node::Kind::Literal:
      return node.literal;
    case Node::Kind::Name: {
      std::optional<Value> value = scope(node.name);
      if (!value)
        return makeError("there is no '" + node.name + "'");
      return std::move(*value);
    }
    case Node::Kind::List: {
      llvm::json::Array items;
      for (const NodePtr &operand : node.operands) {
        auto item = evaluate(*operand);
        if (!item)
          return item;
        items.push_back(std::move(*item));
      }
      return Value(std::move(items));
    }
    case Node::Kind::Index:
    case Node::Kind::Member:
      return evaluateAccess(node);
    case Node::Kind::Unary:
      return evaluateUnary(node);
    case Node::Kind::Binary:
      return evaluateBinary(node);
    case Node::Kind::Conditional: {
      auto condition = evaluateBool(*node.operands[0], "?");
      if (!condition)
        return condition.takeError();
      return evaluate(*node.operands[*condition ? 1 : 2]);
    }
    case Node::Kind::Call:
      return evaluateCall(node);
    }
    return makeError("unknown node");
  }

private:
  Expected<bool> evaluateBool(const Node &node, StringRef op) {
    auto value = evaluate(node);
    if (!value)
      return value.takeError();
    if (auto boolean = value->getAsBoolean())
      return *boolean;
    return makeError("'" + op.str() + "' needs true or false, not " + toString(*value));
  }

  /// What is not there has no parts: an index or member of null is null.
  Expected<Value> evaluateAccess(const Node &node) {
    auto base = evaluate(*node.operands[0]);
    if (!base || base->kind() == Value::Null)
      return base;
    if (node.kind == Node::Kind::Member) {
      const llvm::json::Object *object = base->getAsObject();
      if (!object)
        return makeError("'." + node.name + "' needs a map, not " + toString(*base));
      const Value *member = object->get(node.name);
      return member ? *member : Value(nullptr);
    }
    auto index = evaluate(*node.operands[1]);
    if (!index)
      return index;
    const llvm::json::Array *array = base->getAsArray();
    std::optional<int64_t> position = index->getAsInteger();
    if (!array || !position)
      return makeError("cannot take element " + toString(*index) + " of " + toString(*base));
    if (*position < 0 || uint64_t(*position) >= array->size())
      return makeError("element " + std::to_string(*position) + " of a list of " +
                       std::to_string(array->size()));
    return (*array)[*position];
  }

  Expected<Value> evaluateUnary(const Node &node) {
    if (node.name == "not") {
      auto operand = evaluateBool(*node.operands[0], "not");
      if (!operand)
        return operand.takeError();
      return Value(!*operand);
    }
    auto operand = evaluate(*node.operands[0]);
    if (!operand)
      return operand;
    return arithmetic("-", Value(0), *operand);
  }

  Expected<Value> evaluateBinary(const Node &node) {
    const std::string &op = node.name;
    if (op == "and" || op == "or") {
      auto lhs = evaluateBool(*node.operands[0], op);
      if (!lhs)
        return lhs.takeError();
      if (*lhs == (op == "or"))
        return Value(*lhs);
      auto rhs = evaluateBool(*node.operands[1], op);
      if (!rhs)
        return rhs.takeError();
      return Value(*rhs);
    }
    auto lhs = evaluate(*node.operands[0]);
    if (!lhs)
      return lhs;
    if (op == "??")
      return lhs->kind() == Value::Null ? evaluate(*node.operands[1]) : std::move(lhs);
    auto rhs = evaluate(*node.operands[1]);
    if (!rhs)
      return rhs;
    if (op == "==" || op == "!=")
      return Value(isEqual(*lhs, *rhs) == (op == "=="));
    if (op == "in") {
      const llvm::json::Array *array = rhs->getAsArray();
      if (!array)
        return makeError("'in' needs a list, not " + toString(*rhs));
      return Value(llvm::any_of(*array, [&](const Value &item) { return isEqual(*lhs, item); }));
    }
    if (llvm::is_contained({"<", "<=", ">", ">="}, op)) {
      if (!isNumber(*lhs) || !isNumber(*rhs))
        return mismatch(op, *lhs, *rhs);
      double x = *lhs->getAsNumber(), y = *rhs->getAsNumber();
      return Value(op == "<" ? x < y : op == "<=" ? x <= y : op == ">" ? x > y : x >= y);
    }
    return arithmetic(op, *lhs, *rhs);
  }

  static Error mismatch(StringRef op, const Value &lhs, const Value &rhs) {
    return makeError("'" + op.str() + "' needs numbers, not " + toString(lhs) + " and " +
                     toString(rhs));
  }

  static Expected<Value> arithmetic(StringRef op, const Value &lhs, const Value &rhs) {
    if (!isNumber(lhs) || !isNumber(rhs))
      return mismatch(op, lhs, rhs);
    auto x = lhs.getAsInteger(), y = rhs.getAsInteger();
    auto shown = [&] { return toString(lhs) + " " + op.str() + " " + toString(rhs); };
    if (op.front() == '/' || op == "%")
      if (*rhs.getAsNumber() == 0)
        return makeError("division by zero: " + shown());
    if (!x || !y) {
      double a = *lhs.getAsNumber(), b = *rhs.getAsNumber();
      double result = op == "+"    ? a + b
                      : op == "-"  ? a - b
                      : op == "*"  ? a * b
                      : op == "/"  ? a / b
                      : op == "//" ? std::floor(a / b)
                                   : a - b * std::floor(a / b);
      if (!std::isfinite(result))
        return makeError(shown() + " is not finite");
      return Value(result);
    }
    int64_t result = 0;
    bool overflow = false;
    if (op == "+") {
      overflow = llvm::AddOverflow(*x, *y, result);
    } else if (op == "-") {
      overflow = llvm::SubOverflow(*x, *y, result);
    } else if (op == "*") {
      overflow = llvm::MulOverflow(*x, *y, result);
    } else if (*y == -1) {
      overflow = op != "%" && llvm::SubOverflow(int64_t(0), *x, result);
    } else if (op == "/") {
      if (*x % *y != 0)
        return makeError(shown() + " is not a whole number");
      result = *x / *y;
    } else {
      int64_t quotient = llvm::divideFloorSigned(*x, *y);
      result = op == "//" ? quotient : *x - quotient * *y;
    }
    if (overflow)
      return makeError(shown() + " is too large");
    return Value(result);
  }

  Expected<Value> evaluateCall(const Node &node) {
    llvm::SmallVector<Value> operands;
    for (const NodePtr &operand : node.operands) {
      auto value = evaluate(*operand);
      if (!value)
        return value;
      operands.push_back(std::move(*value));
    }
    if (node.name == "len") {
      if (operands.size() != 1 || !operands[0].getAsArray())
        return makeError("'len' needs one list");
      return Value(int64_t(operands[0].getAsArray()->size()));
    }
    if (operands.empty() || !llvm::all_of(operands, isNumber))
      return makeError("'" + node.name + "' needs numbers");
    const Value *best = &operands[0];
    for (const Value &value : operands)
      if (node.name == "min" ? *value.getAsNumber() < *best->getAsNumber()
                             : *value.getAsNumber() > *best->getAsNumber())
        best = &value;
    return *best;
  }

  Expr::Scope scope;
};

void collect(const Node &node, llvm::StringSet<> &names) {
  if (node.kind == Node::Kind::Name)
    names.insert(node.name);
  for (const NodePtr &operand : node.operands)
    collect(*operand, names);
}

} // namespace

Expected<Expr> Expr::parse(StringRef text) {
  if (text.size() > 4096)
    return makeError("an expression of more than 4096 characters");
  auto root = Parser(text).parseAll();
  if (!root)
    return root.takeError();
  return Expr(text.str(), std::move(*root));
}

Expected<Value> Expr::evaluate(Scope scope) const {
  auto value = Evaluator(scope).evaluate(*root);
  if (!value)
    return makeError("in '" + text + "': " + llvm::toString(value.takeError()));
  return value;
}

void Expr::collectNames(llvm::StringSet<> &names) const { collect(*root, names); }

std::string toString(const Value &value) {
  constexpr size_t kMaxShown = 120;
  std::string text;
  llvm::raw_string_ostream(text) << value;
  if (text.size() > kMaxShown) {
    text.resize(kMaxShown);
    text += "…";
  }
  return text;
}

} // namespace adapt
