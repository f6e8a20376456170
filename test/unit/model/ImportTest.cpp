#include "TestCheckpoint.h"
#include "adapt/Import/Checkpoint.h"
#include "gmock/gmock.h"

using namespace adapt;
using namespace adapt::test;

TEST(Import, TinyModels) {
  mlir::MLIRContext context;
  for (const char *name : {"llama", "qwen3"}) {
    ImportOptions options;
    options.path = std::string(ADAPT_TEST_DIR "/e2e/data/tiny-") + name;
    EXPECT_TRUE(bool(importCheckpoint(&context, options))) << name;
  }
}
