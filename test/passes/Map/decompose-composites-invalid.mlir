// RUN: adapt-opt %s --split-input-file --verify-diagnostics --adapt-decompose-composites

// expected-error @below {{the module has no attribute adapt.target}}
module {}

// -----

// All that is wrong with a target is said at once.
// expected-error @below {{adapt.target: 'name' is missing}}
// expected-error @below {{adapt.target: 'block_tokens' must be a positive integer, not 0}}
// expected-error @below {{adapt.target: 'keeps' must be a list of operation names, not 3 : i64}}
// expected-error @below {{adapt.target: 'ops' must be "all" or a list of operation names, not "some"}}
// expected-error @below {{adapt.target: 'weight_layouts' must be a dictionary from element types}}
module attributes {adapt.target = {block_tokens = 0, keeps = 3, ops = "some",
                                   weight_layouts = {f32 = "packed"}}} {}
