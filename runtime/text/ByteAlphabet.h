// The alphabet of byte-level BPE: each byte is written as one printable character (GPT-2,
// `bytes_to_unicode` of github.com/openai/gpt-2, src/encoder.py).
#pragma once
#include <string>
#include <string_view>

namespace adapt::rt {

/// The character of a byte, as UTF-8.
const std::string &byteCharacter(unsigned char byte);

/// `bytes` written in the alphabet.
std::string toByteAlphabet(std::string_view bytes);

/// The bytes that a token of valid UTF-8 stands for. A token with a character outside of the
/// alphabet (an added token) stands for its own text, as in the decoder of Hugging Face tokenizers.
std::string fromByteAlphabet(std::string_view token);

} // namespace adapt::rt
