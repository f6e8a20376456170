// Inverse frequencies of rotary embeddings, as transformers computes them from config.json.
#include "adapt/Model/Model.h"
#include "adapt/Support/Expr.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using llvm::Expected;
using llvm::StringRef;
using llvm::json::Object;
using llvm::json::Value;

namespace adapt {
namespace {

llvm::Error makeError(const llvm::Twine &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

/// Which kind a scaling is: "rope_type", or "type" in older files.
Expected<std::string> getKind(const Object &scaling) {
  std::string kind;
  for (StringRef key : {"rope_type", "type"}) {
    const Value *value = scaling.get(key);
    if (!value || value->kind() == Value::Null)
      continue;
    if (!value->getAsString())
      return makeError("rope scaling: " + key + " must be a word, not " + toString(*value));
    std::string named = value->getAsString()->str();
    if (!kind.empty() && kind != named)
      return makeError("rope scaling: rope_type is '" + kind + "' but type is '" + named + "'");
    kind = named;
  }
  return kind.empty() ? "default" : kind;
}

/// The positive number under a key.
Expected<double> getFactor(const Object &scaling, StringRef kind, StringRef key) {
  const Value *value = scaling.get(key);
  if (!value)
    return makeError("rope scaling of kind " + kind + " lacks " + key);
  std::optional<double> number = value->getAsNumber();
  if (!number || !(*number > 0) || !std::isfinite(*number))
    return makeError("rope scaling: " + key + " must be a number above 0, not " + toString(*value));
  return *number;
}

/// The scaling of Llama 3.1: frequencies above one bound stay, below another are divided, and are
/// blended between.
struct Llama3Scaling {
  double factor, lowFactor, highFactor, originalLength;

  double apply(double frequency) const {
    constexpr double kPi = 3.14159265358979323846;
    double wavelength = 2 * kPi / frequency;
    if (wavelength < originalLength / highFactor)
      return frequency;
    if (wavelength > originalLength / lowFactor)
      return frequency / factor;
    double smooth = (originalLength / wavelength - lowFactor) / (highFactor - lowFactor);
    return (1 - smooth) * frequency / factor + smooth * frequency;
  }
};

} // namespace

Expected<std::vector<float>> computeInverseFrequencies(int64_t size, double theta,
                                                       const Value &scaling) {
  if (size < 2 || size % 2 != 0)
    return makeError("rope needs an even number of elements, not " + llvm::Twine(size));
  if (!(theta > 0) || !std::isfinite(theta))
    return makeError("rope needs a theta above 0, not " + toString(Value(theta)));
  Object none;
  const Object *options = scaling.kind() == Value::Null ? &none : scaling.getAsObject();
  if (!options)
    return makeError("rope scaling must be a map, not " + toString(scaling));
  Expected<std::string> kind = getKind(*options);
  if (!kind)
    return kind.takeError();

  llvm::SmallVector<StringRef> keys;
  if (*kind == "linear")
    keys = {"factor"};
  else if (*kind == "llama3")
    keys = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
  else if (*kind != "default")
    return makeError("rope scaling of kind '" + *kind +
                     "' is not supported; supported are default, linear and llama3");
  std::vector<std::string> unknown;
  for (const auto &[key, value] : *options) {
    StringRef name = key;
    bool isWhole = name == "partial_rotary_factor" && value.getAsNumber() == 1.0;
    if (!isWhole && !llvm::is_contained({"rope_type", "type", "rope_theta"}, name) &&
        !llvm::is_contained(keys, name) && value.kind() != Value::Null)
      unknown.push_back(name.str() + " = " + toString(value));
  }
  llvm::sort(unknown);
  if (!unknown.empty())
    return makeError("rope scaling of kind " + *kind + " does not know " +
                     llvm::join(unknown, ", "));
  llvm::SmallVector<double> factors;
  for (StringRef key : keys) {
    Expected<double> factor = getFactor(*options, *kind, key);
    if (!factor)
      return factor.takeError();
    factors.push_back(*factor);
  }
  if (*kind == "llama3" && factors[2] <= factors[1])
    return makeError("rope scaling: high_freq_factor must be above low_freq_factor");

  std::vector<float> result;
  for (int64_t i = 0; i < size; i += 2) {
    double frequency = std::pow(theta, -double(i) / double(size));
    if (*kind == "linear")
      frequency /= factors[0];
    else if (*kind == "llama3")
      frequency = Llama3Scaling{factors[0], factors[1], factors[2], factors[3]}.apply(frequency);
    result.push_back(float(frequency));
  }
  return result;
}

} // namespace adapt
