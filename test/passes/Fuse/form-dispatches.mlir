// RUN: adapt-opt %s --split-input-file --adapt-form-dispatches | FileCheck %s
// RUN: adapt-opt %S/../Inputs/tiny_llama.mlir --adapt-simplify --adapt-map --adapt-merge-matmuls \
// RUN:   --adapt-form-dispatches -o %t.mlir
// RUN: adapt-interpret %S/../Inputs/tiny_llama.mlir --random-inputs 7 \
// RUN:   --tokens %S/../Inputs/tokens.npy --chunk 2 --compare %t.mlir | FileCheck %s --check-prefix=SAME

// SAME: logits: error {{[0-9.]+e-1[0-9]|0}},

// A matmul takes the residual and the cast after it; the weight stays outside.
// CHECK-LABEL: func.func @epilogue
// CHECK-SAME:    %[[X:[a-z0-9]+]]: {{.*}}, %[[R:[a-z0-9]+]]:
// CHECK:         %[[W:.*]] = adapt.param
// CHECK:         %[[D:.*]] = adapt.dispatch -> tensor<2x4xbf16> {
// CHECK-NEXT:      %[[M:.*]] = adapt.matmul %[[X]], %[[W]]
// CHECK-NEXT:      %[[A:.*]] = adapt.add %[[R]], %[[M]]
// CHECK-NEXT:      %[[C:.*]] = adapt.cast %[[A]]
// CHECK-NEXT:      adapt.yield %[[C]]
// CHECK:         return %[[D]]
func.func @epilogue(%x: tensor<2x4xf32>, %r: tensor<2x4xf32>) -> tensor<2x4xbf16> {
  %w = adapt.param "w" : tensor<4x4xf32> {
    %0 = adapt.source "w" : tensor<4x4xf32>
    adapt.yield %0 : tensor<4x4xf32>
  }
  %0 = adapt.matmul %x, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %1 = adapt.add %r, %0 : tensor<2x4xf32>
  %2 = adapt.cast %1 : tensor<2x4xf32> -> tensor<2x4xbf16>
  return %2 : tensor<2x4xbf16>
}

// -----

