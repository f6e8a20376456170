// Programs that are not sound are refused, each with the right words.
#include "adapt/Program.h"
#include "Programs.h"

#include "gtest/gtest.h"

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

TEST(Program, AcceptsTheToyModel) {
  absl::StatusOr<Program> program = Program::parse(toyModel().SerializeAsString());
  ASSERT_TRUE(program.ok()) << program.status();
  absl::StatusOr<const schema::EntryPoint *> entry = program->findEntry("main");
  ASSERT_TRUE(entry.ok());
  absl::StatusOr<std::vector<std::string>> params = program->params(**entry);
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(*params, (std::vector<std::string>{"head", "layers.0.scale", "layers.1.scale"}));
  EXPECT_EQ(program->findEntry("prefill").status().message(),
            "no entry point 'prefill'; the program has: main");
}

TEST(Program, RefusesBytesThatAreNone) {
  std::string bytes = toyModel().SerializeAsString();
  EXPECT_FALSE(Program::parse(bytes.substr(0, bytes.size() - 3)).ok());
  EXPECT_FALSE(Program::parse("not a program").ok());
  EXPECT_FALSE(Program::parse("").ok());
}

using Change = void (*)(schema::Program &);
struct Fault {
  const char *words;
  Change change;
};

schema::Function &mainOf(schema::Program &p) { return *p.mutable_functions(0); }
schema::Function &layerOf(schema::Program &p) { return *p.mutable_functions(1); }
schema::Step::Call &callOf(schema::Program &p) {
  return *mainOf(p).mutable_steps(1)->mutable_call();
}
schema::Step::Launch &launchOf(schema::Program &p) {
  return *mainOf(p).mutable_steps(0)->mutable_launch();
}
schema::Kernel::Variant &variantOf(schema::Program &p) {
  return *p.mutable_kernels(3)->mutable_variants(0);
}

