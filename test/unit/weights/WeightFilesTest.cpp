// Weight files: written, and loaded in every way; and what must be refused.
#include "weights/WeightLoader.h"
#include "weights/WeightWriter.h"

#include "TestFiles.h"

#include "google/protobuf/text_format.h"

#include <cstring>
#include <numeric>

namespace adapt::weights {
namespace {

using schema::WeightTable;
using test::message;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename T> T parse(const std::string &text) {
  T result;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &result)) << text;
  return result;
}

schema::TensorType type(const std::string &text) { return parse<schema::TensorType>(text); }

absl::Span<const std::byte> asBytes(const std::string &text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte *>(text.data()), text.size());
}

std::string asText(absl::Span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

/// A checkpoint of two layers and an embedding, and the table that packs it.
class WeightFilesTest : public test::TempDirTest {
protected:
  void SetUp() override {
    TempDirTest::SetUp();
    std::filesystem::create_directory(pathOf("model"));
    std::filesystem::create_directory(pathOf("rank0"));
    writeCheckpoint(1.0f);
    table = parse<WeightTable>(R"(
      params { name: "embed" type { element: F32 shape: [3, 2] } bytes: 24
        recipe { nodes { type { element: F32 shape: [3, 2] } source { name: "embed" } } } }
      params { name: "layers.{layer}.qk" type { element: F32 shape: [4, 3] layout { n: 2 k: 2 } }
        bytes: 64 indices { index: "layer" values: [0, 1] }
        recipe {
          nodes { type { element: F32 shape: [2, 3] } source { name: "layers.{layer}.q" } }
          nodes { type { element: F32 shape: [2, 3] } source { name: "layers.{layer}.k" } }
          nodes { type { element: F32 shape: [4, 3] } operands: [0, 1] concat { axis: 0 } }
          nodes { type { element: F32 shape: [4, 3] layout { n: 2 k: 2 } } operands: 2 pack {} } } }
      params { name: "layers.{layer}.norm" type { element: F32 shape: [3] } bytes: 12
        indices { index: "layer" values: [0, 1] }
        recipe {
          nodes { type { element: F32 shape: [3] } splat { value: 0.5 } } } })");
  }

  void writeCheckpoint(float scale) const {
    std::string header, data;
    auto add = [&](const std::string &name, const std::string &shape, std::vector<float> values) {
      for (float &value : values)
        value *= scale;
      header += (header.empty() ? "{\"" : ",\"") + name +
                "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[" +
                std::to_string(data.size()) + "," +
                std::to_string(data.size() + values.size() * 4) + "]}";
      data.append(reinterpret_cast<const char *>(values.data()), values.size() * 4);
    };
    add("embed", "[3,2]", {1, 2, 3, 4, 5, 6});
    for (int layer = 0; layer < 2; ++layer) {
      float base = float(100 * (layer + 1));
      add("layers." + std::to_string(layer) + ".q", "[2,3]",
          {base + 1, base + 2, base + 3, base + 4, base + 5, base + 6});
      add("layers." + std::to_string(layer) + ".k", "[2,3]",
          {base + 11, base + 12, base + 13, base + 14, base + 15, base + 16});
    }
    write("model/model.safetensors", test::safetensors(header + "}", data));
  }

  /// Writes the table's weights into rank0, in the order of its instances.
  void convert(WeightWriterOptions options = {}) {
    auto checkpoint = Checkpoint::open(pathOf("model"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    auto instances = expandInstances(table);
    ASSERT_TRUE(instances.ok()) << instances.status();
    std::vector<WeightItem> items;
    for (const WeightInstance &instance : *instances) {
      auto layer = instance.indices.find("layer");
      items.push_back(
          {instance.name, instance.param->type(),
           layer == instance.indices.end() ? std::nullopt : std::optional<int64_t>(layer->second)});
    }
    auto writer = WeightWriter::plan(std::move(items), options);
    ASSERT_TRUE(writer.ok()) << writer.status();
    absl::Status status =
        writer->write(pathOf("rank0"), [&](size_t i, const Evaluation::Sink &sink) -> absl::Status {
          const WeightInstance &instance = (*instances)[i];
          auto evaluation =
              Evaluation::prepare(instance.param->recipe(), {instance.indices, {}}, **checkpoint);
          return evaluation.ok() ? evaluation->stream(sink) : evaluation.status();
        });
    ASSERT_TRUE(status.ok()) << status;
    table.set_mode(WeightTable::CONVERTED);
    writer->describe(table);
    files = writer->files();
  }

  void refer() {
    auto checkpoint = Checkpoint::open(pathOf("model"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    auto sources = describeSources(**checkpoint);
    ASSERT_TRUE(sources.ok()) << sources.status();
    table.set_mode(WeightTable::REFERENCE);
    table.mutable_sources()->Assign(sources->begin(), sources->end());
  }

  absl::StatusOr<std::unique_ptr<LoadedWeights>> load(const LoadOptions &options = {}) {
    return LoadedWeights::load(table, pathOf("rank0"), options);
  }
  std::string refusal() {
    auto weights = load();
    EXPECT_FALSE(weights.ok());
    return message(weights.status());
  }

  void expectRight(const LoadOptions &options) {
    auto weights = load(options);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ((*weights)->size(), 5u);
    EXPECT_EQ((*weights)->bytes(), 24u + 2 * 64 + 2 * 12);
    auto values = [&](const char *name) {
      std::vector<float> result;
      auto bytes = (*weights)->find(name);
      EXPECT_TRUE(bytes) << name;
      if (bytes) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes->data()) % 64, 0u);
        result.resize(bytes->size() / 4);
        std::memcpy(result.data(), bytes->data(), bytes->size());
      }
      return result;
    };
    EXPECT_THAT(values("embed"), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(values("layers.1.qk"), ElementsAre(201, 202, 204, 205, 203, 0, 206, 0, //
                                                   211, 212, 214, 215, 213, 0, 216, 0));
    EXPECT_THAT(values("layers.0.norm"), ElementsAre(0.5f, 0.5f, 0.5f));
    EXPECT_FALSE((*weights)->find("layers.2.norm"));
  }

  WeightTable table;
  std::vector<WeightWriter::File> files;
};

TEST_F(WeightFilesTest, EveryWayToLoad) {
  LoadOptions arena, mapped, threads;
  mapped.copyToArena = false;
  threads.threads = 3;
  ASSERT_NO_FATAL_FAILURE(convert());
  for (const LoadOptions &options : {arena, mapped, threads})
    expectRight(options);
  ASSERT_NO_FATAL_FAILURE(refer());
  for (const LoadOptions &options : {arena, mapped, threads})
    expectRight(options);
}

TEST_F(WeightFilesTest, OrderOfExecution) {
  auto instances = expandInstances(table);
  ASSERT_TRUE(instances.ok()) << instances.status();
  std::vector<std::string> names;
  for (const WeightInstance &instance : *instances)
    names.push_back(instance.name);
  EXPECT_THAT(names,
              ElementsAre("embed", "layers.0.qk", "layers.0.norm", "layers.1.qk", "layers.1.norm"));
}

TEST_F(WeightFilesTest, FilesAreSafetensorsWithAlignedTensors) {
  WeightWriterOptions options;
  options.metadata = rankMetadata(0, 1, 0, 1, 0, 1);
  ASSERT_NO_FATAL_FAILURE(convert(options));
  ASSERT_EQ(files.size(), 1u);
  auto file = SafetensorsFile::open(pathOf("rank0/weights-00001.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<std::string, std::string> metadata((*file)->metadata().begin(),
                                              (*file)->metadata().end());
  EXPECT_EQ(metadata["layers"], "0-1");
  EXPECT_EQ(metadata["tp_size"], "1");
  for (const WeightTable::Stored &stored : table.stored())
    EXPECT_EQ(stored.offset() % 64, 0u);
  TensorEntry packed = (*file)->tensor(*(*file)->find("layers.0.qk"));
  EXPECT_THAT(packed.shape, ElementsAre(2, 2, 2, 2));
  // 24 bytes of the embedding, then the first pad.
  EXPECT_EQ((*file)->tensor(*(*file)->find("__pad.0")).bytes, 40u);
  EXPECT_EQ((*file)->stamp().bytes, files[0].bytes);
}

TEST_F(WeightFilesTest, SameInputSameBytes) {
  ASSERT_NO_FATAL_FAILURE(convert());
  std::string hash = files[0].xxh3;
  EXPECT_EQ(hash.size(), 32u);
  std::filesystem::remove(pathOf("rank0/weights-00001.safetensors"));
  ASSERT_NO_FATAL_FAILURE(convert());
  EXPECT_EQ(files[0].xxh3, hash);
  std::filesystem::remove(pathOf("rank0/weights-00001.safetensors"));
  writeCheckpoint(2.0f);
  ASSERT_NO_FATAL_FAILURE(convert());
  EXPECT_NE(files[0].xxh3, hash);
}

TEST_F(WeightFilesTest, SplitAtTheLimit) {
  WeightWriterOptions options;
  options.maxFileBytes = 139; // of data: embed and qk; norm and qk; norm
  ASSERT_NO_FATAL_FAILURE(convert(options));
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[2].name, "weights-00003.safetensors");
  expectRight({});
  // Smaller than any tensor: one each.
  std::filesystem::remove_all(pathOf("rank0"));
  std::filesystem::create_directory(pathOf("rank0"));
  options.maxFileBytes = 1;
  ASSERT_NO_FATAL_FAILURE(convert(options));
  EXPECT_EQ(files.size(), 5u);
  expectRight({});
}

TEST_F(WeightFilesTest, WriterRefusals) {
  schema::TensorType f32 = type("element: F32 shape: [2]");
  EXPECT_THAT(message(WeightWriter::plan({{"", f32, {}},
                                          {"__pad.7", f32, {}},
                                          {"__metadata__", f32, {}},
                                          {"a\xff", f32, {}},
                                          {"a", f32, {}},
                                          {"a", f32, {}},
                                          {"b", type("shape: [2]"), {}}})
                          .status()),
              AllOf(HasSubstr("6 problems"), HasSubstr("'__pad.7'"),
                    HasSubstr("'a' is there twice"), HasSubstr("'b'")));
  auto producer = [](const std::string &bytes) {
    return [bytes](size_t, const Evaluation::Sink &sink) { return sink(asBytes(bytes)); };
  };
  auto writer = WeightWriter::plan({{"a", f32, {}}});
  ASSERT_TRUE(writer.ok());
  EXPECT_THAT(message(writer->write(pathOf("rank0"), producer("1234567"))),
              HasSubstr("1 bytes fewer"));
  EXPECT_THAT(message(writer->write(pathOf("rank0"), producer("12345678"))),
              HasSubstr("cannot be created: File exists"));
  std::filesystem::remove(pathOf("rank0/weights-00001.safetensors"));
  EXPECT_THAT(message(writer->write(pathOf("rank0"), producer("123456789"))),
              HasSubstr("more than"));
  EXPECT_THAT(message(writer->write(pathOf("nowhere"), producer("12345678"))),
              HasSubstr("No such file"));
}

TEST_F(WeightFilesTest, NoWeightsAtAll) {
  table.clear_params();
  ASSERT_NO_FATAL_FAILURE(convert());
  EXPECT_TRUE(files.empty());
  auto weights = load();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->size(), 0u);
}

TEST_F(WeightFilesTest, LargeTensorsInPieces) {
  // Above the size of the pieces that are read and written.
  constexpr uint64_t kCount = (9 << 20) / 4 + 5;
  std::string bytes(kCount * 4, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = char(i * 2654435761u >> 13);
  table =
      parse<WeightTable>("params { name: 'w' type { element: F32 shape: [" +
                         std::to_string(kCount) + "] } bytes: " + std::to_string(kCount * 4) + "}");
  auto writer = WeightWriter::plan({{"w", table.params(0).type(), {}}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer
                  ->write(pathOf("rank0"),
                          [&](size_t, const Evaluation::Sink &sink) {
                            absl::Status first = sink(asBytes(bytes).first(3));
                            return first.ok() ? sink(asBytes(bytes).subspan(3)) : first;
                          })
                  .ok());
  writer->describe(table);
  for (unsigned threads : {1, 4}) {
    LoadOptions options;
    options.threads = threads;
    auto weights = load(options);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_TRUE(asText(*(*weights)->find("w")) == bytes);
  }
}

//===----------------------------------------------------------------------===//
// Tables that lie
//===----------------------------------------------------------------------===//

TEST_F(WeightFilesTest, TableAgainstFiles) {
  ASSERT_NO_FATAL_FAILURE(convert());
  const WeightTable right = table;
  auto refused = [&](auto change) {
    table = right;
    change();
    return refusal();
  };
  EXPECT_THAT(refused([&] { table.mutable_stored(1)->set_offset(table.stored(1).offset() + 64); }),
              HasSubstr("'layers.0.qk' should be"));
  EXPECT_THAT(refused([&] { table.mutable_stored(1)->set_offset(UINT64_MAX); }),
              HasSubstr("'layers.0.qk' should be"));
  EXPECT_THAT(refused([&] { table.mutable_stored(1)->set_bytes(UINT64_MAX); }),
              HasSubstr("'layers.0.qk' should be"));
  EXPECT_THAT(refused([&] { table.mutable_stored(1)->set_file(1); }), HasSubstr("file 1 of 1"));
  EXPECT_THAT(
      refused([&] { table.mutable_stored(1)->set_name("x"); }),
      AllOf(HasSubstr("'x' is stored, but no param"), HasSubstr("'layers.0.qk' is not stored")));
  EXPECT_THAT(refused([&] { *table.add_stored() = table.stored(0); }), HasSubstr("stored twice"));
  EXPECT_THAT(refused([&] { table.clear_stored(); }), HasSubstr("5 problems"));
  EXPECT_THAT(refused([&] { table.mutable_files(0)->set_bytes(7); }),
              HasSubstr("should have 7 bytes"));
  EXPECT_THAT(
      refused([&] { table.mutable_files(0)->set_path("../rank0/weights-00001.safetensors"); }),
      HasSubstr("not a file name below"));
  EXPECT_THAT(refused([&] { table.mutable_files(0)->set_path("weights-00009.safetensors"); }),
              HasSubstr("weights-00009.safetensors"));
  EXPECT_THAT(refused([&] { table.mutable_params(0)->set_bytes(25); }),
              AllOf(HasSubstr("'embed'"), HasSubstr("takes 24 bytes"), HasSubstr("25")));
  EXPECT_THAT(refused([&] {
                table.mutable_params(0)->mutable_type()->set_shape(0, 2);
                table.mutable_params(0)->mutable_type()->set_shape(1, 3);
              }),
              HasSubstr("'embed' should be f32 [2, 3]"));
  EXPECT_THAT(refused([&] { table.mutable_params(0)->mutable_type()->set_shape(0, -3); }),
              HasSubstr("negative"));
  EXPECT_THAT(refused([&] { table.mutable_params(1)->mutable_indices(0)->set_values(0, 1); }),
              HasSubstr("'layers.1.qk' is there twice"));
  EXPECT_THAT(refused([&] { table.mutable_params(1)->clear_indices(); }),
              HasSubstr("'layer' has no value"));
  EXPECT_THAT(refused([&] { table.mutable_params(1)->set_name("layers.qk"); }),
              HasSubstr("is not used"));
  EXPECT_THAT(refused([&] {
                for (int i = 0; i < 8; ++i) {
                  WeightTable::Range &range = *table.mutable_params(1)->add_indices();
                  range.set_index("i" + std::to_string(i));
                  for (int v = 0; v < 1000; ++v)
                    range.add_values(v);
                }
              }),
              HasSubstr("more than"));
  EXPECT_THAT(refused([&] { table.set_mode(WeightTable::Mode(7)); }), HasSubstr("unknown mode 7"));
}

TEST_F(WeightFilesTest, DamagedWeightFile) {
  ASSERT_NO_FATAL_FAILURE(convert());
  std::string path = pathOf("rank0/weights-00001.safetensors");
  std::filesystem::resize_file(path, files[0].bytes - 1);
  EXPECT_THAT(refusal(), HasSubstr("weights-00001.safetensors"));
  std::filesystem::resize_file(path, files[0].bytes + 1);
  EXPECT_THAT(refusal(), HasSubstr("weights-00001.safetensors"));
  std::filesystem::remove(path);
  EXPECT_THAT(refusal(), HasSubstr("cannot be opened"));
}

TEST_F(WeightFilesTest, WeightTableFile) {
  write("weights.pb", table.SerializeAsString());
  auto read = readWeightTable(pathOf("weights.pb"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->SerializeAsString(), table.SerializeAsString());
  write("weights.pb", "\xff\xff\xff");
  EXPECT_THAT(message(readWeightTable(pathOf("weights.pb")).status()),
              HasSubstr("is not a weight table"));
  EXPECT_FALSE(readWeightTable(pathOf("nothing.pb")).ok());
}

//===----------------------------------------------------------------------===//
// Sources that changed
//===----------------------------------------------------------------------===//

TEST_F(WeightFilesTest, ReferenceToAChangedCheckpoint) {
  ASSERT_NO_FATAL_FAILURE(refer());
  std::string path = pathOf("model/model.safetensors");
  auto time = std::filesystem::last_write_time(path);

  std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("model.safetensors was modified since"),
                               HasSubstr("compile again"), Not(HasSubstr("problems"))));
  std::filesystem::last_write_time(path, time);
  expectRight({});

  // The same size and time, but another header.
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), std::streamsize(bytes.size()));
  bytes[bytes.find("layers.1.q")] = 'L';
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::last_write_time(path, time);
  EXPECT_THAT(refusal(), HasSubstr("has another header"));

  std::filesystem::remove(path);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("original checkpoint"), HasSubstr("does not exist")));
}

