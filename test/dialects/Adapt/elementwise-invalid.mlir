// RUN: adapt-opt %s -split-input-file -verify-diagnostics

func.func @types(%a: tensor<4xf32>, %b: tensor<4xbf16>) {
  // expected-note @-1 {{prior use here}}
  // expected-error @+1 {{expects different type than prior uses}}
  %0 = adapt.add %a, %b : tensor<4xf32>
  return
}

// -----

func.func @integers(%a: tensor<4xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  %0 = adapt.exp %a : tensor<4xi32>
  return
}

// -----

func.func @cast(%a: tensor<4xf32>) {
  // expected-error @+1 {{changes only the element type, but 'tensor<4xf32>' to 'tensor<5xbf16>'}}
  %0 = adapt.cast %a : tensor<4xf32> -> tensor<5xbf16>
  return
}
