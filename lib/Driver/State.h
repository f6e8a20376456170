// What a compilation holds between its phases.
#pragma once

#include "adapt/Bundle/BundleWriter.h"
#include "adapt/CodeGen/KernelGenerator.h"
#include "adapt/Driver/Compiler.h"
#include "adapt/Model/Model.h"
#include "adapt/Target/Target.h"
#include "mlir/IR/MLIRContext.h"
#include "weights/Checkpoint.h"

namespace adapt {

struct Compiler::State {
  State();

  /// Target, generator, and the input as far as it is not the importer's business.
  Outcome prepare(const CompileOptions &options);
  /// The generator that the target's file names.
  llvm::Expected<std::unique_ptr<KernelGenerator>> createGenerator(const CompileOptions &options,
                                                                   const std::string &cacheDir);
  /// The module as bytecode, for the bundle's ir/.
  void keepBytecode(Phase phase);
  /// The reports, after which the bundle gets its name.
  Outcome writeReports(const CompileOptions &options, const Report &report);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<Target> target;
  std::unique_ptr<KernelGenerator> generator;
  std::shared_ptr<weights::SourceProvider> sources; ///< of weights; null: a config alone
  std::shared_ptr<weights::Checkpoint> checkpoint;  ///< the same, if it is safetensors files
  std::optional<Model> model;                       ///< unset with compileFrom
  std::map<Phase, std::string> bytecode;

  std::optional<BundleWriter> bundle;
  llvm::json::Object manifest;
};

/// Emits a status as an error without a place; returns Outcome::Refused.
Outcome refuse(mlir::MLIRContext &context, const llvm::Twine &message);

/// Whether the module is a graph's, by its attribute adapt.model; else a language model's.
bool isGraph(mlir::ModuleOp module);

} // namespace adapt
