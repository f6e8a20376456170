// RUN: adapt-opt %s | adapt-opt | FileCheck %s
// RUN: adapt-opt %s --emit-bytecode | adapt-opt | FileCheck %s

// What ranks do together, and what passes between stages, each of which has a program of its own.
// CHECK-LABEL: program.module stage 0 arena 512
// CHECK:         program.collective{{ +}}all_reduce over "tp" %x to %x sizes<[1, T * 4]>
// CHECK-NEXT:    program.collective{{ +}}all_gather over "tp" %x to %all sizes<[T, 4]>
// CHECK-NEXT:    program.collective{{ +}}reduce_scatter over "tp" %all to %x sizes<[T, 4]>
// CHECK-NEXT:    program.send %x bytes<[T * 16]> to 1 tag 3
program.module stage 0 arena 512 {
  program.symbol "T" from 1 to 4
  program.symbol "tp_rank" from 0 to 1
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 64 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
    %all = program.arena "all" at 128 bytes 128 : tensor<?x8xf32, #adapt.dims<[T, 8]>>
    program.collective all_reduce over "tp" %x to %x sizes<[1, T * 4]>
    program.collective all_gather over "tp" %x to %all sizes<[T, 4]>
    program.collective reduce_scatter over "tp" %all to %x sizes<[T, 4]>
    program.send %x bytes<[T * 16]> to 1 tag 3
  }
  program.entry "main" calls @main kind "graph" inputs (x = 0) outputs () block_tokens 16
}

// CHECK-LABEL: program.module stage 1 arena 512
// CHECK:         program.receive %x bytes<[T * 16]> from 0 tag 3
program.module stage 1 arena 512 {
  program.symbol "T" from 1 to 4
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 64 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
    program.receive %x bytes<[T * 16]> from 0 tag 3
  }
  program.entry "main" calls @main kind "graph" inputs () outputs (x = 0) block_tokens 16
}
