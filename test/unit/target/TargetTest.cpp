#include "adapt/Target/Target.h"
#include "dialects/Adapt/AdaptDialect.h"
#include "mlir/IR/Builders.h"
#include "support/TestFiles.h"
#include "gmock/gmock.h"

using namespace adapt;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class TargetFile : public testing::Test {
protected:
  mlir::FailureOr<Target> load(llvm::StringRef spec) {
    return loadTarget(&context, spec, {folder.str()});
  }
  mlir::MLIRContext context;
  test::Diagnostics diagnostics{&context};
  test::TempFolder folder;
};

TEST_F(TargetFile, Cpu) {
  auto target = load("cpu:znver4");
  ASSERT_TRUE(mlir::succeeded(target)) << diagnostics.text;
  EXPECT_EQ(target->name, "cpu");
  EXPECT_EQ(target->variant, "znver4");
  EXPECT_EQ(target->blockTokens, 16);
  mlir::Builder builder(&context);
  EXPECT_TRUE(target->hasElementType(builder.getBF16Type()));
  EXPECT_FALSE(target->hasElementType(builder.getF64Type()));
  ASSERT_EQ(target->memory.size(), 1u);
  EXPECT_FALSE(target->memory[0].bytes);

  mlir::DictionaryAttr attribute = target->toAttribute(
      &context, {builder.getNamedAttr("cpu", builder.getStringAttr("znver4")),
                 builder.getNamedAttr("features", builder.getStrArrayAttr({"avx2", "fma"}))});
  auto get = [&](llvm::StringRef key) { return attribute.get(key); };
  EXPECT_EQ(get("name"), builder.getStringAttr("cpu"));
  EXPECT_EQ(get("cpu"), builder.getStringAttr("znver4"));
  EXPECT_EQ(get("features"), builder.getStrArrayAttr({"avx2", "fma"}));
  EXPECT_EQ(get("block_tokens"), builder.getI64IntegerAttr(16));
  EXPECT_EQ(get("ops"), builder.getStringAttr("all"));
  EXPECT_EQ(mlir::cast<mlir::DictionaryAttr>(get("weight_layouts")).get("bf16"),
            PackedAttr::get(&context, 16, 2));

  auto plain = load("cpu");
  ASSERT_TRUE(mlir::succeeded(plain));
  EXPECT_EQ(plain->variant, "host");
}

TEST_F(TargetFile, OwnFile) {
  folder.write("npu.yaml", "schema: 1\n"
                           "target: npu\n"
                           "code_generator: none\n"
                           "element_types: [bf16]\n"
                           "ops: [matmul, add]\n"
                           "weight_layouts: {bf16: [8, 4]}\n"
                           "block_tokens: 32\n"
                           "memory: [{name: hbm, bytes: 80 GiB, bytes_per_second: 3.35 TB}]\n"
                           "links: [{name: wire, bytes_per_second: 900e9}]\n");
  EXPECT_THAT(listTargets({folder.str()}), ElementsAre("cpu", "cuda", "hip", "npu"));
  auto target = load("npu");
  ASSERT_TRUE(mlir::succeeded(target)) << diagnostics.text;
  EXPECT_EQ(target->memory[0].bytes, int64_t(80) << 30);
  EXPECT_EQ(target->memory[0].bytesPerSecond, 3.35e12);
  EXPECT_EQ(target->links[0].bytesPerSecond, 900e9);
  mlir::Builder builder(&context);
  mlir::DictionaryAttr attribute = target->toAttribute(&context, {});
  EXPECT_EQ(attribute.get("ops"), builder.getStrArrayAttr({"matmul", "add"}));
  EXPECT_FALSE(attribute.get("cpu"));
  EXPECT_TRUE(mlir::failed(load("npu:fast")));
  EXPECT_THAT(diagnostics.text, HasSubstr("the target npu has no variants"));
}

TEST_F(TargetFile, Refused) {
  const std::string start = "schema: 1\ntarget: t\ncode_generator: cpu\nelement_types: [f32]\n";
  const std::pair<std::string, const char *> cases[] = {
      {"schema: 2\ntarget: t\ncode_generator: cpu\nelement_types: [f32]\n",
       "schema version 2; this compiler reads version 1"},
      {"schema: 1\ntarget: u\ncode_generator: cpu\nelement_types: [f32]\n",
       "the file of target t describes 'u'"},
      {"schema: 1\ntarget: t\ncode_generator: gpu\nelement_types: [f32]\n",
       "there is no code generator 'gpu'"},
      {"schema: 1\ntarget: t\ncode_generator: cpu\nelement_types: [f31]\n",
       "there is no element type 'f31' (did you mean 'f32'?)"},
      {"schema: 1\ntarget: t\ncode_generator: cpu\n", "a target lacks the key 'element_types'"},
      {start + "keeps: [rms_nrom]\n",
       "there is no operation 'rms_nrom' (did you mean 'rms_norm'?)"},
      {start + "ops: [matmull]\n", "there is no operation 'matmull' (did you mean 'matmul'?)"},
      {start + "block_token: 4\n",
       "a target has no key 'block_token' (did you mean 'block_tokens'?)"},
      {start + "block_tokens: 0\n", "block_tokens must be an integer from 1 to 4096"},
      {start + "weight_layouts: {bf16: [16, 2]}\n",
       "'bf16' is not among the target's element types"},
      {start + "weight_layouts: {f32: [16]}\n", "a layout is two numbers"},
      {start + "weight_layouts: {f32: [0, 1]}\n", "rows must be an integer from 1 to 1024"},
      {start + "memory: [{name: hbm, bytes: 80 GiBit}]\n", "must be a number of bytes"},
      {start + "memory: [{name: hbm, size: 80}]\n", "a memory has no key 'size'"},
      {start + "memory: {name: hbm}\n", "'memory' must be a list, not a map"},
      {start + "links: [{bytes_per_second: 1}]\n", "a link lacks the key 'name'"},
  };
  for (const auto &[text, expected] : cases) {
    folder.write("t.yaml", text);
    diagnostics.text.clear();
    EXPECT_TRUE(mlir::failed(load("t"))) << text;
    EXPECT_THAT(diagnostics.text, HasSubstr(expected)) << text;
    EXPECT_THAT(diagnostics.text, HasSubstr("t.yaml")) << text;
  }
}

TEST_F(TargetFile, Unknown) {
  EXPECT_TRUE(mlir::failed(load("cpuu")));
  EXPECT_THAT(diagnostics.text,
              HasSubstr("there is no target 'cpuu' (did you mean 'cpu'?); there are cpu"));
  EXPECT_TRUE(mlir::failed(load("../targets/cpu")));
  EXPECT_TRUE(mlir::failed(load("")));
  EXPECT_TRUE(mlir::failed(load("cpu:")));
}

} // namespace
