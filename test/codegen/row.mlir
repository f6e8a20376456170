// RUN: rm -rf %t && adapt-kernel %s --cpu=x86-64-v4 --dump=%t | FileCheck %s --check-prefix=VARIANTS
// RUN: FileCheck %s --check-prefix=NORM --input-file=%t/norm.s
// RUN: FileCheck %s --check-prefix=LOOPS --input-file=%t/act.mlir

// Rows of tokens are independent; a sum over tokens is one work item.
// VARIANTS: norm: row_{{[0-9a-f]+}}_any grid [s0 ceildiv 16]
// VARIANTS: act: row_{{[0-9a-f]+}}_any grid [s0 ceildiv 5]
// VARIANTS: total: row_{{[0-9a-f]+}}_any grid [1]

// NORM: zmm
// NORM-NOT: call

// A gated activation is one loop, from the slices of its input to its result.
// LOOPS: func.func private @{{.*}}.row
// LOOPS: scf.for
// LOOPS-COUNT-2: memref.load
// LOOPS: math.exp
// LOOPS: memref.store
// LOOPS-NOT: scf.for
// LOOPS: return
!x = tensor<?x576xbf16, #adapt.dims<[s0, 576]>>
adapt.kernel @norm(%x: !x, %w: tensor<576xbf16>) -> !x attributes {adapt.symbols = ["s0"]} {
  %y = adapt.rms_norm %x, %w epsilon = 1.0e-5 : !x, tensor<576xbf16>
  adapt.yield %y : !x
}
!gu = tensor<?x3072xbf16, #adapt.dims<[s0, 3072]>>
!a = tensor<?x1536xbf16, #adapt.dims<[s0, 1536]>>
adapt.kernel @act(%x: !gu) -> !a attributes {adapt.symbols = ["s0"]} {
  %g = adapt.slice %x offsets = [0, 0] strides = [1, 1] : !gu -> !a
  %u = adapt.slice %x offsets = [0, 1536] strides = [1, 1] : !gu -> !a
  %y = adapt.gated_activation silu %g, %u : !a
  adapt.yield %y : !a
}
adapt.kernel @total(%x: !x) -> tensor<576xbf16> attributes {adapt.symbols = ["s0"]} {
  %y = adapt.reduce sum %x axes = [0] : !x -> tensor<576xbf16>
  adapt.yield %y : tensor<576xbf16>
}
