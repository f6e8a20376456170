#include "text/ByteAlphabet.h"
#include "text/Utf8.h"

#include <array>
#include <cstdint>

namespace adapt::rt {
namespace {

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int16_t, 512> bytes; // of a character, or -1

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 256; // bytes that do not print are numbered from here
    for (unsigned byte = 0; byte < 256; ++byte) {
      bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      char32_t c = prints ? byte : next++;
      appendUtf8(characters[byte], c);
      bytes[c] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet &alphabet() {
  static const Alphabet instance;
  return instance;
}

} // namespace

const std::string &byteCharacter(unsigned char byte) { return alphabet().characters[byte]; }

std::string toByteAlphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char byte : bytes)
    out += byteCharacter(static_cast<unsigned char>(byte));
  return out;
}

std::string fromByteAlphabet(std::string_view token) {
  const Alphabet &table = alphabet();
  std::string out;
  for (size_t pos = 0; pos < token.size();) {
    Utf8Step step = nextUtf8(token.substr(pos));
    if (step.value >= table.bytes.size() || table.bytes[step.value] < 0)
      return std::string(token);
    out += static_cast<char>(table.bytes[step.value]);
    pos += step.length;
  }
  return out;
}

} // namespace adapt::rt
