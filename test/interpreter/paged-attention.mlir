// RUN: adapt-interpret %s | FileCheck %s
// RUN: adapt-interpret %s --function window | FileCheck %s --check-prefix=WINDOW
// RUN: adapt-interpret %s --function typed --mode typed | FileCheck %s --check-prefix=TYPED

// Two query heads over one group of keys, causal, scale 0.5. Expected: numpy in f64, softmax of the
// scores of each token's own and earlier keys.
func.func @main(%kv: !adapt.paged<tensor<1x2xf32>, tensor<1x2xf32>>)
    -> (tensor<3x2x2xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x2xf32>>) {
  %q = adapt.constant dense<[[[1.0, 0.0], [0.0, 1.0]], [[0.5, -1.0], [2.0, 0.25]], [[-0.5, 0.5], [1.0, 1.0]]]> : tensor<3x2x2xf32>
  %k = adapt.constant dense<[[[1.0, 2.0]], [[-1.0, 0.5]], [[0.25, -0.75]]]> : tensor<3x1x2xf32>
  %v = adapt.constant dense<[[[1.0, -1.0]], [[2.0, 0.5]], [[-3.0, 4.0]]]> : tensor<3x1x2xf32>
  %starts = adapt.constant dense<[0, 3]> : tensor<2xi32>
  %lens = adapt.constant dense<3> : tensor<1xi32>
  %table = adapt.constant dense<[[2]]> : tensor<1x1xi32>
  // CHECK: result0 = tensor<3x2x2xf32> {{\[\[\[}}1, -1], [1, -1]], {{\[\[}}1.5621765, -0.15673525], [1.1008786, -0.84868207]], {{\[\[}}0.52805634, 0.72734681], [0.61313298, -0.16178813]]]
  // The tokens lie in block 2 of the state's 4, from slot 32 on.
  // CHECK: result1 = state {tensor<64x1x2xf32> [{{(\[\[0, 0\]\], ){32}()}}{{\[\[}}1, 2]], {{\[\[}}-1, 0.5]], {{\[\[}}0.25, -0.75]], {{\[\[}}0, 0]]
  %0, %1 = adapt.paged_attention %q, %k, %v, %kv at %starts, %lens, %table scale = 0.5
      : (tensor<3x2x2xf32>, tensor<3x1x2xf32>, tensor<3x1x2xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x2xf32>>,
         tensor<2xi32>, tensor<1xi32>, tensor<1x1xi32>)
      -> (tensor<3x2x2xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x2xf32>>)
  return %0, %1 : tensor<3x2x2xf32>, !adapt.paged<tensor<1x2xf32>, tensor<1x2xf32>>
}

// Fault case D04: equal scores, values 0 … 3. With a window of 2 token 3 sees keys 2 and 3: 2.5; with
// 0 or none all four: 1.5.
func.func @window(%a: !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>, %b: !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>,
                  %c: !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>)
    -> (tensor<4x1x1xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>,
        !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>) {
  %q = adapt.constant dense<0.0> : tensor<4x1x1xf32>
  %v = adapt.constant dense<[[[0.0]], [[1.0]], [[2.0]], [[3.0]]]> : tensor<4x1x1xf32>
  %starts = adapt.constant dense<[0, 4]> : tensor<2xi32>
  %lens = adapt.constant dense<4> : tensor<1xi32>
  %table = adapt.constant dense<[[1]]> : tensor<1x1xi32>
  // WINDOW: result0 = tensor<4x1x1xf32> {{\[\[\[}}0]], {{\[\[}}0.5]], {{\[\[}}1.5]], {{\[\[}}2.5]]]
  %0, %a1 = adapt.paged_attention %q, %v, %v, %a at %starts, %lens, %table scale = 1.0 window = 2
      : (tensor<4x1x1xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>,
         tensor<2xi32>, tensor<1xi32>, tensor<1x1xi32>)
      -> (tensor<4x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>)
  // WINDOW: result1 = tensor<4x1x1xf32> {{\[\[\[}}0]], {{\[\[}}0.5]], {{\[\[}}1]], {{\[\[}}1.5]]]
  %1, %b1 = adapt.paged_attention %q, %v, %v, %b at %starts, %lens, %table scale = 1.0 window = 0
      : (tensor<4x1x1xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>,
         tensor<2xi32>, tensor<1xi32>, tensor<1x1xi32>)
      -> (tensor<4x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>)
  // WINDOW: result2 = tensor<4x1x1xf32> {{\[\[\[}}0]], {{\[\[}}0.5]], {{\[\[}}1]], {{\[\[}}1.5]]]
  %2, %c1 = adapt.paged_attention %q, %v, %v, %c at %starts, %lens, %table scale = 1.0
      : (tensor<4x1x1xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>,
         tensor<2xi32>, tensor<1xi32>, tensor<1x1xi32>)
      -> (tensor<4x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>)
  return %0, %1, %2, %a1, %b1, %c1 : tensor<4x1x1xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>,
      !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>,
      !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>
}

// The state keeps its own type: 1.00390625 is 1 in bf16, in the step that appends it, too.
func.func @typed(%a: !adapt.paged<tensor<1x1xbf16>, tensor<1x1xbf16>>)
    -> (tensor<1x1x1xf32>, !adapt.paged<tensor<1x1xbf16>, tensor<1x1xbf16>>) {
  %q = adapt.constant dense<0.0> : tensor<1x1x1xf32>
  %v = adapt.constant dense<1.00390625> : tensor<1x1x1xf32>
  %starts = adapt.constant dense<[0, 1]> : tensor<2xi32>
  %lens = adapt.constant dense<1> : tensor<1xi32>
  %table = adapt.constant dense<[[0]]> : tensor<1x1xi32>
  // TYPED: result0 = tensor<1x1x1xf32> {{\[\[\[}}1]]]
  %0, %1 = adapt.paged_attention %q, %v, %v, %a at %starts, %lens, %table scale = 1.0
      : (tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>, !adapt.paged<tensor<1x1xbf16>, tensor<1x1xbf16>>,
         tensor<2xi32>, tensor<1xi32>, tensor<1x1xi32>)
      -> (tensor<1x1x1xf32>, !adapt.paged<tensor<1x1xbf16>, tensor<1x1xbf16>>)
  return %0, %1 : tensor<1x1x1xf32>, !adapt.paged<tensor<1x1xbf16>, tensor<1x1xbf16>>
}
