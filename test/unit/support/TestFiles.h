// Files written by a test, and the diagnostics that reading them makes.
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

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
