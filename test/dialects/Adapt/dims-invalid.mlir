// RUN: adapt-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{#adapt.dims names 1 sizes for a tensor of rank 2}}
func.func @rank(%0: tensor<?x4xf32, #adapt.dims<[T]>>) { return }

// -----

// expected-error @+1 {{axis 1 is 4 in the shape but 5 in #adapt.dims}}
func.func @static(%0: tensor<?x4xf32, #adapt.dims<[T, 5]>>) { return }

// -----

// expected-error @+1 {{axis 0 is dynamic in the shape but 3 in #adapt.dims}}
func.func @constant(%0: tensor<?x4xf32, #adapt.dims<[3, 4]>>) { return }

// -----

// expected-error @+1 {{a divisor must be positive}}
func.func @divisor(%0: tensor<?xf32, #adapt.dims<[T floordiv 0]>>) { return }

// -----

// expected-error @+1 {{expected a size}}
func.func @syntax(%0: tensor<?xf32, #adapt.dims<[T + *]>>) { return }

// -----

// All undeclared sizes at once.
// expected-error @+1 {{uses sizes that adapt.symbols does not declare: S U}}
func.func @undeclared(%0: tensor<?x?x?xf32, #adapt.dims<[T, S, U]>>)
    attributes {adapt.symbols = ["T"]} {
  return
}

// -----

// expected-error @+1 {{adapt.symbols names "T" twice}}
func.func @twice() attributes {adapt.symbols = ["T", "T"]} { return }

// -----

// expected-error @+1 {{adapt.indices must be a list of names, not 3}}
func.func @name() attributes {adapt.indices = [3]} { return }

// -----

// expected-error @+1 {{#adapt.packed stores a matrix of static sizes, not rank 1}}
func.func @packed(%0: tensor<4xf32, #adapt.packed<16, 1>>) { return }

// -----

// expected-error @+1 {{must have positive panel sizes}}
func.func @panels(%0: tensor<4x4xf32, #adapt.packed<0, 1>>) { return }

// -----

// expected-error @+1 {{a plane of !adapt.paged has static sizes and no encoding}}
func.func @plane(%0: !adapt.paged<tensor<?x4xf32>>) { return }

// -----

// A dynamic size without a name is no operand.
func.func @unnamed(%0: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{with sizes that are static or named by #adapt.dims}}
  %1 = adapt.exp %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}
