// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-verify-plan

// A broken plan is told from a right one: buffers that live together overlap, one is too small for
// the bounds, a step reads what nothing wrote, an output is never written.
module attributes {adapt.limits = {T = 16}} {
  adapt.kernel @neg(%x: tensor<?xf32, #adapt.dims<[s0]>>) -> tensor<?xf32, #adapt.dims<[s0]>>
      attributes {adapt.symbols = ["s0"]} {
    %0 = adapt.neg %x : tensor<?xf32, #adapt.dims<[s0]>>
    adapt.yield %0 : tensor<?xf32, #adapt.dims<[s0]>>
  }
  program.module arena 1024 {
    program.symbol "T" from 1 to 16
    program.kernel @neg sizes ["s0"] {
      program.variant "neg" grid<[1]> scratch 0
    }
    program.function @main indices [] arguments 0 arena 1024 {
      // expected-note @below {{the other one}}
      %x = program.arena "x" at 0 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
      // expected-error @below {{'y' is an output that nothing writes}}
      %y = program.arena "y" at 512 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
      // expected-error @below {{'a' at 0 + 64 overlaps 'x' at 0 + 64, which lives at the same time}}
      %a = program.arena "a" at 0 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
      // expected-error @below {{'b' has 60 bytes, but may need 64}}
      %b = program.arena "b" at 128 bytes 60 : tensor<?xf32, #adapt.dims<[T]>>
      %c = program.arena "c" at 256 bytes 64 : tensor<?xf32, #adapt.dims<[T]>>
      program.launch @neg(%x, %a) sizes<[T]>
      // expected-error @below {{reads 'c', which nothing has written}}
      program.launch @neg(%c, %b) sizes<[T]>
      // expected-error @below {{passes 3 buffers, @neg takes 2}}
      program.launch @neg(%x, %b, %c) sizes<[T]>
      // expected-error @below {{passes 'x' of type 'tensor<?xf32, #adapt.dims<[T]>>' where @neg takes}}
      // expected-error @below {{passes 'a' of type 'tensor<?xf32, #adapt.dims<[T]>>' where @neg takes}}
      program.launch @neg(%x, %a) sizes<[T * 2]>
    }
    program.entry "main" calls @main kind "graph" inputs (x = 0) outputs (y = 1) block_tokens 16
  }
}

// -----

// The arena of a callee must not lie on what lives during the call.
module attributes {adapt.limits = {}} {
  adapt.kernel @neg(%x: tensor<4xf32>) -> tensor<4xf32> attributes {adapt.symbols = []} {
    %0 = adapt.neg %x : tensor<4xf32>
    adapt.yield %0 : tensor<4xf32>
  }
  program.module arena 128 {
    program.kernel @neg sizes [] {
      program.variant "neg" grid<[1]> scratch 0
    }
    program.function @f indices [] arguments 2 arena 64 {
      %x = program.argument 0 "x" bytes 16 : tensor<4xf32>
      %y = program.argument 1 "y" bytes 16 : tensor<4xf32>
      %a = program.arena "a" at 0 bytes 16 : tensor<4xf32>
      program.launch @neg(%x, %a) sizes<[]>
      program.launch @neg(%a, %y) sizes<[]>
    }
    program.function @main indices [] arguments 0 arena 128 {
      // expected-error @below {{'x' at 0 + 16 overlaps the arena of @f at 0 + 64}}
      %x = program.arena "x" at 0 bytes 16 : tensor<4xf32>
      %y = program.arena "y" at 64 bytes 16 : tensor<4xf32>
      // expected-note @below {{the other one}}
      program.call @f(%x, %y) {} arena 0
    }
    program.entry "main" calls @main kind "graph" inputs (x = 0) outputs (y = 1) block_tokens 16
  }
}
