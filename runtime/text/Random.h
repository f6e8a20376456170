// A counter-based generator: the n-th number needs no numbers before it.
#pragma once
#include <array>
#include <cstdint>

namespace adapt::rt {

/// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
/// 1, 2, 3", SC'11. The same bits everywhere.
inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * counter[0];
    uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

/// Uniform in [0, 1), 53 bits: number `step` of stream `stream` of `seed`.
inline double uniform(uint64_t seed, uint64_t stream, uint64_t step) {
  auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  std::array<uint32_t, 4> bits =
      philox4x32({low(step), high(step), low(stream), high(stream)}, {low(seed), high(seed)});
  return static_cast<double>((uint64_t{bits[1]} << 32 | bits[0]) >> 11) * 0x1p-53;
}

} // namespace adapt::rt
