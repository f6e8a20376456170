// What a loaded tokenizer consists of. Internal to the library.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "text/AddedTokens.h"
#include "text/Bpe.h"
#include "text/PreTokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adapt::rt {

struct TokenizerParts {
  Bpe bpe;
  bool nfc = false;
  AddedTokenMatcher addedRaw;        // sought in the text as it is
  AddedTokenMatcher addedNormalized; // sought in the normalised text between those
  PreTokenizer preTokenizer;
  std::vector<int32_t> prefix, suffix; // of the post-processor, around every text

  // By id, from 0 to the largest; ids without a token are not `known`.
  std::vector<bool> known, special;
  std::vector<std::string> bytes;                // what the token stands for
  absl::flat_hash_map<std::string, int32_t> ids; // by content as in the file

  /// Errors (InvalidArgument): all that the file asks for and we do not do, and all that is wrong.
  static absl::StatusOr<TokenizerParts> load(std::string_view json);
};

} // namespace adapt::rt