const Fault kFaults[] = {
    {"program version 2, but this runtime reads version 1",
     [](schema::Program &p) { p.set_version(2); }},
    {"no entry point", [](schema::Program &p) { p.clear_entries(); }},
    // Symbols.
    {"two symbols named 'T'", [](schema::Program &p) { *p.add_symbols() = p.symbols(0); }},
    {"symbol without a name", [](schema::Program &p) { p.mutable_symbols(0)->set_name(""); }},
    {"symbol 'T': bounds -1 to 16", [](schema::Program &p) { p.mutable_symbols(0)->set_min(-1); }},
    {"symbol 'T': bounds 17 to 16", [](schema::Program &p) { p.mutable_symbols(0)->set_min(17); }},
    // Kernels.
    {"two kernels named 'append'",
     [](schema::Program &p) { p.mutable_kernels(0)->set_name("append"); }},
    {"kernel 'append': two sizes named 't'",
     [](schema::Program &p) { p.mutable_kernels(1)->set_sizes(1, "t"); }},
    {"kernel 'embed': no variant",
     [](schema::Program &p) { p.mutable_kernels(0)->clear_variants(); }},
    {"kernel 'head': the last variant has guards",
     [](schema::Program &p) { p.mutable_kernels(3)->mutable_variants()->RemoveLast(); }},
    {"kernel 'head' variant 0: no symbol", [](schema::Program &p) { variantOf(p).set_symbol(""); }},
    {"kernel 'head' variant 0: guard on unknown size 'T'",
     [](schema::Program &p) { variantOf(p).mutable_guards(0)->set_size("T"); }},
    {"guard on 'l' from 2 to 1 can never hold",
     [](schema::Program &p) { variantOf(p).mutable_guards(0)->set_min(2); }},
    {"kernel 'head' variant 0: blocks of 1025 threads, at most 1024 are possible",
     [](schema::Program &p) { variantOf(p).set_threads(1025); }},
    {"some kernels have threads, as of a GPU, and some have none, as of a CPU",
     [](schema::Program &p) { variantOf(p).set_threads(64); }},
    {"kernel 'head' variant 0: 128 bytes of shared memory, a CPU's kernel has none",
     [](schema::Program &p) { variantOf(p).set_shared_bytes(128); }},
    {"kernel 'attend' variant 0: 64 bytes of scratch, a GPU's kernel has none",
     [](schema::Program &p) {
       p.mutable_kernels(2)->mutable_variants(0)->set_threads(64);
     }},
    {"kernel 'head' variant 0: 1048577 bytes of shared memory, at most 1048576 are possible",
     [](schema::Program &p) {
       variantOf(p).set_threads(64);
       variantOf(p).set_shared_bytes((1 << 20) + 1);
     }},
    {"function 'main' step 0: 600 buffers and 1 sizes, a GPU's kernel has at most 512 arguments",
     [](schema::Program &p) {
       variantOf(p).set_threads(64);
       for (int i = launchOf(p).buffers_size(); i < 600; ++i)
         launchOf(p).add_buffers(0);
     }},
    {"grid of 0 extents", [](schema::Program &p) { variantOf(p).clear_grid(); }},
    {"grid of 4 extents",
     [](schema::Program &p) {
       for (int i = 0; i < 3; ++i)
         variantOf(p).add_grid()->set_constant(1);
     }},
    {"kernel 'head' variant 0 grid: unknown symbol 'T'",
     [](schema::Program &p) { variantOf(p).mutable_grid(0)->set_symbol("T"); }},
    {"bytes of scratch",
     [](schema::Program &p) { variantOf(p).set_scratch_bytes(uint64_t(1) << 40); }},
    // States.
    {"state 'kv.0': unknown element type 77",
     [](schema::Program &p) {
       p.mutable_states(0)->set_element(static_cast<schema::ElementType>(77));
     }},
    {"state 'kv.0': 0 bytes a block",
     [](schema::Program &p) { p.mutable_states(0)->set_bytes_per_block(0); }},
    {"state 'kv.0': 100 bytes a block",
     [](schema::Program &p) { p.mutable_states(0)->set_bytes_per_block(100); }},
    // Functions and buffers.
    {"two functions named 'main'", [](schema::Program &p) { layerOf(p).set_name("main"); }},
    {"function 'layer': index 'layer' is empty or appears twice",
     [](schema::Program &p) { layerOf(p).add_indices("layer"); }},
    {"function 'main' buffer 7 'x': unknown element type 0",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->clear_element(); }},
    {"function 'main' buffer 7 'x': no storage",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->clear_arena_offset(); }},
    {"buffer 7 'x': arena offset 32 is not a multiple of 64",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->set_arena_offset(32); }},
    {"buffer 7 'x': bytes 8128 + 4096 leave the function's arena of 8192",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->set_arena_offset(8128); }},
    {"buffer 7 'x': bytes 18446744073709551552 + 4096 leave",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->set_arena_offset(~uint64_t(63)); }},
    {"buffer 7 'x': its shape needs 64 bytes at the symbols' maxima, it has 63",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->set_bytes(63); }},
    {"buffer 7 'x' shape: unknown symbol 'Q'",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->mutable_shape(0)->set_symbol("Q"); }},
    {"buffer 7 'x': its shape has no size",
     [](schema::Program &p) { mainOf(p).mutable_buffers(7)->mutable_shape(0)->set_constant(-1); }},
    {"buffer 7 'x': its shape has no size",
     [](schema::Program &p) {
       mainOf(p).mutable_buffers(7)->add_shape()->set_constant(INT64_MAX);
     }},
    {"buffer 7 'x': rank 17, at most 16",
     [](schema::Program &p) {
       for (int i = 0; i < 16; ++i)
         mainOf(p).mutable_buffers(7)->add_shape()->set_constant(1);
     }},
    {"buffer 0 'token_ids': argument 7 of 7",
     [](schema::Program &p) { mainOf(p).mutable_buffers(0)->set_argument(7); }},
    {"buffer 9 'kv.0': state 2 of 2",
     [](schema::Program &p) { mainOf(p).mutable_buffers(9)->set_state(2); }},
    {"buffer 5 'scale': parameter 'layers.{expert}.scale': no index 'expert' here",
     [](schema::Program &p) { layerOf(p).mutable_buffers(5)->set_param("layers.{expert}.scale"); }},
    {"parameter 'layers.{layer.scale': braces do not match",
     [](schema::Program &p) { layerOf(p).mutable_buffers(5)->set_param("layers.{layer.scale"); }},
    {"parameter 'layers.layer}': braces do not match",
     [](schema::Program &p) { layerOf(p).mutable_buffers(5)->set_param("layers.layer}"); }},
    {"parameter without a name",
     [](schema::Program &p) { layerOf(p).mutable_buffers(5)->set_param(""); }},
    // Steps.
    {"function 'main' step 0: kernel 4 of 4",
     [](schema::Program &p) { launchOf(p).set_kernel(4); }},
    {"function 'main' step 0: buffer 11 of 11",
     [](schema::Program &p) { launchOf(p).set_buffers(0, 11); }},
    {"function 'main' step 0: 2 sizes for kernel 'embed', which has 1",
     [](schema::Program &p) { launchOf(p).add_sizes()->set_constant(1); }},
    {"function 'main' step 0 size: unknown symbol 't'",
     [](schema::Program &p) { launchOf(p).mutable_sizes(0)->set_symbol("t"); }},
    {"function 'main' step 0 size: empty expression",
     [](schema::Program &p) { launchOf(p).mutable_sizes(0)->Clear(); }},
    {"function 'main' step 0: none of launch, call, copy, collective and transfer",
     [](schema::Program &p) { mainOf(p).mutable_steps(0)->Clear(); }},
    {"function 'layer' step 2: buffer 7 of 7",
     [](schema::Program &p) { layerOf(p).mutable_steps(2)->mutable_copy()->set_to(7); }},
    {"function 'layer' step 2 bytes: empty expression",
     [](schema::Program &p) { layerOf(p).mutable_steps(2)->mutable_copy()->clear_bytes(); }},
    // Calls.
    {"step 1: function 2 of 2", [](schema::Program &p) { callOf(p).set_function(2); }},
    {"step 1 (call of 'layer'): index 'layer' is not bound",
     [](schema::Program &p) { callOf(p).clear_bindings(); }},
    {"step 1 (call of 'layer'): binds 'expert', which is no index",
     [](schema::Program &p) { (*callOf(p).mutable_bindings())["expert"] = 1; }},
    {"step 1 (call of 'layer'): arena offset 4000 is not a multiple of 64",
     [](schema::Program &p) { callOf(p).set_arena_offset(4000); }},
    {"step 1 (call of 'layer'): arena bytes 4160 + 4096 leave the caller's arena of 8192",
     [](schema::Program &p) { callOf(p).set_arena_offset(4160); }},
    {"step 1 (call of 'layer'): 4 arguments, the function has 5",
     [](schema::Program &p) { callOf(p).mutable_arguments()->RemoveLast(); }},
    {"step 1 (call of 'layer'): buffer 99 of 11",
     [](schema::Program &p) { callOf(p).set_arguments(0, 99); }},
    {"argument 1 'positions' is of type I32, 'x' was given, of type F32",
     [](schema::Program &p) { callOf(p).set_arguments(1, 7); }},
    {"argument 0 'x' has 8192 bytes, 'x' was given, of 4096",
     [](schema::Program &p) { layerOf(p).mutable_buffers(0)->set_bytes(8192); }},
    {"function 'layer' calls itself, by way of 'layer'",
     [](schema::Program &p) {
       schema::Step::Call &call = *layerOf(p).add_steps()->mutable_call();
       call.set_function(1);
     }},
    {"function 'main' calls itself, by way of 'layer'",
     [](schema::Program &p) { layerOf(p).add_steps()->mutable_call()->set_function(0); }},
    {"calls nested 101 deep, at most 64",
     [](schema::Program &p) {
       for (int i = 0; i < 99; ++i) {
         schema::Function &function = *p.add_functions();
         function.set_name("f" + std::to_string(i));
         if (i < 98)
           function.add_steps()->mutable_call()->set_function(3 + i);
       }
       layerOf(p).add_steps()->mutable_call()->set_function(2);
     }},
    // Entry points.
    {"two entry points named 'main'", [](schema::Program &p) { *p.add_entries() = p.entries(0); }},
    {"entry point 'main': kind 'diffusion'",
     [](schema::Program &p) { p.mutable_entries(0)->set_kind("diffusion"); }},
    {"entry point 'main': function 2 of 2",
     [](schema::Program &p) { p.mutable_entries(0)->set_function(2); }},
    {"entry point 'main': function 'layer' has indices",
     [](schema::Program &p) { p.mutable_entries(0)->set_function(1); }},
    {"function 'main' needs 8192 bytes of arena, the program has 4096",
     [](schema::Program &p) { p.set_arena_bytes(4096); }},
    {"entry point 'main' port 'token_ids': buffer 11 of 11",
     [](schema::Program &p) { p.mutable_entries(0)->mutable_inputs(0)->set_buffer(11); }},
    {"port 'token_ids': buffer 'kv.0' is neither an argument nor in the arena",
     [](schema::Program &p) {
       mainOf(p).mutable_buffers(9)->set_bytes(64);
       p.mutable_entries(0)->mutable_inputs(0)->set_buffer(9);
     }},
    {"port 'token_ids': buffer 'token_ids' has no bytes",
     [](schema::Program &p) { mainOf(p).mutable_buffers(0)->set_bytes(0); }},
    {"an argument of function 'main' is neither an input nor an output",
     [](schema::Program &p) { p.mutable_entries(0)->mutable_inputs()->RemoveLast(); }},
    {"an argument of function 'main' is neither an input nor an output",
     [](schema::Program &p) { mainOf(p).set_num_arguments(4000000000u); }},
    {"two ports named 'positions'",
     [](schema::Program &p) { p.mutable_entries(0)->mutable_inputs(0)->set_name("positions"); }},
};

