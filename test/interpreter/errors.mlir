// What cannot be run is said with the operation's place and the numbers.
// RUN: not adapt-interpret %s --function rows 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not adapt-interpret %s --function starts 2>&1 | FileCheck %s --check-prefix=STARTS
// RUN: not adapt-interpret %s --function block 2>&1 | FileCheck %s --check-prefix=BLOCK
// RUN: not adapt-interpret %s --function huge 2>&1 | FileCheck %s --check-prefix=HUGE
// RUN: not adapt-interpret %s --function size --random-inputs 1 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not adapt-interpret %s --function size --random-inputs 1 --size N=5000000000 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not adapt-interpret %s --function source 2>&1 | FileCheck %s --check-prefix=SOURCE
// RUN: not adapt-interpret %s --function source --index layer=9 --weights %source_root/test/e2e/data/tiny-llama 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not adapt-interpret %s --function source --index layer=0 --weights %source_root/test/e2e/data/tiny-llama 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not adapt-interpret %s --function source --index layer=0 2>&1 | FileCheck %s --check-prefix=NOWEIGHTS
// RUN: not adapt-interpret %s --function size 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not adapt-interpret %s --function zero 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not adapt-interpret %s --function forever 2>&1 | FileCheck %s --check-prefix=FOREVER
// RUN: not adapt-interpret %s --function other 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not adapt-interpret %s --function nothing 2>&1 | FileCheck %s --check-prefix=NOTHING

func.func @rows() -> tensor<1x2xf32> {
  %table = adapt.constant dense<0.0> : tensor<3x2xf32>
  %row = adapt.constant dense<3> : tensor<1xi32>
  // ROWS: errors.mlir:[[#@LINE+1]]:{{.*}} error: 'adapt.gather' op cannot be evaluated: index 0 is 3, but the table has 3 rows
  %0 = adapt.gather %table[%row] : tensor<3x2xf32>, tensor<1xi32> -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}

func.func @starts(%kv: !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>) -> !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>> {
  %k = adapt.constant dense<0.0> : tensor<3x1x1xf32>
  %starts = adapt.constant dense<[0, 2]> : tensor<2xi32>
  %lens = adapt.constant dense<3> : tensor<1xi32>
  %table = adapt.constant dense<[[0]]> : tensor<1x1xi32>
  // STARTS: 'adapt.paged_append' op cannot be evaluated: seq_starts goes from 0 to 2, but there are 3 tokens
  %0 = adapt.paged_append %k, %k, %kv at %starts, %lens, %table
      : (tensor<3x1x1xf32>, tensor<3x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>, tensor<2xi32>, tensor<1xi32>, tensor<1x1xi32>)
      -> !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>
  return %0 : !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>
}

func.func @block(%kv: !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>) -> !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>> {
  %k = adapt.constant dense<0.0> : tensor<3x1x1xf32>
  %starts = adapt.constant dense<[0, 3]> : tensor<2xi32>
  %lens = adapt.constant dense<3> : tensor<1xi32>
  %table = adapt.constant dense<[[4]]> : tensor<1x1xi32>
  // BLOCK: 'adapt.paged_append' op cannot be evaluated: block 4 of sequence 0 is not among the 4 of the state
  %0 = adapt.paged_append %k, %k, %kv at %starts, %lens, %table
      : (tensor<3x1x1xf32>, tensor<3x1x1xf32>, !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>, tensor<2xi32>, tensor<1xi32>, tensor<1x1xi32>)
      -> !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>
  return %0 : !adapt.paged<tensor<1x1xf32>, tensor<1x1xf32>>
}

func.func @huge() -> tensor<1000000x1000000x1000000xf32> {
  // HUGE: 'adapt.constant' op cannot be evaluated: {{.*}} has more than 1073741824 elements
  %0 = adapt.constant dense<0.0> : tensor<1000000x1000000x1000000xf32>
  return %0 : tensor<1000000x1000000x1000000xf32>
}

// SIZE: 'func.func' op cannot be evaluated: size N of {{.*}} is not known
// LARGE: 'func.func' op cannot be evaluated: {{.*}} has more than 1073741824 elements
// INPUT: error: @size has more arguments than there are --input files (0); --random-inputs makes them
func.func @size(%x: tensor<?xf32, #adapt.dims<[N]>>) -> tensor<?xf32, #adapt.dims<[N]>> attributes {adapt.symbols = ["N"]} {
  return %x : tensor<?xf32, #adapt.dims<[N]>>
}

// SOURCE: 'func.func' op cannot be run: its index 'layer' is not bound
func.func @source() -> tensor<65xf32> attributes {adapt.indices = ["layer"]} {
  %w = adapt.param "layers.{layer}.norm" : tensor<65xf32> {
    // NOWEIGHTS: 'adapt.source' op cannot be evaluated: no checkpoint was given for 'model.layers.0.input_layernorm.weight'
    // MISSING: 'adapt.source' op cannot be read: {{.*}}model.layers.9.input_layernorm.weight
    // TYPE: 'adapt.source' op reads 'model.layers.0.input_layernorm.weight' as {{.*}}tensor<65xf32>{{.*}}, but the checkpoint has it as f32 [64]
    %0 = adapt.source "model.layers.{layer}.input_layernorm.weight" : tensor<65xf32>
    adapt.yield %0 : tensor<65xf32>
  }
  return %w : tensor<65xf32>
}

func.func @zero() -> tensor<2xi32> {
  %x = adapt.constant dense<[1, 2]> : tensor<2xi32>
  %y = adapt.constant dense<[1, 0]> : tensor<2xi32>
  // ZERO: 'adapt.div' op cannot be evaluated: element 1 is an integer beyond 2^53, or a division by zero
  %0 = adapt.div %x, %y : tensor<2xi32>
  return %0 : tensor<2xi32>
}

// FOREVER: 'func.func' op cannot be run: calls nest more than 64 deep
func.func @forever() -> tensor<1xf32> {
  %0 = adapt.call @forever() {} : () -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

func.func @other(%x: i32) -> i32 {
  // OTHER: has type 'i32', which is neither a tensor nor a state
  return %x : i32
}

// NOTHING: errors.mlir: no function @nothing
