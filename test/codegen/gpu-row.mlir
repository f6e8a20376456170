// RUN: rm -rf %t && adapt-kernel %s --target=cuda:sm_80 --sim=%t.so --dump=%t | FileCheck %s --check-prefix=VARIANTS
// RUN: FileCheck %s --check-prefix=NORM --input-file=%t/norm.ptx
// RUN: FileCheck %s --check-prefix=ACT --input-file=%t/act.ptx
// RUN: FileCheck %s --check-prefix=SIM --input-file=%t/norm.sim.ll
// RUN: FileCheck %s --check-prefix=LANES --input-file=%t/act.mlir
// RUN: rm -rf %t && adapt-kernel %s --target=hip:gfx90a --sim=%t.so --dump=%t
// RUN: FileCheck %s --check-prefix=AMD --input-file=%t/norm.s
// RUN: FileCheck %s --check-prefix=AMDSIM --input-file=%t/norm.sim.ll

// A block is a row; a sum over tokens is one block.
// VARIANTS: norm: row_{{[0-9a-f]+}}_any grid [s0] threads 160
// VARIANTS: act: row_{{[0-9a-f]+}}_any grid [s0] threads 256
// VARIANTS: total: row_{{[0-9a-f]+}}_any grid [1] threads 256

// Squares by lanes, shuffles, one value of each warp through shared memory; then vectors.
// NORM-COUNT-5: shfl.sync.bfly.b32
// NORM: bar.sync
// NORM: ld.shared
// NORM: ld.global.nc.v4.b32
// NORM: st.global.v4.b32
// NORM-NOT: call

// ACT-COUNT-2: ld.global.nc.v4.b32
// ACT: st.global.v4.b32
// ACT-NOT: bar.sync

// One loop of the threads, from the slices of its input to its result.
// LANES: gpu.func
// LANES: scf.for
// LANES-COUNT-2: vector.load {{.*}}alignment = 16{{.*}}vector<8xbf16>
// LANES: math.exp
// LANES: vector.store {{.*}}alignment = 16{{.*}}vector<8xbf16>
// LANES-NOT: scf.for

// AMD-COUNT-6: ds_bpermute_b32
// AMD: s_barrier
// AMD: global_load_dwordx4
// AMD: global_store_dwordx4

// The same code, its intrinsics calls of the device.
// SIM: target triple = "x86_64
// SIM: define internal void @row_{{[0-9a-f]+}}_any.lane(
// SIM-NOT: @llvm.nvvm
// SIM: define void @row_{{[0-9a-f]+}}_any(ptr
// SIM-NOT: @llvm.nvvm

// AMDSIM: define internal void @row_{{[0-9a-f]+}}_any.lane(
// AMDSIM-NOT: call {{.*}}@llvm.amdgcn
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
