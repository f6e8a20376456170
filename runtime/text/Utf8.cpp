#include "text/Utf8.h"

namespace adapt::rt {

Utf8Step nextUtf8(std::string_view bytes) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  unsigned char lead = byte(0);
  if (lead < 0x80)
    return {Utf8Step::kValid, 1, lead};
  size_t length;
  char32_t value;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07;
  } else {
    return {Utf8Step::kInvalid, 1, 0xFFFD};
  }
  // The second byte's range rules out overlong forms, surrogates and what is above U+10FFFF.
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size())
      return {Utf8Step::kIncomplete, i, 0xFFFD};
    if (byte(i) < low || byte(i) > high)
      return {Utf8Step::kInvalid, i, 0xFFFD};
    value = (value << 6) | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Step::kValid, length, value};
}

size_t lastUtf8(std::string_view text) {
  size_t pos = text.size() - 1;
  while (pos > 0 && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80)
    --pos;
  return pos;
}

size_t findInvalidUtf8(std::string_view bytes) {
  for (size_t pos = 0; pos < bytes.size();) {
    Utf8Step step = nextUtf8(bytes.substr(pos));
    if (step.kind != Utf8Step::kValid)
      return pos;
    pos += step.length;
  }
  return std::string_view::npos;
}

void appendUtf8(std::string &out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t appendLossyUtf8(std::string &out, std::string_view bytes, bool final) {
  size_t pos = 0;
  while (pos < bytes.size()) {
    Utf8Step step = nextUtf8(bytes.substr(pos));
    if (step.kind == Utf8Step::kIncomplete && !final)
      break;
    if (step.kind == Utf8Step::kValid)
      out.append(bytes.substr(pos, step.length));
    else
      appendUtf8(out, 0xFFFD);
    pos += step.length;
  }
  return pos;
}

} // namespace adapt::rt
