// Small checkpoints written by a test.
#pragma once

#include "support/TestFiles.h"
#include "llvm/Support/JSON.h"
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace adapt::test {

struct TestTensor {
  std::string dtype = "F32";
  std::vector<int64_t> shape;
  int fill = 0;            ///< every byte
  bool isCounting = false; ///< of F32: element i is i

  uint64_t bytes() const {
    uint64_t count = dtype == "F32" || dtype == "I32" ? 4
                     : dtype == "F64"                 ? 8
                     : dtype == "F8_E4M3"             ? 1
                                                      : 2;
    for (int64_t size : shape)
      count *= size;
    return count;
  }
};

/// The bytes of a safetensors file.
inline std::string makeSafetensors(const std::map<std::string, TestTensor> &tensors) {
  llvm::json::Object header;
  std::string data;
  for (const auto &[name, tensor] : tensors) {
    int64_t begin = data.size();
    data.append(tensor.bytes(), char(tensor.fill));
    for (uint64_t i = 0; tensor.isCounting && i < tensor.bytes() / 4; ++i) {
      float value = i;
      std::memcpy(data.data() + begin + i * 4, &value, 4);
    }
    header[name] =
        llvm::json::Object{{"dtype", tensor.dtype},
                           {"shape", llvm::json::Array(tensor.shape)},
                           {"data_offsets", llvm::json::Array{begin, int64_t(data.size())}}};
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(header));
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + text + data;
}

} // namespace adapt::test
