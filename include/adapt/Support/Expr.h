// The expression language of model families: small expressions over the values of config.json.
//
//   head_dim ?? hidden_size / num_attention_heads
//   layer_types == null or layer_types[layer] == 'full_attention'
//   layer % 2 == 0 ? sliding_window : null
//
// Values are JSON's. Grammar and meaning: docs/families.md.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <memory>
#include <optional>

namespace adapt {

class Expr {
public:
  /// The value of a name; nullopt if there is no such name.
  using Scope = llvm::function_ref<std::optional<llvm::json::Value>(llvm::StringRef)>;
  struct Node;

  /// Errors say what was expected and at which column.
  static llvm::Expected<Expr> parse(llvm::StringRef text);

  /// Errors name the expression and the values that do not fit. Arithmetic is checked for overflow;
  /// `/` of integers must come out even.
  llvm::Expected<llvm::json::Value> evaluate(Scope scope) const;

  llvm::StringRef getText() const { return text; }
  /// The names that it uses.
  void collectNames(llvm::StringSet<> &names) const;

private:
  Expr(std::string text, std::shared_ptr<const Node> root)
      : text(std::move(text)), root(std::move(root)) {}

  std::string text;
  std::shared_ptr<const Node> root;
};

/// A value as messages show it; long ones are cut.
std::string toString(const llvm::json::Value &value);

} // namespace adapt
