// The program of the dialect and the program of the schema say the same.
#include "dialects/Program/Export.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "program.pb.h"
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace adapt;

namespace {
constexpr const char *kProgram = R"(
program.module arena 512 {
  program.symbol "T" from 1 to 16
  program.kernel @norm sizes ["s0"] {
    program.variant "norm_1" when [#program.guard<"s0" from 1 to 1>] grid<[1]> scratch 64
    program.variant "norm" grid<[s0 ceildiv 4, 2]> scratch 0
  }
  program.state @kv.0.k : tensor<2x4xbf16> block 256
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %y = program.arena "y" at 64 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %k = program.plane @kv.0.k : tensor<2x4xbf16>
    program.call @layer(%x, %y, %k) {layer = 7} arena 128
  }
  program.function @layer indices ["layer"] arguments 3 arena 128 {
    %x = program.argument 0 "x" bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %y = program.argument 1 "y" bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %kv = program.argument 2 "kv" bytes 0 : tensor<2x4xbf16>
    %w = program.weight "layers.{layer}.w" : tensor<32x4xbf16, #adapt.packed<16, 2>>
    %t = program.arena "t" at 64 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    program.launch @norm(%x, %w, %t) sizes<[T * 2]>
    program.copy %t to %y bytes<[T * 4]>
  }
  program.entry "main" calls @main kind "graph" inputs (x = 0) outputs (y = 1) block_tokens 16
})";

// Written by hand from runtime/schema/program.proto.
constexpr const char *kExpected = R"(
version: 1 arena_bytes: 512
symbols { name: "T" min: 1 max: 16 }
kernels {
  name: "norm" sizes: "s0"
  variants {
    symbol: "norm_1" guards { size: "s0" min: 1 max: 1 } grid { constant: 1 } scratch_bytes: 64
  }
  variants {
    symbol: "norm"
    grid { binary { kind: CEILDIV lhs { symbol: "s0" } rhs { constant: 4 } } }
    grid { constant: 2 }
  }
}
states { name: "kv.0.k" element: BF16 bytes_per_block: 256 }
functions {
  name: "main" arena_bytes: 512
  buffers { name: "x" element: F32 shape { symbol: "T" } bytes: 64 arena_offset: 0 }
  buffers { name: "y" element: F32 shape { symbol: "T" } bytes: 64 arena_offset: 64 }
  buffers { name: "kv.0.k" element: BF16 shape { constant: 2 } shape { constant: 4 } state: 0 }
  steps { call { function: 1 bindings { key: "layer" value: 7 }
                 arguments: 0 arguments: 1 arguments: 2 arena_offset: 128 } }
}
functions {
  name: "layer" indices: "layer" num_arguments: 3 arena_bytes: 128
  buffers { name: "x" element: F32 shape { symbol: "T" } bytes: 64 argument: 0 }
  buffers { name: "y" element: F32 shape { symbol: "T" } bytes: 64 argument: 1 }
  buffers { name: "kv" element: BF16 shape { constant: 2 } shape { constant: 4 } argument: 2 }
  buffers { name: "layers.{layer}.w" element: BF16 shape { constant: 32 } shape { constant: 4 }
            param: "layers.{layer}.w" }
  buffers { name: "t" element: F32 shape { symbol: "T" } bytes: 64 arena_offset: 64 }
  steps { launch { kernel: 0 buffers: 0 buffers: 3 buffers: 4
                   sizes { binary { kind: MUL lhs { symbol: "T" } rhs { constant: 2 } } } } }
  steps { copy { from: 4 to: 1
                 bytes { binary { kind: MUL lhs { symbol: "T" } rhs { constant: 4 } } } } }
}
entries {
  name: "main" kind: "graph" function: 0 block_tokens: 16
  inputs { name: "x" buffer: 0 } outputs { name: "y" buffer: 1 }
}
)";

struct ExportTest : testing::Test {
  ExportTest() { context.loadDialect<AdaptDialect, program::ProgramDialect>(); }
  MLIRContext context;
};
} // namespace

TEST_F(ExportTest, SaysTheSame) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kProgram, &context);
  ASSERT_TRUE(module);
  program::ModuleOp program = program::getPrograms(*module)->front();
  ASSERT_TRUE(program);
  schema::Program exported, expected;
  ASSERT_TRUE(succeeded(program::exportProgram(program, exported)));
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kExpected, &expected));
  google::protobuf::util::MessageDifferencer differencer;
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  EXPECT_TRUE(differencer.Compare(expected, exported)) << differences;
}

// Written by hand from runtime/schema/program.proto.
TEST_F(ExportTest, SaysWhatRanksDo) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
program.module stage 1 arena 512 {
  program.symbol "T" from 1 to 4
  program.symbol "tp_rank" from 0 to 1
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 64 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
    %all = program.arena "all" at 128 bytes 128 : tensor<?x8xf32, #adapt.dims<[T, 8]>>
    program.receive %x bytes<[T * 16]> from 0 tag 3
    program.collective all_reduce over "tp" %x to %x sizes<[1, T * 4]>
    program.collective all_gather over "tp" %x to %all sizes<[T, 4]>
    program.collective reduce_scatter over "tp" %all to %x sizes<[T, 4]>
    program.send %x bytes<[T * 16]> to 2 tag 5
  }
})",
                                                             &context);
  ASSERT_TRUE(module);
  schema::Program exported;
  program::ModuleOp program = *module->getOps<program::ModuleOp>().begin();
  ASSERT_TRUE(succeeded(program::exportProgram(program, exported)));
  constexpr const char *kSteps[] = {
      R"(transfer { direction: RECEIVE buffer: 0 peer_stage: 0 tag: 3
           bytes { binary { kind: MUL lhs { symbol: "T" } rhs { constant: 16 } } } })",
      R"(collective { kind: ALL_REDUCE axis: "tp" from: 0 to: 0 outer { constant: 1 }
           inner { binary { kind: MUL lhs { symbol: "T" } rhs { constant: 4 } } } })",
      R"(collective { kind: ALL_GATHER axis: "tp" from: 0 to: 1 outer { symbol: "T" }
           inner { constant: 4 } })",
      R"(collective { kind: REDUCE_SCATTER axis: "tp" from: 1 to: 0 outer { symbol: "T" }
           inner { constant: 4 } })",
      R"(transfer { direction: SEND buffer: 0 peer_stage: 2 tag: 5
           bytes { binary { kind: MUL lhs { symbol: "T" } rhs { constant: 16 } } } })"};
  ASSERT_EQ(exported.functions(0).steps_size(), int(std::size(kSteps)));
  for (auto [text, step] : llvm::zip_equal(kSteps, exported.functions(0).steps())) {
    schema::Step expected;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(expected, step))
        << step.DebugString();
  }
}

TEST_F(ExportTest, NamesEveryTypeThatProgramsDoNotHave) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
program.module arena 128 {
  program.function @main indices [] arguments 0 arena 128 {
    %x = program.arena "x" at 0 bytes 4 : tensor<1xi4>
    %y = program.arena "y" at 64 bytes 4 : tensor<1xf128>
  }
})",
                                                             &context);
  ASSERT_TRUE(module);
  unsigned errors = 0;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    EXPECT_NE(diagnostic.str().find("which programs do not have"), std::string::npos);
    ++errors;
    return success();
  });
  schema::Program exported;
  program::ModuleOp program = *module->getOps<program::ModuleOp>().begin();
  EXPECT_TRUE(failed(program::exportProgram(program, exported)));
  EXPECT_EQ(errors, 2u);
}
