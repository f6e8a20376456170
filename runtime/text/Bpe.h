// Byte pair encoding of one word.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adapt::rt {

/// Filled by the loader, then immutable.
struct Bpe {
  struct Merge {
    uint32_t rank; // the lowest is applied first
    int32_t id;    // of the merged token
  };

  /// The token of each byte, or -1.
  std::array<int32_t, 256> byteTokens;
  absl::flat_hash_map<uint64_t, Merge> merges; // by pairKey
  /// Tokens that are whole words, for `ignore_merges`; empty without it. Keyed by bytes.
  absl::flat_hash_map<std::string, int32_t> words;
  /// For bytes without a token; -1: they are dropped, as Hugging Face tokenizers does.
  int32_t unknown = -1;
  bool fuseUnknown = false;  // one unknown token for neighbours
  std::vector<bool> special; // by id

  static uint64_t pairKey(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  /// What encode() works with; kept to save allocations.
  struct Scratch {
    struct Symbol {
      int32_t id;         // -1: merged into the one before it
      int32_t prev, next; // or -1
    };
    struct Candidate {
      uint32_t rank;
      int32_t position;
      int32_t id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  /// Appends the tokens of `word` (bytes, not their alphabet, and fewer than 2^31); O(n log n).
  /// Returns how many bytes have no token and were dropped.
  ///
  /// With `plain` true, no token marked as special comes out unless it is the token of a single
  /// byte: merges and words that lead to others are passed over.
  size_t encode(std::string_view word, bool plain, Scratch &scratch,
                std::vector<int32_t> &ids) const;
};

/// The tokens of words seen before.
class WordCache {
public:
  struct Entry {
    std::vector<int32_t> ids;
    size_t dropped;
  };
  /// The tokens of `word`, from the cache or computed into it (or, for long words, into `scratch`).
  const Entry &get(const Bpe &bpe, std::string_view word, bool plain);

private:
  static constexpr size_t kMaxEntries = 1 << 15;
  static constexpr size_t kMaxWord = 128;             // bytes
  absl::flat_hash_map<std::string, Entry> entries[2]; // by `plain`
  Entry uncached;
  Bpe::Scratch scratch;
};

} // namespace adapt::rt
