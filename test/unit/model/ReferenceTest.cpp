// Imported modules, run by the interpreter, against what transformers computes from the same
// checkpoints (test/import/data/make_variants.py).
#include "adapt/Import/Checkpoint.h"
#include "adapt/Interpreter/LanguageModel.h"
#include "adapt/Interpreter/Sources.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/TestFiles.h"
#include "weights/Checkpoint.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace adapt;

namespace {

template <typename T> std::vector<T> readTensor(const weights::Checkpoint &file, const char *name) {
  auto tensor = file.find(name);
  EXPECT_TRUE(tensor) << name;
  auto data = file.data(*tensor);
  EXPECT_TRUE(data.ok()) << data.status();
  std::vector<T> values(data->size() / sizeof(T));
  std::memcpy(values.data(), data->data(), data->size());
  return values;
}

class Reference : public testing::TestWithParam<const char *> {};

TEST_P(Reference, Logits) {
  mlir::MLIRContext context;
  test::Diagnostics diagnostics(&context);
  ImportOptions options;
  options.path = std::string(ADAPT_TEST_DIR "/import/data/variants/") + GetParam();
  options.dtype = "float32";
  auto module = importCheckpoint(&context, options);
  ASSERT_TRUE(module) << diagnostics.text;
  auto checkpoint = weights::Checkpoint::open(options.path);
  auto expected = weights::Checkpoint::open(options.path + "/expected.safetensors");
  ASSERT_TRUE(checkpoint.ok() && expected.ok());
  std::vector<int64_t> ids = readTensor<int64_t>(**expected, "input_ids");
  std::vector<float> reference = readTensor<float>(**expected, "logits");

  interp::Interpreter interpreter(*module, {interp::Mode::Wide, 4, interp::readFrom(**checkpoint)});
  interp::TokenBatch batch;
  batch.batch = 1;
  batch.length = ids.size();
  batch.ids = ids;
  batch.chunk = 5;
  auto logits = interp::runLanguageModel(interpreter, interpreter.lookup("main"), batch);
  ASSERT_TRUE(mlir::succeeded(logits)) << diagnostics.text;
  double error = 0, largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    error = std::max(error, std::abs(logits->getAsDouble(i) - reference[i]));
    largest = std::max(largest, double(std::abs(reference[i])));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_LT(error / largest, 5e-6);
}

INSTANTIATE_TEST_SUITE_P(Variants, Reference,
                         testing::Values("llama-bias", "llama-tied", "llama-head-dim",
                                         "llama-rope-linear", "llama-rope-llama3",
                                         "qwen3-bias-tied"));

} // namespace
