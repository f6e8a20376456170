// RUN: rm -rf %t && adapt-kernel %s --target=cuda:sm_90 --dump=%t | FileCheck %s --check-prefix=WARP
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t/attend.ptx
// RUN: rm -rf %t && adapt-kernel %s --target=hip:gfx942 --dump=%t -o %t.hsaco | FileCheck %s --check-prefix=WAVE
// RUN: FileCheck %s --check-prefix=AMD --input-file=%t/attend.s
// RUN: llvm-readobj --notes %t.hsaco | FileCheck %s --check-prefix=NOTES

// A block is a token and the query heads of a group, a warp each.
// WARP: append: paged_append_{{[0-9a-f]+}}_any grid [s0] threads 192
// WARP: attend: paged_attend_{{[0-9a-f]+}}_any grid [3, 1, s0] threads 96
// WAVE: attend: paged_attend_{{[0-9a-f]+}}_any grid [3, 1, s0] threads 192

// Maximum over the lanes, weights to all lanes one by one, sum over the lanes.
// PTX-COUNT-5: shfl.sync.bfly.b32
// PTX: shfl.sync.idx.b32
// PTX-COUNT-5: shfl.sync.bfly.b32
// PTX: st.global.b16
// PTX-NOT: call

// AMD-COUNT-6: ds_bpermute_b32
// AMD: global_store_short

// NOTES: .private_segment_fixed_size: 0
// NOTES: .vgpr_spill_count: 0
// NOTES: .private_segment_fixed_size: 0
// NOTES: .vgpr_spill_count: 0
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
