// RUN: adapt-opt %s --split-input-file --verify-diagnostics

program.module arena 0 {
  // expected-error @below {{'T' from 2 to 1 is not a range of sizes}}
  program.symbol "T" from 2 to 1
}

// -----

program.module arena 0 {
  // expected-error @below {{has no variant}}
  program.kernel @k sizes [] {
  }
}

// -----

program.module arena 0 {
  program.kernel @k sizes ["s0"] {
    // expected-error @below {{is the last but has guards, so that no variant may fit}}
    program.variant "k" when [#program.guard<"s0" from 1 to 4>] grid<[1]> scratch 0
  }
}

// -----

program.module arena 0 {
  program.kernel @k sizes ["s0"] {
    // expected-error @below {{grid uses the unknown size 'T'}}
    // expected-error @below {{guards the unknown size "U"}}
    // expected-error @below {{has a guard that never holds: "s0" from 4 to 1}}
    program.variant "a" when [#program.guard<"U" from 1 to 4>, #program.guard<"s0" from 4 to 1>] grid<[T]> scratch 0
    program.variant "b" grid<[1]> scratch 0
  }
}

// -----

program.module arena 0 {
  program.kernel @k sizes [] {
    // expected-error @below {{has a grid of 4 extents, one to three are possible}}
    program.variant "k" grid<[1, 1, 1, 1]> scratch 0
  }
}

// -----

program.module arena 0 {
  // expected-error @below {{attribute 'max' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  program.symbol "T" from 0 to -1
}

// -----

program.module arena 0 {
  program.function @f indices [] arguments 0 arena 64 {
    // expected-error @below {{attribute 'bytes' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
    %a = program.arena "a" at 0 bytes -4 : tensor<1xf32>
  }
}

// -----

program.module arena 0 {
  // expected-error @below {{has 100 bytes a block, not a positive multiple of 64}}
  program.state @kv : tensor<2xf32> block 100
}

// -----

program.module arena 64 {
  // expected-error @below {{declares 1 of its 2 arguments}}
  program.function @f indices [] arguments 2 arena 64 {
    %x = program.argument 0 "x" bytes 4 : tensor<1xf32>
    // expected-error @below {{is argument 0 a second time}}
    %y = program.argument 0 "y" bytes 4 : tensor<1xf32>
    // expected-error @below {{is argument 5 of 2}}
    %z = program.argument 5 "z" bytes 4 : tensor<1xf32>
    // expected-error @below {{'a' lies at 4, not a multiple of 64}}
    %a = program.arena "a" at 4 bytes 4 : tensor<1xf32>
    // expected-error @below {{'b': bytes 64 + 4 leave the function's arena of 64}}
    %b = program.arena "b" at 64 bytes 4 : tensor<1xf32>
    // expected-error @below {{'c': bytes 64 + 9223372036854775807 leave the function's arena of 64}}
    %c = program.arena "c" at 64 bytes 9223372036854775807 : tensor<1xf32>
    program.copy %x to %a bytes<[4]>
    // expected-error @below {{comes after steps: buffers come first}}
    %d = program.arena "d" at 0 bytes 4 : tensor<1xf32>
  }
}

// -----

// What one operation says of another.
program.module arena 0 {
  program.symbol "T" from 1 to 2
  // expected-error @below {{declares 'T' twice}}
  program.symbol "T" from 1 to 2
  program.kernel @k sizes ["s0"] {
    program.variant "k" grid<[1]> scratch 0
  }
  program.function @f indices ["layer"] arguments 1 arena 64 {
    %x = program.argument 0 "x" bytes 4 : tensor<1xf32>
  }
  program.function @main indices [] arguments 0 arena 64 {
    // expected-error @below {{type uses the unknown size 'U'}}
    %x = program.arena "x" at 0 bytes 4 : tensor<?xi32, #adapt.dims<[U]>>
    // expected-error @below {{names the unknown state @kv}}
    %s = program.plane @kv : tensor<1xf32>
    // expected-error @below {{launches the unknown kernel @nothing}}
    program.launch @nothing(%x) sizes<[]>
    // expected-error @below {{passes 0 sizes, @k has 1}}
    program.launch @k(%x) sizes<[]>
    // expected-error @below {{calls the unknown function @nobody}}
    program.call @nobody(%x) {} arena 0
    // expected-error @below {{does not bind the index 'layer' of @f}}
    // expected-error @below {{binds 'leyer', which is no index of @f}}
    // expected-error @below {{gives the callee the bytes 64 + 64 of an arena of 64}}
    // expected-error @below {{passes 'x' of type 'tensor<?xi32, #adapt.dims<[U]>>' as 'x' of type 'tensor<1xf32>'}}
    program.call @f(%x) {leyer = 1} arena 64
    // expected-error @below {{passes 0 buffers, @f has 1 arguments}}
    program.call @f() {layer = 1} arena 0
  }
  // expected-error @below {{'main' needs an arena of 64 bytes, the program has 0}}
  // expected-error @below {{'main' names buffer 2 of 2}}
  program.entry "main" calls @main kind "graph" inputs (x = 2) outputs () block_tokens 16
  // expected-error @below {{'f' is @f, which has indices or arguments that nobody binds}}
  // expected-error @below {{'f' needs an arena}}
  program.entry "f" calls @f kind "graph" inputs () outputs () block_tokens 16
}

// -----

program.module arena 0 {
  program.function @main indices [] arguments 0 arena 0 {
  }
  // expected-error @below {{has kind 'chat', neither "language_model" nor "graph"}}
  program.entry "main" calls @main kind "chat" inputs () outputs () block_tokens 16
}

// -----

// What ranks do together.
program.module stage 1 arena 512 {
  program.symbol "T" from 1 to 4
  program.symbol "tp_rank" from 0 to 1
  program.state @kv : tensor<4xf32> block 64
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 16 : tensor<4xf32>
    %b = program.arena "b" at 64 bytes 8 : tensor<4xbf16>
    %i = program.arena "i" at 128 bytes 32 : tensor<4xi64>
    %w = program.weight "w" : tensor<4xf32>
    %k = program.plane @kv : tensor<4xf32>
    // expected-error @below {{exchanges 'w', which is neither in the arena nor an argument}}
    program.collective all_reduce over "tp" %w to %x sizes<[1, 4]>
    // expected-error @below {{goes from 'x' of 'f32' to 'b' of 'bf16'}}
    program.collective all_reduce over "tp" %x to %b sizes<[1, 4]>
    // expected-error @below {{is of 'i64'; possible are f32, bf16, f16 and i32}}
    program.collective all_reduce over "tp" %i to %i sizes<[1, 4]>
    // expected-error @below {{has 'x' for both ends}}
    program.collective all_gather over "tp" %x to %x sizes<[1, 2]>
    // expected-error @below {{exchanges 'kv', which is neither}}
    program.send %k bytes<[16]> to 2 tag 0
  }
}

// -----

program.module arena 512 {
  program.symbol "T" from 1 to 4
  program.symbol "tp_rank" from 0 to 1
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 64 : tensor<?x4xf32, #adapt.dims<[T, 4]>>
    // expected-error @below {{goes over 'pp', but the program has no symbol 'pp_rank', which says how many ranks take part}}
    program.collective all_reduce over "pp" %x to %x sizes<[1, T * 4]>
    // expected-error @below {{has sizes that are not the same on all ranks}}
    program.collective all_reduce over "tp" %x to %x sizes<[tp_rank, T * 4]>
    // expected-error @below {{collective uses the unknown size 'U'}}
    program.collective all_reduce over "tp" %x to %x sizes<[1, U]>
    // expected-error @below {{send uses the unknown size 'U'}}
    program.send %x bytes<[U]> to 1 tag 0
  }
}

