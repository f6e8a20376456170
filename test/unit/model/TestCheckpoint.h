// Small checkpoints written by a test, and the diagnostics that reading them makes.
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/JSON.h"
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace adapt::test {

/// A folder that vanishes with the object.
class TempFolder {
public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "adapt-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
  TempFolder(const TempFolder &) = delete;

  void write(const std::string &name, const std::string &text) const {
    std::ofstream(path / name, std::ios::binary) << text;
  }
  std::string str() const { return path.string(); }

  std::filesystem::path path;
};

struct TestTensor {
  std::string dtype = "F32";
  std::vector<int64_t> shape;
  int fill = 0; ///< every byte

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

/// Collects the diagnostics of a context as text, one a line.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning)
            text += "warning: ";
          llvm::raw_string_ostream os(text);
          if (!mlir::isa<mlir::UnknownLoc>(diagnostic.getLocation()))
            os << diagnostic.getLocation() << ": ";
          os << diagnostic.str() << "\n";
        }) {}
  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace adapt::test
