// Runs the toy model of Kernels.c and compares it with the formula that is stated there.
#include "adapt/LanguageModel.h"
#include "ToyBundle.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace adapt;
using namespace adapt::rt;
using namespace adapt::rt::test;

namespace {

struct alignas(64) Weights {
  float scale0[16] = {ToyBundle::kScale0};
  float scale1[16] = {ToyBundle::kScale1};
  float head[16] = {1, -1, 0.5f, 2, 0, 3, -0.25f, 8};
};

using Model = LanguageModel;

class LanguageModelTest : public testing::Test {
protected:
  absl::StatusOr<std::unique_ptr<Model>> create(schema::Program proto, int threads = 2,
                                                Model::Options options = {}) {
    auto device = createCpuDevice({threads, true, false});
    if (!device.ok())
      return device.status();
    absl::StatusOr<Program> program = Program::create(std::move(proto));
    if (!program.ok())
      return program.status();
    ModelSource source;
    source.kernels = ADAPT_TEST_KERNELS;
    source.maxSeqLen = 30;
    source.vocabSize = 8;
    source.param = [this](absl::string_view name) -> absl::StatusOr<Region> {
      for (auto [known, data] :
           {std::pair("layers.0.scale", weights.scale0),
            std::pair("layers.1.scale", weights.scale1), std::pair("head", weights.head)})
        if (name == known)
          return Region{reinterpret_cast<char *>(data), 64};
      return absl::NotFoundError(absl::StrCat("no parameter '", name, "'"));
    };
    return Model::create(*std::move(device), *program, std::move(source), options);
  }

