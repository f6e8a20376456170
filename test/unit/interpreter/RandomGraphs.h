// Small random modules of the dialect, as text: graphs of one family of operations over weights
// that are split at random, and language models of random heads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace adapt::test {

/// "elementwise", "shape", "linear", "normalization", "gather", "rope", "mixed".
const std::vector<std::string> &getGraphFamilies();

/// A module with one function @main(%x: [T, D], %i: [T] of indices below 3, …). The same seed gives
/// the same text.
std::string makeGraph(const std::string &family, uint64_t seed);

/// A language model of paged attention and gated MLPs in 2 to 4 layers, in the form of an import.
std::string makeLanguageModel(uint64_t seed);

} // namespace adapt::test