TEST(Program, RefusesEveryFault) {
  for (const Fault &fault : kFaults) {
    schema::Program program = toyModel();
    fault.change(program);
    absl::StatusOr<Program> result = Program::parse(program.SerializeAsString());
    ASSERT_FALSE(result.ok()) << fault.words;
    EXPECT_NE(result.status().message().find(fault.words), absl::string_view::npos)
        << "wanted: " << fault.words << "\ngot: " << result.status().message();
  }
}

schema::Step::Collective &collectiveOf(schema::Program &p) {
  return *layerOf(p).mutable_steps(3)->mutable_collective();
}
schema::Step::Transfer &transferOf(schema::Program &p) {
  return *layerOf(p).mutable_steps(4)->mutable_transfer();
}

const Fault kExchangeFaults[] = {
    {"symbol 'tp_rank': coordinates of the mesh begin at 0, not at 1",
     [](schema::Program &p) { p.mutable_symbols(4)->set_min(1); }},
    {"function 'layer' step 3 (collective): buffer 7 of 7",
     [](schema::Program &p) { collectiveOf(p).set_from(7); }},
    {"step 3 (collective): buffer 7 of 7", [](schema::Program &p) { collectiveOf(p).set_to(7); }},
    {"step 3 (collective): unknown kind 9",
     [](schema::Program &p) {
       collectiveOf(p).set_kind(static_cast<schema::Step::Collective::Kind>(9));
     }},
    {"step 3 (collective): the mesh has no axis ''",
     [](schema::Program &p) { collectiveOf(p).clear_axis(); }},
    {"step 3 (collective): the mesh has no axis 'xp'",
     [](schema::Program &p) { collectiveOf(p).set_axis("xp"); }},
    {"step 3 (collective): the program has no symbol 'ep_rank'",
     [](schema::Program &p) { collectiveOf(p).set_axis("ep"); }},
    {"step 3 (collective) outer: unknown symbol 'tp_rank'",
     [](schema::Program &p) { collectiveOf(p).mutable_outer()->set_symbol("tp_rank"); }},
    {"step 3 (collective) outer: empty expression",
     [](schema::Program &p) { collectiveOf(p).clear_outer(); }},
    {"step 3 (collective) inner: has no value at the symbols' maxima",
     [](schema::Program &p) { collectiveOf(p).mutable_inner()->set_constant(-1); }},
    {"step 3 (collective): 16 * 9223372036854775807 elements",
     [](schema::Program &p) { collectiveOf(p).mutable_inner()->set_constant(INT64_MAX); }},
    {"step 3 (collective): 16 * 32 elements of 1048576 + 1 ranks are too many",
     [](schema::Program &p) { p.mutable_symbols(4)->set_max(1 << 20); }},
    {"step 3 (collective): needs 4160 bytes of buffer 'y' at the symbols' maxima, it has 4096",
     [](schema::Program &p) { collectiveOf(p).mutable_inner()->set_constant(65); }},
    {"step 3 (collective): needs 4224 bytes of buffer 'x' at the symbols' maxima",
     [](schema::Program &p) {
       collectiveOf(p).set_kind(schema::Step::Collective::ALL_GATHER);
       collectiveOf(p).mutable_inner()->set_constant(33);
     }},
    {"step 3 (collective): needs 4224 bytes of buffer 'y' at the symbols' maxima",
     [](schema::Program &p) {
       collectiveOf(p).set_kind(schema::Step::Collective::REDUCE_SCATTER);
       collectiveOf(p).mutable_inner()->set_constant(33);
     }},
    {"step 3 (collective): from and to are the same buffer 'x'",
     [](schema::Program &p) {
       collectiveOf(p).set_kind(schema::Step::Collective::ALL_GATHER);
       collectiveOf(p).set_from(0);
     }},
    {"step 3 (collective): from 'y' of type F32 to 'positions' of type I32",
     [](schema::Program &p) { collectiveOf(p).set_to(1); }},
    {"step 3 (collective): of type F64, possible are F32, BF16, F16 and I32",
     [](schema::Program &p) {
       for (int b : {0, 6})
         layerOf(p).mutable_buffers(b)->set_element(schema::F64);
     }},
    {"step 3 (collective): buffer 'scale' is neither in the arena nor an argument",
     [](schema::Program &p) { collectiveOf(p).set_from(5); }},
    {"step 3 (collective): buffer 'kv' has no bytes",
     [](schema::Program &p) { collectiveOf(p).set_to(4); }},
    {"step 4 (transfer): buffer 7 of 7", [](schema::Program &p) { transferOf(p).set_buffer(7); }},
    {"step 4 (transfer): unknown direction 2",
     [](schema::Program &p) {
       transferOf(p).set_direction(static_cast<schema::Step::Transfer::Direction>(2));
     }},
    {"step 4 (transfer): needs 4097 bytes of buffer 'x'",
     [](schema::Program &p) { transferOf(p).mutable_bytes()->set_constant(4097); }},
    {"step 4 (transfer) bytes: has no value at the symbols' maxima",
     [](schema::Program &p) { transferOf(p).mutable_bytes()->set_constant(-4); }},
    {"step 4 (transfer) bytes: unknown symbol 'Q'",
     [](schema::Program &p) { transferOf(p).mutable_bytes()->set_symbol("Q"); }},
    {"step 4 (transfer): stage 4000000000",
     [](schema::Program &p) { transferOf(p).set_peer_stage(4000000000u); }},
    {"step 4 (transfer): tag 16384 is not less than 16384",
     [](schema::Program &p) { transferOf(p).set_tag(16384); }},
    {"step 4 (transfer): buffer 'scale' is neither in the arena nor an argument",
     [](schema::Program &p) { transferOf(p).set_buffer(5); }},
};

