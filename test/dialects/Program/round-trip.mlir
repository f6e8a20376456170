// Every operation, printed and read back.
// RUN: adapt-opt %s | adapt-opt | FileCheck %s
// RUN: adapt-opt %s --mlir-print-op-generic | adapt-opt | FileCheck %s

// CHECK:       program.module arena 512 {
// CHECK-NEXT:    program.symbol "T" from 1 to 16
// CHECK-NEXT:    program.kernel @norm sizes ["s0"] {
// CHECK-NEXT:      program.variant "norm_1" when [#program.guard<"s0" from 1 to 1>] grid<[1]> scratch 64
// CHECK-NEXT:      program.variant "norm" grid<[s0 ceildiv 4, 2]> scratch 0
// CHECK-NEXT:    }
// CHECK-NEXT:    program.state @kv.0.k : tensor<2x4xbf16> block 256
// CHECK-NEXT:    program.function @layer indices ["layer"] arguments 3 arena 128 {
// CHECK-NEXT:      %x = program.argument 0 "x" bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
// CHECK-NEXT:      %y = program.argument 1 "y" bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
// CHECK-NEXT:      %kv = program.argument 2 "kv" bytes 0 : tensor<2x4xbf16>
// CHECK-NEXT:      %w = program.weight "layers.{layer}.w" : tensor<4xf32>
// CHECK-NEXT:      %t = program.arena "t" at 64 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
// CHECK-NEXT:      program.launch @norm(%x, %w, %t) sizes<[T * 2]>
// CHECK-NEXT:      program.copy %t to %y bytes<[T * 4]>
// CHECK-NEXT:    }
// CHECK-NEXT:    program.function @main indices [] arguments 0 arena 512 {
// CHECK-NEXT:      %x = program.arena "x" at 0 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
// CHECK-NEXT:      %y = program.arena "y" at 64 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
// CHECK-NEXT:      %kv.0.k = program.plane @kv.0.k : tensor<2x4xbf16>
// CHECK-NEXT:      program.call @layer(%x, %y, %kv.0.k) {layer = 7 : i64} arena 128
// CHECK-NEXT:    }
// CHECK-NEXT:    program.entry "main" calls @main kind "graph" inputs (x = 0) outputs (y = 1, "a b" = 1) block_tokens 16
program.module arena 512 {
  program.symbol "T" from 1 to 16
  program.kernel @norm sizes ["s0"] {
    program.variant "norm_1" when [#program.guard<"s0" from 1 to 1>] grid<[1]> scratch 64
    program.variant "norm" grid<[s0 ceildiv 4, 2]> scratch 0
  }
  program.state @kv.0.k : tensor<2x4xbf16> block 256
  program.function @layer indices ["layer"] arguments 3 arena 128 {
    %x = program.argument 0 "x" bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %y = program.argument 1 "y" bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %kv = program.argument 2 "kv" bytes 0 : tensor<2x4xbf16>
    %w = program.weight "layers.{layer}.w" : tensor<4xf32>
    %t = program.arena "t" at 64 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    program.launch @norm(%x, %w, %t) sizes<[T * 2]>
    program.copy %t to %y bytes<[T * 4]>
  }
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %y = program.arena "y" at 64 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
    %k = program.plane @kv.0.k : tensor<2x4xbf16>
    program.call @layer(%x, %y, %k) {layer = 7} arena 128
  }
  program.entry "main" calls @main kind "graph" inputs (x = 0) outputs (y = 1, "a b" = 1) block_tokens 16
}
