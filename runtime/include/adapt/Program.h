// A program.pb that was read and found sound. See runtime/schema/program.proto.
#pragma once
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "adapt/SizeExpr.h"
#include "adapt/Status.h"
#include "program.pb.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace adapt::rt {

/// Bytes of one element; 0 for a type that is unknown or has no whole number of bytes.
uint64_t elementBytes(schema::ElementType element);

/// Fills the placeholders of a parameter's name: "layers.{layer}.qkv" with {layer: 7} gives
/// "layers.7.qkv". `value` gives an index's value. Errors: braces that do not match, unknown
/// indices.
absl::StatusOr<std::string>
fillTemplate(absl::string_view name,
             absl::FunctionRef<std::optional<int64_t>(absl::string_view)> value);

/// The axis of the mesh whose coordinate a symbol holds ("tp" of `tp_rank`); nothing for others.
std::optional<absl::string_view> meshAxis(absl::string_view symbol);

class Program {
public:
  /// Parses and checks everything that can be known without devices and weights: versions, names,
  /// every index, argument counts and types, arena ranges, expressions, no recursion. All problems
  /// are reported at once, in the words of docs/bundle.md.
  static absl::StatusOr<Program> parse(absl::string_view bytes);
  static absl::StatusOr<Program> create(schema::Program proto);

  const schema::Program &get() const { return proto; }

  /// Index in symbols().
  std::optional<uint32_t> findSymbol(absl::string_view name) const;
  absl::StatusOr<const schema::EntryPoint *> findEntry(absl::string_view name) const;

  /// Names of the parameters that the entry point reaches, placeholders filled, in the order of
  /// first use: what a weight loader must provide.
  absl::StatusOr<std::vector<std::string>> params(const schema::EntryPoint &entry) const;

  /// Calls of one program are nested at most so deeply, and expanded to at most so many steps.
  static constexpr int kMaxCallDepth = 64;
  static constexpr uint64_t kMaxFlatSteps = 1u << 22;
  /// Tags of transfers are less than this.
  static constexpr uint32_t kMaxTag = 1u << 14;

private:
  schema::Program proto;
};

/// Checks a program; see Program::parse.
absl::Status validate(const schema::Program &program);

} // namespace adapt::rt
