// RUN: adapt-opt %s -split-input-file -verify-diagnostics

func.func @rms_norm(%x: tensor<2x8xf32>, %w: tensor<6xf32>) {
  // expected-error @+1 {{weight must have the last size of the input, [8], not [6]}}
  %0 = adapt.rms_norm %x, %w epsilon = 1.0e-6 : tensor<2x8xf32>, tensor<6xf32>
  return
}

// -----

func.func @epsilon(%x: tensor<2x8xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{epsilon must not be negative}}
  %0 = adapt.rms_norm %x, %w epsilon = -1.0 : tensor<2x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rope_table(%p: tensor<3xi32>) {
  // expected-error @+1 {{tables must have type 'tensor<3x2xf32>', not 'tensor<3x4xf32>'}}
  %c, %s = adapt.rope_table %p inverse_frequencies = dense<1.0> : tensor<2xf32> : tensor<3xi32> -> tensor<3x4xf32>
  return
}

// -----

func.func @rope_frequencies(%p: tensor<3xi32>) {
  // expected-error @+1 {{inverse frequencies must be a vector of f32}}
  %c, %s = adapt.rope_table %p inverse_frequencies = dense<1> : tensor<2xi32> : tensor<3xi32> -> tensor<3x2xf32>
  return
}

// -----

func.func @rope_size(%x: tensor<3x2x4xf32>, %c: tensor<3x4xf32>) {
  // expected-error @+1 {{rotates 2 * 4 elements of a head of 4}}
  %0 = adapt.rope %x, %c, %c : tensor<3x2x4xf32>, tensor<3x4xf32>
  return
}

// -----

func.func @rope_tokens(%x: tensor<3x2x4xf32>, %c: tensor<5x2xf32>) {
  // expected-error @+1 {{tables are for 5 tokens, the input has 3}}
  %0 = adapt.rope %x, %c, %c : tensor<3x2x4xf32>, tensor<5x2xf32>
  return
}

// -----

func.func @heads(%q: tensor<3x5x4xf32>, %s: !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>,
                 %a: tensor<2xi32>, %b: tensor<1xi32>, %c: tensor<1x8xi32>) {
  // expected-error @+1 {{query must be [tokens, heads, 4] with a multiple of 2 heads, not [3, 5, 4]}}
  %0, %1 = adapt.paged_attend %q, %s at %a, %b, %c scale = 1.0
      : (tensor<3x5x4xf32>, !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>, tensor<2xi32>, tensor<1xi32>, tensor<1x8xi32>)
      -> (tensor<3x5x4xf32>, !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>)
  return
}

// -----

func.func @sequences(%k: tensor<3x2x4xf32>, %s: !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>,
                     %a: tensor<3xi32>, %b: tensor<1xi32>, %c: tensor<1x8xi32>) {
  // expected-error @+1 {{for 1 sequences seq_starts must have 2 entries and block_table as many rows, not 3 and 1}}
  %0 = adapt.paged_append %k, %k, %s at %a, %b, %c
      : (tensor<3x2x4xf32>, tensor<3x2x4xf32>, !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>, tensor<3xi32>, tensor<1xi32>, tensor<1x8xi32>)
      -> !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>
  return
}

// -----

func.func @key(%k: tensor<3x2x8xf32>, %v: tensor<3x2x4xf32>, %s: !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>,
               %a: tensor<2xi32>, %b: tensor<1xi32>, %c: tensor<1x8xi32>) {
  // expected-error @+1 {{key must be [3, 2, 4] for this state, not [3, 2, 8]}}
  %0 = adapt.paged_append %k, %v, %s at %a, %b, %c
      : (tensor<3x2x8xf32>, tensor<3x2x4xf32>, !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>, tensor<2xi32>, tensor<1xi32>, tensor<1x8xi32>)
      -> !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>
  return
}

// -----

func.func @planes(%q: tensor<3x2x4xf32>, %s: !adapt.paged<tensor<2x4xf32>>,
                  %a: tensor<2xi32>, %b: tensor<1xi32>, %c: tensor<1x8xi32>) {
  // expected-error @+1 {{state must have two planes}}
  %0, %1 = adapt.paged_attend %q, %s at %a, %b, %c scale = 1.0
      : (tensor<3x2x4xf32>, !adapt.paged<tensor<2x4xf32>>, tensor<2xi32>, tensor<1xi32>, tensor<1x8xi32>)
      -> (tensor<3x2x4xf32>, !adapt.paged<tensor<2x4xf32>>)
  return
}

// -----

func.func @window(%q: tensor<3x2x4xf32>, %s: !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>,
                  %a: tensor<2xi32>, %b: tensor<1xi32>, %c: tensor<1x8xi32>) {
  // expected-error @+1 {{window must not be negative, but is -1}}
  %0, %1 = adapt.paged_attend %q, %s at %a, %b, %c scale = 1.0 window = -1
      : (tensor<3x2x4xf32>, !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>, tensor<2xi32>, tensor<1xi32>, tensor<1x8xi32>)
      -> (tensor<3x2x4xf32>, !adapt.paged<tensor<2x4xf32>, tensor<2x4xf32>>)
  return
}