TEST(Program, RefusesEveryFaultOfExchanges) {
  absl::StatusOr<Program> good = Program::create(exchangingModel());
  ASSERT_TRUE(good.ok()) << good.status();
  for (const Fault &fault : kExchangeFaults) {
    schema::Program program = exchangingModel();
    fault.change(program);
    absl::StatusOr<Program> result = Program::parse(program.SerializeAsString());
    ASSERT_FALSE(result.ok()) << fault.words;
    EXPECT_NE(result.status().message().find(fault.words), absl::string_view::npos)
        << "wanted: " << fault.words << "\ngot: " << result.status().message();
  }
}

TEST(Program, AxesOfTheMesh) {
  EXPECT_EQ(meshAxis("tp_rank"), "tp");
  EXPECT_EQ(meshAxis("ep_rank"), "ep");
  for (const char *name : {"T", "tp", "_rank", "xp_rank", "tp_ranks", "ttp_rank"})
    EXPECT_FALSE(meshAxis(name)) << name;
}

TEST(Program, ReportsAllProblemsAtOnceAndCountsTheRest) {
  schema::Program program = toyModel();
  for (int i = 0; i < 30; ++i)
    launchOf(program).add_buffers(100 + i);
  program.set_arena_bytes(0);
  absl::Status status = validate(program);
  EXPECT_NE(status.message().find("buffer 100 of 11\n"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("buffer 119 of 11\n  and 11 more"), absl::string_view::npos)
      << status;
}

TEST(Program, Templates) {
  auto fill = [](absl::string_view name) {
    return fillTemplate(name, [](absl::string_view index) -> std::optional<int64_t> {
      if (index == "layer")
        return 7;
      if (index == "expert")
        return 12;
      return std::nullopt;
    });
  };
  EXPECT_EQ(*fill("layers.{layer}.experts.{expert}.w"), "layers.7.experts.12.w");
  EXPECT_EQ(*fill("{layer}{expert}"), "712");
  EXPECT_EQ(*fill("plain"), "plain");
  EXPECT_FALSE(fill("{}").ok());
  EXPECT_FALSE(fill("{{layer}}").ok());
}

} // namespace
