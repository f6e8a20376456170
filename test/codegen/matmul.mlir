// RUN: rm -rf %t && adapt-kernel %s --cpu=znver4 --dump=%t | FileCheck %s --check-prefix=VARIANTS
// RUN: FileCheck %s --check-prefix=DOT --input-file=%t/matmul.s
// RUN: rm -rf %t && adapt-kernel %s --cpu=znver4 --features=-avx512bf16 --dump=%t
// RUN: FileCheck %s --check-prefix=FMA512 --input-file=%t/matmul.s
// RUN: rm -rf %t && adapt-kernel %s --cpu=x86-64-v3 --dump=%t
// RUN: FileCheck %s --check-prefix=FMA --input-file=%t/matmul.s
// RUN: rm -rf %t && adapt-kernel %s --cpu=x86-64-v2 --dump=%t
// RUN: FileCheck %s --check-prefix=SSE --input-file=%t/matmul.s

// 60 panels of 16: items of three panels, for one and few tokens; tiles of 8 x 48 for many.
// VARIANTS: matmul: matmul_{{[0-9a-f]+}}_one grid [20] if 1 <= s0 <= 1
// VARIANTS-NEXT: matmul: matmul_{{[0-9a-f]+}}_few grid [20] if 1 <= s0 <= 4
// VARIANTS-NEXT: matmul: matmul_{{[0-9a-f]+}}_several grid [20] if 1 <= s0 <= 8
// VARIANTS-NEXT: matmul: matmul_{{[0-9a-f]+}}_many grid [20, s0 ceildiv 128]

// One token: a stream of whole cache lines, two in one pass of the loop.
// DOT-LABEL: _one:
// DOT: vdpbf16ps (%{{.*}}){1to16}, %zmm
// DOT-NEXT: {{(vmovups|vmovupd|vmovdqu64).*zmm|vdpbf16ps}}
// DOT-LABEL: _many:
// DOT-COUNT-24: vdpbf16ps
// DOT-NOT: call

// FMA512-NOT: vdpbf16ps
// FMA512: vfmadd{{.*}}%zmm

// FMA-NOT: zmm
// FMA: vfmadd{{.*}}%ymm
// FMA-NOT: call

// SSE-NOT: ymm
// SSE: mulps
// SSE-NOT: call
!x = tensor<?x576xbf16, #adapt.dims<[s0, 576]>>
!y = tensor<?x960xbf16, #adapt.dims<[s0, 960]>>
!w = tensor<960x576xbf16, #adapt.packed<16, 2>>
adapt.kernel @matmul(%x: !x, %w: !w) -> !y attributes {adapt.symbols = ["s0"]} {
  %y = adapt.matmul %x, %w : !x, !w -> !y
  adapt.yield %y : !y
}
