// Fault B03: the index is the authority; and its kind.
#include "weights/Checkpoint.h"

#include "TestFiles.h"

#include <cstring>

namespace adapt::weights {
namespace {

using test::bytesOf;
using test::message;
using test::safetensors;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointTest : public test::TempDirTest {
protected:
  absl::StatusOr<std::unique_ptr<Checkpoint>> open() {
    return Checkpoint::open(directory.string());
  }
  std::string refusal() {
    auto checkpoint = open();
    EXPECT_FALSE(checkpoint.ok());
    return message(checkpoint.status());
  }
  void index(const std::string &map) {
    write("model.safetensors.index.json", "{\"metadata\": {\"total_size\": 4, \"more\": "
                                          "[{\"deep\": [1.5, null]}]}, \"weight_map\": " +
                                              map + ", \"other\": true}");
  }
  static std::string oneFloat(const std::string &name, float value) {
    return safetensors("{\"" + name +
                           "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                       bytesOf({value}));
  }
  static float valueOf(const Checkpoint &checkpoint, const std::string &name) {
    auto source = checkpoint.source(name);
    EXPECT_TRUE(source.ok()) << source.status();
    float value = 0;
    if (source.ok() && source->data.size() == sizeof value)
      std::memcpy(&value, source->data.data(), sizeof value);
    return value;
  }
};

TEST_F(CheckpointTest, SingleFile) {
  write("model.safetensors", oneFloat("w", 3.0f));
  for (std::string path : {directory.string(), pathOf("model.safetensors")}) {
    auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ((*checkpoint)->size(), 1u);
    EXPECT_EQ(valueOf(**checkpoint, "w"), 3.0f);
    EXPECT_THAT(message((*checkpoint)->source("v").status()),
                AllOf(HasSubstr("'v'"), HasSubstr(path)));
  }
}

TEST_F(CheckpointTest, TheIndexIsTheAuthority) {
  index("{\"w\": \"two.safetensors\", \"u\": \"one.safetensors\"}");
  write("one.safetensors",
        safetensors("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                    "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                    bytesOf({1.0f, 5.0f})));
  write("two.safetensors", oneFloat("w", 2.0f));
  write("model.safetensors", oneFloat("w", 9.0f));
  write("three.safetensors", "not a safetensors file, and not named in the index");
  auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->size(), 2u);
  EXPECT_EQ((*checkpoint)->numFiles(), 2u);
  EXPECT_EQ(valueOf(**checkpoint, "w"), 2.0f);
  EXPECT_EQ(valueOf(**checkpoint, "u"), 5.0f);

  std::filesystem::remove(pathOf("two.safetensors"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'two.safetensors' is missing"), HasSubstr("index.json")));
}

TEST_F(CheckpointTest, AllMissingShardsAtOnce) {
  index("{\"a\": \"1.safetensors\", \"b\": \"2.safetensors\", \"c\": \"3.safetensors\"}");
  write("2.safetensors", oneFloat("b", 2.0f));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'1.safetensors'"), HasSubstr("'3.safetensors'"),
                               Not(HasSubstr("'2.safetensors'"))));
}

TEST_F(CheckpointTest, AllBrokenShardsAtOnce) {
  index("{\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}");
  write("1.safetensors", "");
  write("2.safetensors", "2");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("1.safetensors"), HasSubstr("2.safetensors")));
}

TEST_F(CheckpointTest, TensorAbsentFromItsShard) {
  index("{\"w\": \"1.safetensors\", \"v\": \"1.safetensors\", \"u\": \"2.safetensors\"}");
  write("1.safetensors", oneFloat("w", 2.0f));
  write("2.safetensors", oneFloat("v", 2.0f));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'v'"), HasSubstr("'u'"), Not(HasSubstr("'w'"))));
}