// A value between that has another user, and is a result, stays one (ONNX: Y = MatMul + Relu of it).
// CHECK-LABEL: func.func @two_users
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x4xf32>, %[[Z:[a-z0-9]+]]: tensor<2x4xf32>,
// CHECK:         %[[P:.*]] = adapt.dispatch -> tensor<2x4xf32> {
// CHECK-NEXT:      adapt.matmul
// CHECK-NEXT:      adapt.yield
// CHECK:         %[[Y:.*]] = adapt.dispatch -> tensor<2x4xf32> {
// CHECK-NEXT:      %[[RELU:.*]] = adapt.maximum %[[P]], %[[Z]]
// CHECK-NEXT:      %[[SUM:.*]] = adapt.add %[[P]], %[[RELU]]
// CHECK-NEXT:      adapt.yield %[[SUM]]
// CHECK:         return %[[Y]], %[[P]]
func.func @two_users(%x: tensor<2x4xf32>, %zero: tensor<2x4xf32>, %w: tensor<4x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %p = adapt.matmul %x, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %r = adapt.maximum %p, %zero : tensor<2x4xf32>
  %y = adapt.add %p, %r : tensor<2x4xf32>
  return %y, %p : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// Two matmuls that meet are one kernel, each with its weight; and a bias needs none of its own.
// CHECK-LABEL: func.func @two_matmuls
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2x4xf32>, %[[W1:[a-z0-9]+]]: tensor<4x4xf32>, %[[W2:[a-z0-9]+]]: tensor<4x4xf32>, %[[B:[a-z0-9]+]]:
// CHECK:         adapt.dispatch
// CHECK-NEXT:      %[[A:.*]] = adapt.matmul %[[X]], %[[W1]]
// CHECK-NEXT:      %[[C:.*]] = adapt.matmul %[[X]], %[[W2]]
// CHECK-NEXT:      %[[S:.*]] = adapt.add %[[A]], %[[C]]
// CHECK-NEXT:      %[[BIAS:.*]] = adapt.broadcast %[[B]]
// CHECK-NEXT:      %[[T:.*]] = adapt.add %[[S]], %[[BIAS]]
// CHECK-NEXT:      adapt.yield %[[T]]
// CHECK-NOT:     adapt.dispatch
// CHECK:         return
func.func @two_matmuls(%x: tensor<2x4xf32>, %w1: tensor<4x4xf32>, %w2: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %a = adapt.matmul %x, %w1 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %c = adapt.matmul %x, %w2 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %0 = adapt.add %a, %c : tensor<2x4xf32>
  %1 = adapt.broadcast %b dims = [1] : tensor<4xf32> -> tensor<2x4xf32>
  %2 = adapt.add %0, %1 : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// Slices of one value become one dispatch with several results, norms and rope of rows included.
// CHECK-LABEL: func.func @heads
// CHECK:         %[[QKV:.*]] = adapt.dispatch
// CHECK-NEXT:      adapt.matmul
// CHECK:         adapt.dispatch -> tensor<?x1x2xf32, {{.*}}>, tensor<?x2x2xf32, {{.*}}> {
// CHECK-DAG:       adapt.slice %[[QKV]] offsets = [0, 0]
// CHECK-DAG:       adapt.slice %[[QKV]] offsets = [0, 4]
// CHECK:           adapt.rms_norm
// CHECK:           adapt.rope
// CHECK:           adapt.yield
// CHECK-NOT:     adapt.dispatch
// CHECK:         return
func.func @heads(%x: tensor<?x4xf32, #adapt.dims<[T, 4]>>, %w: tensor<6x4xf32>, %norm: tensor<2xf32>,
                 %cos: tensor<?x1xf32, #adapt.dims<[T, 1]>>, %sin: tensor<?x1xf32, #adapt.dims<[T, 1]>>)
    -> (tensor<?x2x2xf32, #adapt.dims<[T, 2, 2]>>, tensor<?x1x2xf32, #adapt.dims<[T, 1, 2]>>)
    attributes {adapt.symbols = ["T"]} {
  %0 = adapt.matmul %x, %w : tensor<?x4xf32, #adapt.dims<[T, 4]>>, tensor<6x4xf32> -> tensor<?x6xf32, #adapt.dims<[T, 6]>>
  %q0 = adapt.slice %0 offsets = [0, 0] strides = [1, 1] : tensor<?x6xf32, #adapt.dims<[T, 6]>> -> tensor<?x4xf32, #adapt.dims<[T, 4]>>
  %v0 = adapt.slice %0 offsets = [0, 4] strides = [1, 1] : tensor<?x6xf32, #adapt.dims<[T, 6]>> -> tensor<?x2xf32, #adapt.dims<[T, 2]>>
  %q1 = adapt.reshape %q0 : tensor<?x4xf32, #adapt.dims<[T, 4]>> -> tensor<?x2x2xf32, #adapt.dims<[T, 2, 2]>>
  %v1 = adapt.reshape %v0 : tensor<?x2xf32, #adapt.dims<[T, 2]>> -> tensor<?x1x2xf32, #adapt.dims<[T, 1, 2]>>
  %q2 = adapt.rms_norm %q1, %norm epsilon = 1.0e-6 : tensor<?x2x2xf32, #adapt.dims<[T, 2, 2]>>, tensor<2xf32>
  %q3 = adapt.rope %q2, %cos, %sin : tensor<?x2x2xf32, #adapt.dims<[T, 2, 2]>>, tensor<?x1xf32, #adapt.dims<[T, 1]>>
  return %q3, %v1 : tensor<?x2x2xf32, #adapt.dims<[T, 2, 2]>>, tensor<?x1x2xf32, #adapt.dims<[T, 1, 2]>>
}

// -----

// Not together: an earlier result that something needs before the later one can be computed.
// CHECK-LABEL: func.func @between
// CHECK-COUNT-4: adapt.dispatch
func.func @between(%x: tensor<2x8xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = adapt.exp %x : tensor<2x8xf32>
  %a = adapt.slice %0 offsets = [0, 0] strides = [1, 1] : tensor<2x8xf32> -> tensor<2x4xf32>
  %m = adapt.matmul %a, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %n = adapt.matmul %m, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %b = adapt.slice %0 offsets = [0, 4] strides = [1, 1] : tensor<2x8xf32> -> tensor<2x4xf32>
  %c = adapt.mul %b, %n : tensor<2x4xf32>
  return %c : tensor<2x4xf32>
}

// -----

// Rows that are not one by one: what follows needs all rows first.
// CHECK-LABEL: func.func @transposed
// CHECK-COUNT-2: adapt.dispatch
func.func @transposed(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = adapt.exp %x : tensor<4x4xf32>
  %1 = adapt.transpose %0 [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// A gather before a norm; a reshape between two kernels is the same memory.
// CHECK-LABEL: func.func @gather_norm
// CHECK:         %[[D:.*]] = adapt.dispatch
// CHECK-NEXT:      adapt.gather
// CHECK-NEXT:      adapt.rms_norm
// CHECK-NEXT:      adapt.yield
// CHECK:         %[[R:.*]] = adapt.reshape %[[D]]
// CHECK:         adapt.dispatch
// CHECK-NEXT:      adapt.matmul %[[R]]
func.func @gather_norm(%x: tensor<8x2x2xf32>, %rows: tensor<3xi32>, %n: tensor<2xf32>,
                       %w: tensor<5x4xf32>) -> (tensor<3x5xf32>, tensor<3x2x2xf32>) {
  %0 = adapt.gather %x[%rows] : tensor<8x2x2xf32>, tensor<3xi32> -> tensor<3x2x2xf32>
  %1 = adapt.rms_norm %0, %n epsilon = 1.0e-6 : tensor<3x2x2xf32>, tensor<2xf32>
  %2 = adapt.reshape %1 : tensor<3x2x2xf32> -> tensor<3x4xf32>
  %3 = adapt.matmul %2, %w : tensor<3x4xf32>, tensor<5x4xf32> -> tensor<3x5xf32>
  return %3, %1 : tensor<3x5xf32>, tensor<3x2x2xf32>
}

// -----

// A constant is where it is used; one that is returned is computed.
// CHECK-LABEL: func.func @constants
// CHECK:         adapt.dispatch
// CHECK-NEXT:      %[[C:.*]] = adapt.constant
// CHECK-NEXT:      adapt.mul %{{.*}}, %[[C]]
// CHECK:         adapt.dispatch
// CHECK-NEXT:      %[[K:.*]] = adapt.constant
// CHECK-NEXT:      adapt.yield %[[K]]
func.func @constants(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %c = adapt.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = adapt.mul %x, %c : tensor<2xf32>
  %k = adapt.constant dense<[3.0, 4.0]> : tensor<2xf32>
  return %0, %k : tensor<2xf32>, tensor<2xf32>
}
