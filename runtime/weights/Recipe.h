//===- Recipe.h - Evaluation of weight recipes ----------------------------===//
//
// A recipe (schema/recipe.proto) computes one weight from tensors of a checkpoint: slices, concats,
// transposes, casts, pads and packs them. Conversion, the loader and the interpreter share this
// evaluator.
//
// A recipe is checked whole before anything is read: operands, shapes, types, layouts, ranges, all
// with overflow-checked arithmetic. Then the result can be read in pieces, from several threads;
// the memory used beside the result does not grow with it. (One exception: a transpose of something
// that was concatenated or padded, and then reshaped, keeps that operand in memory if it is at most
// 1 GiB, and is slow if it is larger.)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/Bindings.h"
#include "weights/Sources.h"

#include "recipe.pb.h"

#include <functional>
#include <memory>

namespace adapt::weights {

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

inline bool isPacked(const schema::TensorType &type) {
  return type.layout().n() != 0 || type.layout().k() != 0;
}

/// "bf16 [576, 576] packed 16x2"
std::string typeString(const schema::TensorType &type);

/// Known element type, no negative extent, a byte size below 2^63; a packed type has rank 2.
absl::Status checkType(const schema::TensorType &type);

/// The shape in memory: [ceil(N/n), ceil(K/k), n, k] of a packed type, else the logical shape.
std::vector<int64_t> physicalShape(const schema::TensorType &type);

/// Bytes in memory, the padding of a packed layout included. Errors: as checkType.
absl::StatusOr<uint64_t> storedBytes(const schema::TensorType &type);

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// What can be checked without sources and bindings. All problems at once.
absl::Status checkRecipe(const schema::Recipe &recipe);

class RecipeValue;

/// A recipe, checked and bound to its sources. Must not outlive the source provider.
class Evaluation {
public:
  static absl::StatusOr<Evaluation> prepare(const schema::Recipe &recipe, const Bindings &bindings,
                                            const SourceProvider &sources);

  const schema::TensorType &type() const { return resultType; }
  /// Bytes of the result in memory.
  uint64_t bytes() const { return resultBytes; }

  /// The result where it already lies, if the recipe only names it: row-major, any alignment.
  std::optional<absl::Span<const std::byte>> inPlace() const;

  /// Writes the result into `out`, of exactly `bytes()`.
  void read(absl::Span<std::byte> out, unsigned threads = 1) const;

  /// Hands the result to `sink` in order, in pieces of about 1 MiB, or in one piece if it is in
  /// place. Stops at the sink's error.
  using Sink = std::function<absl::Status(absl::Span<const std::byte>)>;
  absl::Status stream(const Sink &sink) const;

private:
  Evaluation() = default;
  uint64_t pieceElements() const;

  schema::TensorType resultType;
  uint64_t resultBytes = 0;
  std::shared_ptr<const RecipeValue> result;
};

/// Prepares and reads. Errors: as prepare; or `out` has not the result's size.
absl::Status evaluate(const schema::Recipe &recipe, const Bindings &bindings,
                      const SourceProvider &sources, absl::Span<std::byte> out,
                      unsigned threads = 1);

} // namespace adapt::weights