TEST_F(CheckpointTest, ShardNamesStayInTheDirectory) {
  std::filesystem::create_directory(pathOf("inner"));
  write("outside.safetensors", oneFloat("w", 2.0f));
  for (const std::string &shard :
       {std::string("../outside.safetensors"), pathOf("outside.safetensors"), std::string("a/../b"),
        std::string(".."), std::string(""), std::string("./x"), std::string("x\\u0000y"),
        std::string("a//b"), std::string("a/")}) {
    write("inner/model.safetensors.index.json", "{\"weight_map\":{\"w\":\"" + shard + "\"}}");
    auto checkpoint = Checkpoint::open(pathOf("inner"));
    EXPECT_THAT(message(checkpoint.status()), HasSubstr("not a file name below")) << shard;
  }
  std::filesystem::create_directory(pathOf("inner/sub"));
  write("inner/sub/x.safetensors", oneFloat("w", 4.0f));
  write("inner/model.safetensors.index.json", "{\"weight_map\":{\"w\":\"sub/x.safetensors\"}}");
  auto checkpoint = Checkpoint::open(pathOf("inner"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(valueOf(**checkpoint, "w"), 4.0f);
}

TEST_F(CheckpointTest, SymbolicLinksAreFollowed) {
  // As in the cache of the Hugging Face hub.
  std::filesystem::create_directory(pathOf("blobs"));
  std::filesystem::create_directory(pathOf("snapshot"));
  write("blobs/1234", oneFloat("w", 4.0f));
  std::filesystem::create_symlink("../blobs/1234", pathOf("snapshot/model.safetensors"));
  auto checkpoint = Checkpoint::open(pathOf("snapshot"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(valueOf(**checkpoint, "w"), 4.0f);
  // An index that leads nowhere is not passed over for the single file.
  std::filesystem::create_symlink("../blobs/5678", pathOf("snapshot/model.safetensors.index.json"));
  EXPECT_FALSE(Checkpoint::open(pathOf("snapshot")).ok());
}

TEST_F(CheckpointTest, BrokenIndexes) {
  for (auto [text, why] : std::initializer_list<std::pair<const char *, const char *>>{
           {"", "parse error"},
           {"{}", "no 'weight_map'"},
           {"[]", "an array"},
           {"7", "is 7"},
           {"{\"weight_map\":[]}", "an array"},
           {"{\"weight_map\":null}", "null"},
           {"{\"weight_map\":{\"w\":1}}", "'w'"},
           {"{\"weight_map\":{\"w\":{}}}", "'w'"},
           {"{\"weight_map\":{},\"weight_map\":{}}", "twice"},
           {"{\"weight_map\":{}", "parse error"},
           {"{\"weight_map\":{\"\x80\":\"a\"}}", "UTF-8"}}) {
    write("model.safetensors.index.json", text);
    EXPECT_THAT(refusal(), AllOf(HasSubstr(why), HasSubstr("index.json"))) << text;
  }
  std::string deep = "{\"metadata\":";
  for (int i = 0; i < 1'000'000; ++i)
    deep += "[";
  write("model.safetensors.index.json", deep);
  EXPECT_THAT(refusal(), HasSubstr("parse error"));
}

TEST_F(CheckpointTest, DuplicateTensorInTheIndex) {
  index("{\"w\": \"1.safetensors\", \"w\": \"1.safetensors\"}");
  write("1.safetensors", oneFloat("w", 2.0f));
  EXPECT_THAT(refusal(), HasSubstr("'w' is listed twice"));
}

TEST_F(CheckpointTest, NothingToOpen) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr("model.safetensors"), HasSubstr("nor other files")));
  write("pytorch_model.bin", "x");
  write("adapter.safetensors", "x");
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("'pytorch_model.bin'"), HasSubstr("'adapter.safetensors'")));
  EXPECT_THAT(message(Checkpoint::open(pathOf("nowhere")).status()), HasSubstr("does not exist"));
}

TEST_F(CheckpointTest, SparseGiant) {
  // 1 TB of data that is not there: only headers are read.
  constexpr uint64_t kBytes = uint64_t(1) << 40;
  std::string file = safetensors("{\"w\":{\"dtype\":\"BF16\",\"shape\":[1048576,524288],"
                                 "\"data_offsets\":[0,1099511627776]}}");
  write("model.safetensors", file);
  std::error_code error;
  std::filesystem::resize_file(pathOf("model.safetensors"), file.size() + kBytes, error);
  if (error)
    GTEST_SKIP() << "the file system has no sparse files of this size: " << error.message();
  auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  SplatProvider zeros(**checkpoint);
  auto source = zeros.source("w");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->isSplat);
  EXPECT_THAT(source->shape, ::testing::ElementsAre(1048576, 524288));
  EXPECT_EQ(source->data.size(), 2u);
}

TEST_F(CheckpointTest, TypeWithoutElementType) {
  write(
      "model.safetensors",
      safetensors("{\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", "abcd"));
  auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(message((*checkpoint)->source("q").status()),
              AllOf(HasSubstr("'q'"), HasSubstr("F8_E4M3")));
}

} // namespace
} // namespace adapt::weights
