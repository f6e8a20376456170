// RUN: rm -rf %t && adapt-kernel %s --target=cuda:sm_90 --dump=%t | FileCheck %s --check-prefixes=VARIANTS,WARP
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t/matmul.ptx
// RUN: rm -rf %t && adapt-kernel %s --target=hip:gfx942 --dump=%t -o %t.hsaco | FileCheck %s --check-prefixes=VARIANTS,WAVE
// RUN: FileCheck %s --check-prefix=AMD --input-file=%t/matmul.s
// RUN: llvm-readobj --notes %t.hsaco | FileCheck %s --check-prefix=NOTES

// Eight warps or four waves, a column each.
// WARP: matmul: matmul_{{[0-9a-f]+}}_one grid [120] threads 256 if 1 <= s0 <= 1
// WARP: matmul: matmul_{{[0-9a-f]+}}_few grid [120] threads 256 if 1 <= s0 <= 4
// WAVE: matmul: matmul_{{[0-9a-f]+}}_one grid [240] threads 256 if 1 <= s0 <= 1
// WAVE: matmul: matmul_{{[0-9a-f]+}}_few grid [240] threads 256 if 1 <= s0 <= 4
// VARIANTS: matmul: matmul_{{[0-9a-f]+}}_many grid [s0 ceildiv 64, 15] threads 256

// 16 bytes of the weight and of each row at once, five shuffles, one store.
// PTX-LABEL: .entry {{.*}}_one(
// PTX-COUNT-2: ld.global.nc.v4.b32
// PTX-COUNT-5: shfl.sync.bfly.b32
// PTX: st.global.b16
// PTX-LABEL: .entry {{.*}}_few(
// PTX-COUNT-5: ld.global.nc.v4.b32
// PTX-COUNT-20: shfl.sync.bfly.b32
// PTX-LABEL: .entry {{.*}}_many(
// PTX: bar.sync
// PTX: st.shared
// PTX: bar.sync
// PTX: ld.shared.v4.b32
// PTX: st.global.v4.b16
// PTX-NOT: call

// AMD-LABEL: _one:
// AMD-COUNT-2: global_load_dwordx4
// AMD-COUNT-6: ds_bpermute_b32
// AMD: global_store_short
// AMD-LABEL: _many:
// AMD: s_barrier
// AMD: ds_write
// AMD: s_barrier
// AMD: ds_read_b128
// AMD: global_store_dwordx2

// NOTES-DAG: .group_segment_fixed_size: 8704
// NOTES-DAG: .private_segment_fixed_size: 0
// NOTES-DAG: .vgpr_spill_count: 0
// NOTES-DAG: .sgpr_spill_count: 0
// NOTES-DAG: .wavefront_size: 64
// NOTES-DAG: .max_flat_workgroup_size: 256
!x = tensor<?x576xbf16, #adapt.dims<[s0, 576]>>
!y = tensor<?x960xbf16, #adapt.dims<[s0, 960]>>
adapt.kernel @matmul(%x: !x, %w: tensor<960x576xbf16>) -> !y attributes {adapt.symbols = ["s0"]} {
  %y = adapt.matmul %x, %w : !x, tensor<960x576xbf16> -> !y
  adapt.yield %y : !y
}
