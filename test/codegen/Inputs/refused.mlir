!x = tensor<?x8xf16, #adapt.dims<[s0, 8]>>
adapt.kernel @half(%x: !x) -> !x attributes {adapt.symbols = ["s0"]} {
  %y = adapt.add %x, %x : !x
  adapt.yield %y : !x
}
!k = tensor<?x3x64xbf16, #adapt.dims<[s0, 3, 64]>>
!s = !adapt.paged<tensor<3x64xbf16>, tensor<3x64xbf16>>
!starts = tensor<?xi32, #adapt.dims<[s1 + 1]>>
!lens = tensor<?xi32, #adapt.dims<[s1]>>
!table = tensor<?x?xi32, #adapt.dims<[s1, s2]>>
adapt.kernel @state(%k: !k, %s: !s, %starts: !starts, %lens: !lens, %table: !table) -> !s
    attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %v = adapt.add %k, %k : !k
  %n = adapt.paged_append %k, %v, %s at %starts, %lens, %table
      : (!k, !k, !s, !starts, !lens, !table) -> !s
  adapt.yield %n : !s
}
