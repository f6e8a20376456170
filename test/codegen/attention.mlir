// RUN: rm -rf %t && adapt-kernel %s --cpu=znver4 --dump=%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=DOT --input-file=%t/attend.s
// RUN: rm -rf %t && adapt-kernel %s --cpu=haswell --dump=%t
// RUN: FileCheck %s --check-prefix=FMA --input-file=%t/attend.s

// CHECK: append: paged_append_{{[0-9a-f]+}}_any grid [s0 ceildiv 8]
// Tiles of eight tokens: with three query heads a group, 24 rows share each load.
// CHECK: attend: paged_attend_{{[0-9a-f]+}}_any grid [3, s0 ceildiv 8]

// DOT: vdpbf16ps
// DOT-NOT: call{{q? [^m]}}
// FMA-NOT: zmm
// FMA: vfmadd
// FMA-NOT: call{{q? [^m]}}
!q = tensor<?x9x64xbf16, #adapt.dims<[s0, 9, 64]>>
!k = tensor<?x3x64xbf16, #adapt.dims<[s0, 3, 64]>>
!s = !adapt.paged<tensor<3x64xbf16>, tensor<3x64xbf16>>
!starts = tensor<?xi32, #adapt.dims<[s1 + 1]>>
!lens = tensor<?xi32, #adapt.dims<[s1]>>
!table = tensor<?x?xi32, #adapt.dims<[s1, s2]>>
adapt.kernel @append(%k: !k, %v: !k, %s: !s, %starts: !starts, %lens: !lens, %table: !table) -> !s
    attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %n = adapt.paged_append %k, %v, %s at %starts, %lens, %table
      : (!k, !k, !s, !starts, !lens, !table) -> !s
  adapt.yield %n : !s
}
adapt.kernel @attend(%q: !q, %s: !s, %starts: !starts, %lens: !lens, %table: !table) -> (!q, !s)
    attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %o, %n = adapt.paged_attend %q, %s at %starts, %lens, %table scale = 1.25e-1
      : (!q, !s, !starts, !lens, !table) -> (!q, !s)
  adapt.yield %o, %n : !q, !s
}