// -----

program.module arena 512 {
  program.symbol "tp_rank" from 0 to 1
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 16 : tensor<4xf32>
    // expected-error @below {{has 1 sizes instead of two, [outer, inner]}}
    program.collective all_reduce over "tp" %x to %x sizes<[4]>
  }
}

// -----

program.module arena 512 {
  program.function @main indices [] arguments 0 arena 512 {
    %x = program.arena "x" at 0 bytes 16 : tensor<4xf32>
    // expected-error @below {{has 2 sizes instead of one}}
    program.receive %x bytes<[4, 4]> from 0 tag 0
  }
}

// -----

// Calls have an end.
program.module arena 0 {
  // expected-error @below {{@f calls itself}}
  program.function @f indices [] arguments 0 arena 0 {
    program.call @g() {} arena 0
  }
  program.function @g indices [] arguments 0 arena 0 {
    program.call @f() {} arena 0
  }
}

// -----

program.module arena 0 {
  program.function @f0 indices [] arguments 0 arena 0 {
  }
  program.function @f1 indices [] arguments 0 arena 0 {
    program.call @f0() {} arena 0
    program.call @f0() {} arena 0
  }
  program.function @f2 indices [] arguments 0 arena 0 {
    program.call @f1() {} arena 0
    program.call @f1() {} arena 0
  }
  program.function @f3 indices [] arguments 0 arena 0 {
    program.call @f2() {} arena 0
    program.call @f2() {} arena 0
  }
  program.function @f4 indices [] arguments 0 arena 0 {
    program.call @f3() {} arena 0
    program.call @f3() {} arena 0
  }
  program.function @f5 indices [] arguments 0 arena 0 {
    program.call @f4() {} arena 0
    program.call @f4() {} arena 0
  }
  program.function @f6 indices [] arguments 0 arena 0 {
    program.call @f5() {} arena 0
    program.call @f5() {} arena 0
  }
  program.function @f7 indices [] arguments 0 arena 0 {
    program.call @f6() {} arena 0
    program.call @f6() {} arena 0
  }
  program.function @f8 indices [] arguments 0 arena 0 {
    program.call @f7() {} arena 0
    program.call @f7() {} arena 0
  }
  program.function @f9 indices [] arguments 0 arena 0 {
    program.call @f8() {} arena 0
    program.call @f8() {} arena 0
  }
  program.function @f10 indices [] arguments 0 arena 0 {
    program.call @f9() {} arena 0
    program.call @f9() {} arena 0
  }
  program.function @f11 indices [] arguments 0 arena 0 {
    program.call @f10() {} arena 0
    program.call @f10() {} arena 0
  }
  program.function @f12 indices [] arguments 0 arena 0 {
    program.call @f11() {} arena 0
    program.call @f11() {} arena 0
  }
  program.function @f13 indices [] arguments 0 arena 0 {
    program.call @f12() {} arena 0
    program.call @f12() {} arena 0
  }
  program.function @f14 indices [] arguments 0 arena 0 {
    program.call @f13() {} arena 0
    program.call @f13() {} arena 0
  }
  program.function @f15 indices [] arguments 0 arena 0 {
    program.call @f14() {} arena 0
    program.call @f14() {} arena 0
  }
  program.function @f16 indices [] arguments 0 arena 0 {
    program.call @f15() {} arena 0
    program.call @f15() {} arena 0
  }
  program.function @f17 indices [] arguments 0 arena 0 {
    program.call @f16() {} arena 0
    program.call @f16() {} arena 0
  }
  program.function @f18 indices [] arguments 0 arena 0 {
    program.call @f17() {} arena 0
    program.call @f17() {} arena 0
  }
  program.function @f19 indices [] arguments 0 arena 0 {
    program.call @f18() {} arena 0
    program.call @f18() {} arena 0
  }
  program.function @f20 indices [] arguments 0 arena 0 {
    program.call @f19() {} arena 0
    program.call @f19() {} arena 0
  }
  program.function @f21 indices [] arguments 0 arena 0 {
    program.call @f20() {} arena 0
    program.call @f20() {} arena 0
  }
  // expected-error @below {{@f22 expands to more than 4194304 steps}}
  program.function @f22 indices [] arguments 0 arena 0 {
    program.call @f21() {} arena 0
    program.call @f21() {} arena 0
  }
}

