// All phases on a small llama: what a layer becomes, as names of kernels and steps.
// RUN: adapt-opt %S/Inputs/tiny_llama.mlir --adapt-simplify --adapt-map --adapt-fuse --adapt-plan \
// RUN:   | FileCheck %s

// CHECK-LABEL: program.function @layer indices ["layer"]
// CHECK:       %[[OUT:[a-z0-9_]+]] = program.argument 8
// CHECK:       program.launch @layer_rms_norm_64
// CHECK-NEXT:  program.launch @layer_matmul_128x64
// CHECK-NEXT:  program.launch @layer_rope
// CHECK-NEXT:  program.launch @layer_paged_append
// CHECK-NEXT:  program.launch @layer_paged_attend
// CHECK-NEXT:  program.launch @layer_matmul_add_64x64
// CHECK-NEXT:  program.launch @layer_rms_norm_64
// CHECK-NEXT:  program.launch @layer_matmul_gated_activation_96x64
// CHECK-NEXT:  program.launch @layer_matmul_add_64x96({{.*}}, %[[OUT]])
// CHECK-LABEL: program.function @main
// CHECK:       program.launch @main_rope_table
// CHECK-NEXT:  program.launch @main_gather_64
// CHECK-NEXT:  program.call @layer({{.*}}%kv.0.k, %kv.0.v, {{.*}}) {layer = 0 : i64}
// CHECK-NEXT:  program.call @layer({{.*}}%kv.1.k, %kv.1.v, {{.*}}) {layer = 1 : i64}
// CHECK-NEXT:  program.launch @main_gather_rms_norm_64
// CHECK-NEXT:  program.launch @main_matmul_256x64({{.*}}, %logits)
// CHECK:       program.entry "main" calls @main kind "language_model"
// CHECK-SAME:  outputs (logits =