  alignas(64) Weights weights;
};

using Rows = std::vector<std::vector<float>>;

Rows reference(const std::vector<int32_t> &tokens) { return ToyBundle::reference(tokens); }

std::vector<int32_t> someTokens(int count, int seed) {
  std::vector<int32_t> tokens(count);
  for (int i = 0; i < count; ++i)
    tokens[i] = (i * 5 + seed * 3 + i / 3) % 8;
  return tokens;
}

/// Runs one batch; the rows of each chunk, in order.
std::vector<Rows> step(Model &model, std::vector<Model::Chunk> batch) {
  std::vector<Rows> rows(batch.size());
  absl::Status status = model.step(batch, [&](size_t chunk, int64_t, absl::Span<const float> row) {
    rows[chunk].emplace_back(row.begin(), row.end());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

TEST_F(LanguageModelTest, PrefillGivesAllRows) {
  auto model = create(toyModel());
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<int32_t> tokens = someTokens(11, 1);
  auto id = (*model)->addSequence();
  EXPECT_EQ(step(**model, {{id, tokens, Model::Logits::kAll}})[0], reference(tokens));
  EXPECT_EQ((*model)->length(id), 11);
  EXPECT_EQ((*model)->cache().blocks().numBlocks() - (*model)->cache().blocks().numFree(), 3);
}

TEST_F(LanguageModelTest, RaggedBatchesMixPrefillAndDecode) {
  for (int threads : {1, 2, 3}) {
    // Small limits, so that batches are cut: 5 tokens, 2 sequences, 3 rows a run.
    for (auto [maxT, maxS, maxL] : {std::tuple(16, 4, 16), std::tuple(5, 2, 3)}) {
      auto model = create(toyModel(maxT, maxS, maxL), threads, {0, 0, /*poison=*/true});
      ASSERT_TRUE(model.ok()) << model.status();
      constexpr int kSequences = 4;
      const int lengths[kSequences] = {3, 13, 1, 7};
      std::vector<Model::SequenceId> ids;
      std::vector<std::vector<int32_t>> tokens;
      std::vector<Model::Chunk> batch;
      for (int s = 0; s < kSequences; ++s) {
        ids.push_back((*model)->addSequence());
        tokens.push_back(someTokens(lengths[s] + 6, s));
      }
      auto chunk = [&](int s, int begin, int count, Model::Logits logits) {
        return Model::Chunk{ids[s], absl::MakeConstSpan(tokens[s]).subspan(begin, count), logits};
      };
      // Prefill of all; then decode of two beside a chunk of prefill of the others.
      for (int s = 0; s < kSequences; ++s)
        batch.push_back(
            chunk(s, 0, lengths[s], s % 2 ? Model::Logits::kLast : Model::Logits::kAll));
      std::vector<Rows> rows = step(**model, batch);
      for (int s = 0; s < kSequences; ++s) {
        Rows all = reference(tokens[s]);
        Rows wanted =
            s % 2 ? Rows{all[lengths[s] - 1]} : Rows(all.begin(), all.begin() + lengths[s]);
        EXPECT_EQ(rows[s], wanted) << "sequence " << s;
      }
      rows = step(**model,
                  {chunk(2, 1, 1, Model::Logits::kLast), chunk(0, 3, 6, Model::Logits::kAll),
                   chunk(3, 7, 5, Model::Logits::kNone), chunk(1, 13, 1, Model::Logits::kLast)});
      EXPECT_EQ(rows[0], Rows{reference(tokens[2])[1]});
      Rows all = reference(tokens[0]);
      EXPECT_EQ(rows[1], Rows(all.begin() + 3, all.begin() + 9));
      EXPECT_TRUE(rows[2].empty());
      EXPECT_EQ(rows[3], Rows{reference(tokens[1])[13]});
      EXPECT_EQ(step(**model, {chunk(3, 12, 1, Model::Logits::kLast)})[0],
                Rows{reference(tokens[3])[12]});
    }
  }
}

TEST_F(LanguageModelTest, ChunksOfAnySizeAreOnePrefill) {
  std::vector<int32_t> tokens = someTokens(30, 5);
  for (int size = 1; size <= 30; ++size) {
    auto model = create(toyModel(7));
    ASSERT_TRUE(model.ok()) << model.status();
    auto id = (*model)->addSequence();
    Rows rows;
    for (int at = 0; at < 30; at += size) {
      std::vector<Rows> more =
          step(**model, {{id, absl::MakeConstSpan(tokens).subspan(at, size), Model::Logits::kAll}});
      rows.insert(rows.end(), more[0].begin(), more[0].end());
    }

    EXPECT_EQ(rows, reference(tokens)) << size;
  }
}

TEST_F(LanguageModelTest, BlocksComeBackAndAreUsedAgain) {
  Model::Options options;
  options.cacheTokens = 32; // 8 blocks
  auto model = create(toyModel(), 2, options);
  ASSERT_TRUE(model.ok()) << model.status();
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> a = someTokens(14, round), b = someTokens(15, round + 1);
    auto first = (*model)->addSequence(), second = (*model)->addSequence();
    std::vector<Rows> rows =
        step(**model, {{first, a, Model::Logits::kLast}, {second, b, Model::Logits::kLast}});
    EXPECT_EQ(rows[0], Rows{reference(a).back()});
    EXPECT_EQ(rows[1], Rows{reference(b).back()});
    (*model)->removeSequence(first);
    (*model)->removeSequence(second);
    (*model)->removeSequence(second);
    EXPECT_EQ((*model)->cache().blocks().numFree(), 8);
  }
}

TEST_F(LanguageModelTest, RefusesBatchesBeforeRunning) {
  Model::Options options;
  options.cacheTokens = 32;
  auto model = create(toyModel(), 2, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto a = (*model)->addSequence(), b = (*model)->addSequence();
  std::vector<int32_t> four = {1, 2, 3, 4}, bad = {1, 8, 2}, negative = {-1}, none;
  std::vector<int32_t> most = someTokens(30, 0), tooMany = someTokens(31, 0);
  auto refuse = [&](std::vector<Model::Chunk> batch, absl::StatusCode code,
                    const std::string &words) {
    absl::Status status = (*model)->step(
        batch, [](size_t, int64_t, absl::Span<const float>) { return absl::OkStatus(); });
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(status.message().find(words), absl::string_view::npos) << status;
    EXPECT_EQ((*model)->length(a), 0);
    EXPECT_EQ((*model)->cache().blocks().numFree(), 8);
  };
  auto invalid = absl::StatusCode::kInvalidArgument;
  refuse({{a, four}, {99, four}}, invalid, "chunk 1: no sequence 99");
  refuse({{a, four}, {a, four}}, invalid, "appears twice");
  refuse({{a, none}}, invalid, "no tokens");
  refuse({{a, bad}}, invalid, "token 8 at 1 is outside the vocabulary of 8");
  refuse({{a, negative}, {b, bad}}, invalid, "token -1 at 0");
  refuse({{a, tooMany}}, absl::StatusCode::kOutOfRange, "would have 31 tokens");
  refuse({{a, most}, {b, four}}, absl::StatusCode::kResourceExhausted,
         "needs 9 more blocks of 4 tokens, 8 of 8 are free");
  // After all that it still works.
  EXPECT_EQ(step(**model, {{a, most}})[0], Rows{reference(most).back()});
  std::vector<int32_t> one = {1};
  absl::Status status = (*model)->step(
      {{a, one}}, [](size_t, int64_t, absl::Span<const float>) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
}

TEST_F(LanguageModelTest, ASinksErrorEndsTheStep) {
  auto model = create(toyModel());
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<int32_t> tokens = someTokens(5, 1);
  int calls = 0;
  absl::Status status =
      (*model)->step({{(*model)->addSequence(), tokens, Model::Logits::kAll}},
                     [&](size_t, int64_t, absl::Span<const float>) {
                       return ++calls == 2 ? absl::CancelledError("enough") : absl::OkStatus();
                     });
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(calls, 2);
}

TEST_F(LanguageModelTest, AProgramThatNeedsARowGetsOne) {
  schema::Program program = toyModel();
  program.mutable_symbols(3)->set_min(1);
  auto model = create(program);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<int32_t> tokens = someTokens(6, 1);
  auto id = (*model)->addSequence();
  absl::Span<const int32_t> all = tokens;
  EXPECT_TRUE(step(**model, {{id, all.subspan(0, 4), Model::Logits::kNone}})[0].empty());
  EXPECT_EQ(step(**model, {{id, all.subspan(4)}})[0], Rows{reference(tokens).back()});
}

TEST_F(LanguageModelTest, RefusesPrograms) {
  using Change = void (*)(schema::Program &);
  struct {
    Change change;
    const char *words;
  } cases[] = {
      {[](schema::Program &p) { p.mutable_entries(0)->set_kind("graph"); }, "of kind 'graph'"},
      {[](schema::Program &p) { p.mutable_entries(0)->set_name("other"); },
       "no entry point 'main'; the program has: other"},
      {[](schema::Program &p) { p.mutable_entries(0)->set_block_tokens(0); }, "block_tokens is 0"},
      {[](schema::Program &p) { p.mutable_entries(0)->mutable_inputs(1)->set_name("places"); },
       "no port 'positions'"},
      {[](schema::Program &p) {
         p.mutable_functions(0)->mutable_buffers(0)->set_element(schema::I64);
         p.mutable_functions(0)->mutable_buffers(0)->set_bytes(1 << 20);
       },
       "port 'token_ids' is I64 of rank 1, must be I32 of rank 1"},
      {[](schema::Program &p) {
         p.mutable_functions(0)->mutable_buffers(1)->mutable_shape(0)->set_symbol("S");
       },
       "port 'positions' axis 0"},
      {[](schema::Program &p) {
         p.mutable_functions(0)->mutable_buffers(3)->mutable_shape(0)->set_symbol("T");
       },
       "size 'T' is another port's too"},
      {[](schema::Program &p) {
         *p.add_symbols() = p.symbols(0);
         p.mutable_symbols(4)->set_name("X");
       },
       "symbol 'X' is bound by no port"},
      {[](schema::Program &p) { p.mutable_symbols(0)->set_min(2); }, "at least 2 tokens"},
      {[](schema::Program &p) {
         p.mutable_functions(0)->mutable_buffers(6)->mutable_shape(1)->set_constant(9);
       },
       "port 'logits' has 9 columns, the vocabulary 8 entries"},
      {[](schema::Program &p) {
         p.mutable_functions(1)->mutable_buffers(5)->set_param("layers.{layer}.other");
       },
       "no parameter 'layers.0.other'\n  no parameter 'layers.1.other'"},
      {[](schema::Program &p) { p.mutable_functions(1)->mutable_buffers(5)->set_bytes(1000); },
       "parameter 'layers.0.scale' has 64 bytes, buffer 'scale' needs 1000"},
      {[](schema::Program &p) {
         p.mutable_kernels(0)->mutable_variants(0)->set_symbol("absent_a");
         p.mutable_kernels(3)->mutable_variants(0)->set_symbol("absent_b");
       },
       "2 of 5 kernels are missing: absent_a, absent_b"},
  };
  for (const auto &test : cases) {
    schema::Program program = toyModel();
    test.change(program);
    auto model = create(program);
    ASSERT_FALSE(model.ok()) << test.words;
    EXPECT_NE(model.status().message().find(test.words), absl::string_view::npos) << model.status();
  }
}

TEST_F(LanguageModelTest, LimitsOfOptions) {
  Model::Options options;
  options.maxSeqLen = 10;
  auto model = create(toyModel(), 1, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->maxSeqLen(), 10);
  options.maxSeqLen = 31;
  EXPECT_EQ(create(toyModel(), 1, options).status().code(), absl::StatusCode::kInvalidArgument);
}

} // namespace
