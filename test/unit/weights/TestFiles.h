// Temporary directories and safetensors files, made byte by byte.
#pragma once

#include "absl/status/status.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace adapt::weights::test {

/// A fresh directory for each test, gone after it.
class TempDirTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "adapt-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::string pathOf(const std::string &name) const { return (directory / name).string(); }

  std::string write(const std::string &name, const std::string &bytes) const {
    std::ofstream(pathOf(name), std::ios::binary) << bytes;
    return pathOf(name);
  }

  std::filesystem::path directory;
};

inline std::string littleEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i)
    bytes[i] = char(value >> (8 * i));
  return bytes;
}

/// A whole file of this header and data.
inline std::string safetensors(const std::string &header, const std::string &data = "") {
  return littleEndian(header.size()) + header + data;
}

template <typename T> std::string bytesOf(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(T));
}

inline std::string message(const absl::Status &status) { return std::string(status.message()); }

} // namespace adapt::weights::test
