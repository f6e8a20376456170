// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-verify-simplify

// Every problem is listed, not only the first.
func.func @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{in @dead computes what nobody uses}}
  %0 = adapt.neg %x : tensor<4xf32>
  // expected-error @below {{in @dead computes what nobody uses}}
  %1 = adapt.exp %x : tensor<4xf32>
  return %x : tensor<4xf32>
}
// expected-error @below {{@unused is private and never called}}
func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// What depends on constants alone should be one.
func.func @constants() -> tensor<2xf32> {
  %0 = adapt.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // expected-error @below {{in @constants depends on constants alone}}
  %1 = adapt.add %0, %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