TEST_F(WeightFilesTest, ReferenceToShards) {
  // The index is one of the recorded files, and stays the authority.
  std::filesystem::rename(pathOf("model/model.safetensors"), pathOf("model/one.safetensors"));
  std::string names;
  for (const char *name : {"embed", "layers.0.q", "layers.0.k", "layers.1.q", "layers.1.k"})
    names += std::string(names.empty() ? "\"" : ",\"") + name + "\":\"one.safetensors\"";
  write("model/model.safetensors.index.json", "{\"weight_map\":{" + names + "}}");
  ASSERT_NO_FATAL_FAILURE(refer());
  ASSERT_EQ(table.sources_size(), 2);
  expectRight({});
  // Relative to the bundle.
  for (WeightTable::SourceFile &source : *table.mutable_sources())
    source.set_path("../model/" + std::filesystem::path(source.path()).filename().string());
  LoadOptions options;
  options.bundleDirectory = pathOf("rank0");
  expectRight(options);

  std::string index = "{ \"weight_map\":{" + names + "}}";
  write("model/model.safetensors.index.json", index);
  auto weights = load(options);
  EXPECT_THAT(message(weights.status()), HasSubstr("index.json had"));
}

TEST_F(WeightFilesTest, ReferenceWithWrongRecipes) {
  ASSERT_NO_FATAL_FAILURE(refer());
  table.mutable_params(0)->mutable_recipe()->mutable_nodes(0)->mutable_source()->set_name(
      "nothing");
  table.mutable_params(1)->mutable_recipe()->mutable_nodes(1)->clear_source();
  EXPECT_THAT(refusal(), AllOf(HasSubstr("3 problems"), HasSubstr("'nothing'"),
                               HasSubstr("'layers.0.qk'"), HasSubstr("'layers.1.qk'")));
  table.mutable_params(1)->clear_recipe();
  EXPECT_THAT(refusal(), HasSubstr("no nodes"));
}

TEST_F(WeightFilesTest, ReferenceWithoutSources) {
  table.set_mode(WeightTable::REFERENCE);
  EXPECT_THAT(refusal(), HasSubstr("names no source files"));
}

} // namespace
} // namespace adapt::weights