// -----

program.module arena 0 {
  program.function @f0 indices [] arguments 0 arena 0 {
  }
  program.function @f1 indices [] arguments 0 arena 0 {
    program.call @f0() {} arena 0
  }
  program.function @f2 indices [] arguments 0 arena 0 {
    program.call @f1() {} arena 0
  }
  program.function @f3 indices [] arguments 0 arena 0 {
    program.call @f2() {} arena 0
  }
  program.function @f4 indices [] arguments 0 arena 0 {
    program.call @f3() {} arena 0
  }
  program.function @f5 indices [] arguments 0 arena 0 {
    program.call @f4() {} arena 0
  }
  program.function @f6 indices [] arguments 0 arena 0 {
    program.call @f5() {} arena 0
  }
  program.function @f7 indices [] arguments 0 arena 0 {
    program.call @f6() {} arena 0
  }
  program.function @f8 indices [] arguments 0 arena 0 {
    program.call @f7() {} arena 0
  }
  program.function @f9 indices [] arguments 0 arena 0 {
    program.call @f8() {} arena 0
  }
  program.function @f10 indices [] arguments 0 arena 0 {
    program.call @f9() {} arena 0
  }
  program.function @f11 indices [] arguments 0 arena 0 {
    program.call @f10() {} arena 0
  }
  program.function @f12 indices [] arguments 0 arena 0 {
    program.call @f11() {} arena 0
  }
  program.function @f13 indices [] arguments 0 arena 0 {
    program.call @f12() {} arena 0
  }
  program.function @f14 indices [] arguments 0 arena 0 {
    program.call @f13() {} arena 0
  }
  program.function @f15 indices [] arguments 0 arena 0 {
    program.call @f14() {} arena 0
  }
  program.function @f16 indices [] arguments 0 arena 0 {
    program.call @f15() {} arena 0
  }
  program.function @f17 indices [] arguments 0 arena 0 {
    program.call @f16() {} arena 0
  }
  program.function @f18 indices [] arguments 0 arena 0 {
    program.call @f17() {} arena 0
  }
  program.function @f19 indices [] arguments 0 arena 0 {
    program.call @f18() {} arena 0
  }
  program.function @f20 indices [] arguments 0 arena 0 {
    program.call @f19() {} arena 0
  }
  program.function @f21 indices [] arguments 0 arena 0 {
    program.call @f20() {} arena 0
  }
  program.function @f22 indices [] arguments 0 arena 0 {
    program.call @f21() {} arena 0
  }
  program.function @f23 indices [] arguments 0 arena 0 {
    program.call @f22() {} arena 0
  }
  program.function @f24 indices [] arguments 0 arena 0 {
    program.call @f23() {} arena 0
  }
  program.function @f25 indices [] arguments 0 arena 0 {
    program.call @f24() {} arena 0
  }
  program.function @f26 indices [] arguments 0 arena 0 {
    program.call @f25() {} arena 0
  }
  program.function @f27 indices [] arguments 0 arena 0 {
    program.call @f26() {} arena 0
  }
  program.function @f28 indices [] arguments 0 arena 0 {
    program.call @f27() {} arena 0
  }
  program.function @f29 indices [] arguments 0 arena 0 {
    program.call @f28() {} arena 0
  }
  program.function @f30 indices [] arguments 0 arena 0 {
    program.call @f29() {} arena 0
  }
  program.function @f31 indices [] arguments 0 arena 0 {
    program.call @f30() {} arena 0
  }
  program.function @f32 indices [] arguments 0 arena 0 {
    program.call @f31() {} arena 0
  }
  program.function @f33 indices [] arguments 0 arena 0 {
    program.call @f32() {} arena 0
  }
  program.function @f34 indices [] arguments 0 arena 0 {
    program.call @f33() {} arena 0
  }
  program.function @f35 indices [] arguments 0 arena 0 {
    program.call @f34() {} arena 0
  }
  program.function @f36 indices [] arguments 0 arena 0 {
    program.call @f35() {} arena 0
  }
  program.function @f37 indices [] arguments 0 arena 0 {
    program.call @f36() {} arena 0
  }
  program.function @f38 indices [] arguments 0 arena 0 {
    program.call @f37() {} arena 0
  }
  program.function @f39 indices [] arguments 0 arena 0 {
    program.call @f38() {} arena 0
  }
  program.function @f40 indices [] arguments 0 arena 0 {
    program.call @f39() {} arena 0
  }
  program.function @f41 indices [] arguments 0 arena 0 {
    program.call @f40() {} arena 0
  }
  program.function @f42 indices [] arguments 0 arena 0 {
    program.call @f41() {} arena 0
  }
  program.function @f43 indices [] arguments 0 arena 0 {
    program.call @f42() {} arena 0
  }
  program.function @f44 indices [] arguments 0 arena 0 {
    program.call @f43() {} arena 0
  }
  program.function @f45 indices [] arguments 0 arena 0 {
    program.call @f44() {} arena 0
  }
  program.function @f46 indices [] arguments 0 arena 0 {
    program.call @f45() {} arena 0
  }
  program.function @f47 indices [] arguments 0 arena 0 {
    program.call @f46() {} arena 0
  }
  program.function @f48 indices [] arguments 0 arena 0 {
    program.call @f47() {} arena 0
  }
  program.function @f49 indices [] arguments 0 arena 0 {
    program.call @f48() {} arena 0
  }
  program.function @f50 indices [] arguments 0 arena 0 {
    program.call @f49() {} arena 0
  }
  program.function @f51 indices [] arguments 0 arena 0 {
    program.call @f50() {} arena 0
  }
  program.function @f52 indices [] arguments 0 arena 0 {
    program.call @f51() {} arena 0
  }
  program.function @f53 indices [] arguments 0 arena 0 {
    program.call @f52() {} arena 0
  }
  program.function @f54 indices [] arguments 0 arena 0 {
    program.call @f53() {} arena 0
  }
  program.function @f55 indices [] arguments 0 arena 0 {
    program.call @f54() {} arena 0
  }
  program.function @f56 indices [] arguments 0 arena 0 {
    program.call @f55() {} arena 0
  }
  program.function @f57 indices [] arguments 0 arena 0 {
    program.call @f56() {} arena 0
  }
  program.function @f58 indices [] arguments 0 arena 0 {
    program.call @f57() {} arena 0
  }
  program.function @f59 indices [] arguments 0 arena 0 {
    program.call @f58() {} arena 0
  }
  program.function @f60 indices [] arguments 0 arena 0 {
    program.call @f59() {} arena 0
  }
  program.function @f61 indices [] arguments 0 arena 0 {
    program.call @f60() {} arena 0
  }
  program.function @f62 indices [] arguments 0 arena 0 {
    program.call @f61() {} arena 0
  }
  program.function @f63 indices [] arguments 0 arena 0 {
    program.call @f62() {} arena 0
  }
  // expected-error @below {{@f64 nests calls more than 64 deep}}
  program.function @f64 indices [] arguments 0 arena 0 {
    program.call @f63() {} arena 0
  }
}
