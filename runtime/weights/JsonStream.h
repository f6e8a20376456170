//===- JsonStream.h - JSON read from a file in pieces ---------------------===//
//
// Feeds part of a file to a SAX parser in pieces of fixed size and hashes it on the way, so that
// the memory used is what the handler keeps.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "weights/Support.h"

#include "nlohmann/json.hpp"

#include <iterator>
#include <memory>
#include <string>
#include <xxhash.h>

namespace adapt::weights {

/// XXH3-128 as 32 hex digits.
std::string hexDigest(XXH128_hash_t hash);

/// Bytes [offset, offset + bytes) of an open file, as a sequence of characters.
class JsonStream {
public:
  JsonStream(int fd, uint64_t offset, uint64_t bytes, std::string_view path);
  ~JsonStream();
  JsonStream(const JsonStream &) = delete;
  JsonStream &operator=(const JsonStream &) = delete;

  /// An I/O error met on the way (the parser then sees the text end).
  const absl::Status &status() const { return error; }
  /// Of what was read so far; of all bytes once a parse has succeeded.
  std::string hash() const;
  bool atEnd() const { return current == end; }
  char peek() const { return *current; }
  void advance() {
    if (++current == end)
      refill();
  }

  class Iterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char *;
    using reference = char;
    explicit Iterator(JsonStream *stream = nullptr) : stream(stream) {}
    char operator*() const { return stream->peek(); }
    Iterator &operator++() {
      stream->advance();
      return *this;
    }
    bool operator==(const Iterator &other) const { return exhausted() == other.exhausted(); }
    bool operator!=(const Iterator &other) const { return !(*this == other); }

  private:
    bool exhausted() const { return !stream || stream->atEnd(); }
    JsonStream *stream;
  };

  Iterator begin() { return Iterator(this); }
  Iterator finish() { return Iterator(); }

private:
  void refill();

  int fd;
  uint64_t offset;
  uint64_t remaining;
  std::string path;
  absl::Status error;
  std::unique_ptr<char[]> buffer;
  const char *current = nullptr;
  const char *end = nullptr;
  XXH3_state_t *state;
};

/// A SAX handler that refuses everything, with the reason in `failure`. Handlers override what they
/// expect; returning false stops the parse.
class JsonHandler : public nlohmann::json_sax<nlohmann::json> {
public:
  std::string failure;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(int64_t value) override { return unexpected(std::to_string(value)); }
  bool number_unsigned(uint64_t value) override { return unexpected(std::to_string(value)); }
  bool number_float(double, const std::string &text) override {
    return unexpected(printable(text, 40));
  }
  bool string(std::string &text) override { return unexpected("the string " + quote(text)); }
  bool binary(nlohmann::json::binary_t &) override { return unexpected("binary data"); }
  bool start_object(size_t) override { return unexpected("an object"); }
  bool key(std::string &) override { return unexpected("a key"); }
  bool end_object() override { return unexpected("the end of an object"); }
  bool start_array(size_t) override { return unexpected("an array"); }
  bool end_array() override { return unexpected("the end of an array"); }
  bool parse_error(size_t position, const std::string &token,
                   const nlohmann::detail::exception &error) override;

protected:
  bool fail(std::string why) {
    if (failure.empty())
      failure = std::move(why);
    return false;
  }
  /// Refuses a value at the present place.
  virtual bool unexpected(std::string_view what) = 0;
};

/// Parses the whole stream; the handler's `failure` or the I/O error becomes the status, after
/// `subject`.
absl::Status parseJson(JsonStream &stream, JsonHandler &handler, std::string_view subject);

} // namespace adapt::weights
