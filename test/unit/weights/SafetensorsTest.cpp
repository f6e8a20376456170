// Faults B01 and B02 of hostile and broken safetensors files, and their kind.
#include "weights/Safetensors.h"

#include "TestFiles.h"

#include <cstring>
#include <sys/resource.h>

namespace adapt::weights {
namespace {

using test::bytesOf;
using test::littleEndian;
using test::message;
using test::safetensors;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SafetensorsTest : public test::TempDirTest {
protected:
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> open(const std::string &bytes) {
    return SafetensorsFile::open(write("x.safetensors", bytes));
  }
  /// The message of a file that must be refused; it names the file.
  std::string refusal(const std::string &bytes) {
    auto file = open(bytes);
    EXPECT_FALSE(file.ok());
    EXPECT_THAT(message(file.status()), HasSubstr("x.safetensors"));
    return message(file.status());
  }
  std::string refusal(const std::string &header, size_t dataBytes) {
    return refusal(safetensors(header, std::string(dataBytes, '\1')));
  }
};

std::string entry(const std::string &name, const std::string &dtype, const std::string &shape,
                  const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string f32(const std::string &shape, const std::string &offsets) {
  return "{" + entry("w", "F32", shape, offsets) + "}";
}

//===----------------------------------------------------------------------===//
// B01: the header's length
//===----------------------------------------------------------------------===//

TEST_F(SafetensorsTest, FileShorterThanALength) {
  EXPECT_THAT(refusal("ab"), HasSubstr("2 bytes"));
  EXPECT_THAT(refusal(""), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal(std::string(7, '\0')), HasSubstr("7 bytes"));
}

TEST_F(SafetensorsTest, EmptyHeader) {
  EXPECT_THAT(refusal(littleEndian(0)), HasSubstr("empty"));
  EXPECT_THAT(refusal(littleEndian(0) + "{}"), HasSubstr("empty"));
}

TEST_F(SafetensorsTest, LengthThatWraps) {
  // 8 + N wraps to a small number for each of these.
  for (uint64_t n : {UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 6, uint64_t(1) << 63})
    EXPECT_THAT(refusal(littleEndian(n) + "{}"),
                AllOf(HasSubstr(std::to_string(n)), HasSubstr("does not fit")));
}

TEST_F(SafetensorsTest, LengthBeyondTheFile) {
  EXPECT_THAT(refusal(littleEndian(3) + "{}"), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(littleEndian(90'000'000) + "{}"), HasSubstr("does not fit"));
}

TEST_F(SafetensorsTest, HeaderAboveTheCap) {
  // A sparse file that is large enough for the header that it claims.
  std::string path = write("x.safetensors", littleEndian(100'000'001) + "{}");
  std::filesystem::resize_file(path, 100'000'001 + 8);
  auto file = SafetensorsFile::open(path);
  EXPECT_THAT(message(file.status()), HasSubstr("limit of 100000000"));
}

TEST_F(SafetensorsTest, HeaderOfZerosUsesLittleMemory) {
  std::string path = write("x.safetensors", littleEndian(100'000'000));
  std::filesystem::resize_file(path, 100'000'000 + 8);
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  auto file = SafetensorsFile::open(path);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_THAT(message(file.status()), HasSubstr("zero byte"));
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 20'000);
}

TEST_F(SafetensorsTest, PaddedHeaderIsAccepted) {
  auto file = open(safetensors("{" + entry("w", "F32", "[1]", "[0,4]") + "}" + std::string(41, ' '),
                               bytesOf({2.0f})));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->size(), 1u);
  auto data = (*file)->data(0);
  ASSERT_TRUE(data.ok()) << data.status();
  float value;
  ASSERT_EQ(data->size(), sizeof value);
  std::memcpy(&value, data->data(), sizeof value);
  EXPECT_EQ(value, 2.0f);
}

TEST_F(SafetensorsTest, HeaderMustBeginWithABrace) {
  EXPECT_THAT(refusal(safetensors(" {}")), HasSubstr("begin with '{'"));
  EXPECT_THAT(refusal(safetensors("[]")), HasSubstr("begin with '{'"));
  EXPECT_THAT(refusal(safetensors("\xef\xbb\xbf{}")), HasSubstr("begin with '{'"));
}

TEST_F(SafetensorsTest, NotAFile) {
  EXPECT_EQ(SafetensorsFile::open(pathOf("nothing")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message(SafetensorsFile::open(directory.string()).status()),
              HasSubstr("not a regular file"));
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

TEST_F(SafetensorsTest, BrokenJson) {
  for (const char *header : {"{", "{\"a\"", "{\"a\":", "{\"a\":{}", "{}x", "{}{}", "{\"a\":{},}",
                             "{'a':{}}", "{\"a\":nan}", "{/**/}", "{\"a\":{\"shape\":[01]}}"})
    EXPECT_THAT(refusal(safetensors(header)), HasSubstr("parse error")) << header;
}

TEST_F(SafetensorsTest, ZerosAfterTheHeaderAreNotPadding) {
  for (size_t zeros : {1, 2, 300'000})
    EXPECT_THAT(refusal(safetensors("{}" + std::string(zeros, '\0'))), HasSubstr("zero byte"));
}

TEST_F(SafetensorsTest, InvalidUtf8) {
  // A stray continuation, an overlong slash, a surrogate, a value above U+10FFFF, a cut sequence.
  for (const char *name : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    std::string text = refusal("{" + entry(name, "U8", "[1]", "[0,1]") + "}", 1);
    EXPECT_THAT(text, HasSubstr("UTF-8"));
    for (char c : text)
      EXPECT_TRUE(c >= 0x20 || c == '\n' || (c & 0x80)) << text;
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
  EXPECT_THAT(refusal("{" + entry("\\ud800", "U8", "[1]", "[0,1]") + "}", 1),
              HasSubstr("surrogate"));
}

TEST_F(SafetensorsTest, DeepNesting) {
  for (const char *open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i)
      deep += open;
    EXPECT_THAT(refusal(safetensors("{\"w\":" + deep)), HasSubstr("'w'"));
    EXPECT_THAT(refusal(safetensors("{\"__metadata__\":" + deep)), HasSubstr("__metadata__"));
    EXPECT_THAT(refusal(safetensors("{\"w\":{\"shape\":" + deep)), HasSubstr("'w'"));
  }
}

TEST_F(SafetensorsTest, WrongKinds) {
  EXPECT_THAT(refusal(safetensors("{\"w\":1}")), AllOf(HasSubstr("'w'"), HasSubstr("is 1,")));
  EXPECT_THAT(refusal(safetensors("{\"w\":null}")), HasSubstr("null"));
  EXPECT_THAT(refusal(safetensors("{\"w\":[]}")), HasSubstr("an array"));
  EXPECT_THAT(refusal(safetensors("{\"w\":{\"dtype\":7}}")), HasSubstr("dtype is 7"));
  EXPECT_THAT(refusal(safetensors("{\"w\":{\"shape\":\"2\"}}")), HasSubstr("shape is the string"));
  EXPECT_THAT(refusal(safetensors("{\"w\":{\"shape\":{}}}")), HasSubstr("an object"));
  EXPECT_THAT(refusal(f32("[1.0]", "[0,4]"), 4), HasSubstr("1.0"));
  EXPECT_THAT(refusal(f32("[1e0]", "[0,4]"), 4), HasSubstr("1e0"));
  EXPECT_THAT(refusal(f32("[true]", "[0,4]"), 4), HasSubstr("boolean"));
  EXPECT_THAT(refusal(f32("[\"1\"]", "[0,4]"), 4), HasSubstr("string"));
  EXPECT_THAT(refusal(f32("[1]", "[0]"), 4), HasSubstr("fewer than two"));
  EXPECT_THAT(refusal(f32("[1]", "[]"), 4), HasSubstr("fewer than two"));
  EXPECT_THAT(refusal(f32("[1]", "[0,4,4]"), 4), HasSubstr("more than two"));
}

TEST_F(SafetensorsTest, Metadata) {
  EXPECT_THAT(refusal(safetensors("{\"__metadata__\":{\"a\":1}}")),
              AllOf(HasSubstr("'a'"), HasSubstr("is 1, not a string")));
  EXPECT_THAT(refusal(safetensors("{\"__metadata__\":{\"a\":null}}")), HasSubstr("null"));
  EXPECT_THAT(refusal(safetensors("{\"__metadata__\":{\"a\":{}}}")), HasSubstr("an object"));
  EXPECT_THAT(refusal(safetensors("{\"__metadata__\":\"a\"}")), HasSubstr("not an object"));
  EXPECT_THAT(refusal(safetensors("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}")),
              HasSubstr("twice"));
  EXPECT_THAT(refusal(safetensors("{\"__metadata__\":{},\"__metadata__\":{}}")),
              HasSubstr("twice"));
  auto file = open(safetensors("{\"__metadata__\":{\"format\":\"pt\",\"n\":\"\"}}"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->size(), 0u);
  EXPECT_THAT((*file)->metadata(),
              ::testing::ElementsAre(std::make_pair("format", "pt"), std::make_pair("n", "")));
}

TEST_F(SafetensorsTest, MissingUnknownAndDuplicateKeys) {
  EXPECT_THAT(refusal(safetensors("{\"w\":{}}")),
              AllOf(HasSubstr("no dtype"), HasSubstr("no shape"), HasSubstr("no data_offsets")));
  EXPECT_THAT(refusal("{\"w\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1), HasSubstr("no data_offsets"));
  EXPECT_THAT(refusal(safetensors("{\"w\":{\"strides\":[1]}}")), HasSubstr("'strides'"));
  EXPECT_THAT(refusal(safetensors("{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}")),
              HasSubstr("'dtype' twice"));
  EXPECT_THAT(
      refusal("{" + entry("w", "U8", "[1]", "[0,1]") + "," + entry("w", "U8", "[1]", "[1,2]") + "}",
              2),
      HasSubstr("tensor 'w' is there twice"));
  // The same name, spelled in two ways.
  EXPECT_THAT(refusal("{" + entry("w", "U8", "[1]", "[0,1]") + "," +
                          entry("\\u0077", "U8", "[1]", "[1,2]") + "}",
                      2),
              HasSubstr("tensor 'w' is there twice"));
}

//===----------------------------------------------------------------------===//
// B02: offsets against shape, order and cover
//===----------------------------------------------------------------------===//

TEST_F(SafetensorsTest, ShapeDisagreesWithOffsets) {
  EXPECT_THAT(refusal(f32("[1000,1000]", "[0,4]"), 16),
              AllOf(HasSubstr("'w'"), HasSubstr("[1000, 1000]"), HasSubstr("4000000")));
  EXPECT_THAT(refusal(f32("[3]", "[0,16]"), 16), HasSubstr("needs 12"));
  EXPECT_THAT(refusal(f32("[]", "[0,16]"), 16), HasSubstr("needs 4"));
  EXPECT_THAT(refusal(f32("[0]", "[0,16]"), 16), HasSubstr("needs 0"));
}

TEST_F(SafetensorsTest, OffsetsBackwardsNegativeOrPastTheEnd) {
  EXPECT_THAT(refusal(f32("[4]", "[16,0]"), 16), HasSubstr("backwards"));
  EXPECT_THAT(refusal(f32("[4]", "[-16,0]"), 16), HasSubstr("-16"));
  EXPECT_THAT(refusal(f32("[4]", "[-0,16]"), 16), HasSubstr("integer"));
  EXPECT_THAT(refusal(f32("[5]", "[0,20]"), 16), AllOf(HasSubstr("20"), HasSubstr("holds 16")));
  EXPECT_THAT(refusal(f32("[4]", "[18446744073709551600,18446744073709551616]"), 16),
              HasSubstr("integer"));
  EXPECT_THAT(refusal(f32("[4]", "[18446744073709551600,18446744073709551615]"), 16),
              HasSubstr("holds 16"));
  EXPECT_THAT(refusal(f32("[-4]", "[0,16]"), 16), HasSubstr("-4"));
}

TEST_F(SafetensorsTest, ShapeThatOverflows) {
  EXPECT_THAT(refusal(f32("[8589934592,8589934592]", "[0,16]"), 16), HasSubstr("not a possible"));
  // 2^62 elements fit, their bytes do not; 2^64 elements wrap to 0.
  EXPECT_THAT(refusal(f32("[4611686018427387904]", "[0,0]"), 0), HasSubstr("not a possible"));
  EXPECT_THAT(refusal(f32("[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("not a possible"));
  EXPECT_THAT(refusal(f32("[9223372036854775808]", "[0,0]"), 0), HasSubstr("integer"));
  EXPECT_THAT(refusal("{" + entry("w", "F4", "[3]", "[0,1]") + "}", 1),
              HasSubstr("not a possible"));
}

TEST_F(SafetensorsTest, Overlap) {
  std::string text = refusal("{" + entry("k", "F32", "[4]", "[0,16]") + "," +
                                 entry("v", "F32", "[4]", "[0,16]") + "}",
                             16);
  EXPECT_THAT(text, AllOf(HasSubstr("'v'"), HasSubstr("overlaps 'k'")));
  EXPECT_THAT(refusal("{" + entry("k", "F32", "[3]", "[0,12]") + "," +
                          entry("v", "F32", "[2]", "[8,16]") + "}",
                      16),
              HasSubstr("overlaps"));
  // One inside another, and what follows the outer one is still right.
  EXPECT_THAT(refusal("{" + entry("k", "F32", "[3]", "[0,12]") + "," +
                          entry("i", "F32", "[1]", "[4,8]") + "," +
                          entry("v", "F32", "[1]", "[12,16]") + "}",
                      16),
              AllOf(HasSubstr("'i'"), Not(HasSubstr("problems"))));
}

TEST_F(SafetensorsTest, GapsAndRest) {
  EXPECT_THAT(refusal("{" + entry("a", "U8", "[4]", "[0,4]") + "," +
                          entry("b", "U8", "[4]", "[8,12]") + "}",
                      12),
              AllOf(HasSubstr("[4, 8]"), HasSubstr("'b'")));
  EXPECT_THAT(refusal("{" + entry("a", "U8", "[4]", "[1,5]") + "}", 5), HasSubstr("[0, 1]"));
  EXPECT_THAT(refusal("{" + entry("a", "U8", "[4]", "[0,4]") + "}", 7), HasSubstr("last 3 bytes"));
  EXPECT_THAT(refusal("{}", 1), HasSubstr("last 1 bytes"));
}

TEST_F(SafetensorsTest, UnknownDtype) {
  for (const char *dtype : {"FLOAT32", "f32", "", "F32 ", "\\u0000"})
    EXPECT_THAT(refusal("{" + entry("w", dtype, "[4]", "[0,16]") + "}", 16),
                AllOf(HasSubstr("'w'"), HasSubstr("unknown dtype")));
}

TEST_F(SafetensorsTest, AllProblemsAtOnce) {
  EXPECT_THAT(refusal("{" + entry("a", "X", "[4]", "[0,16]") + "," +
                          entry("b", "F32", "[4]", "[16,0]") + "," +
                          entry("c", "F32", "[5]", "[0,16]") + "}",
                      16),
              AllOf(HasSubstr("3 problems"), HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("'c'")));
  std::string many;
  for (int i = 0; i < 1000; ++i)
    many += (i ? "," : "") + entry("t" + std::to_string(i), "X", "[4]", "[0,16]");
  std::string text = refusal("{" + many + "}", 16);
  EXPECT_THAT(text, AllOf(HasSubstr("1000 problems"), HasSubstr("and 980 more")));
  EXPECT_LT(text.size(), 4000u);
}

TEST_F(SafetensorsTest, LongNamesMakeShortMessages) {
  EXPECT_LT(
      refusal("{" + entry(std::string(1'000'000, 'n'), "X", "[4]", "[0,16]") + "}", 16).size(),
      1000u);
}

TEST_F(SafetensorsTest, ScalarEmptyAndUnaligned) {
  std::string data = bytesOf<uint8_t>({7}) + bytesOf({3.5f, -1.0f}) + bytesOf({6.0f});
  auto file = open(safetensors("{" + entry("scalar", "F32", "[]", "[9,13]") + "," +
                                   entry("byte", "U8", "[1]", "[0,1]") + "," +
                                   entry("empty", "F32", "[0,5]", "[9,9]") + "," +
                                   entry("pair", "F32", "[2]", "[1,9]") + "}",
                               data));
  ASSERT_TRUE(file.ok()) << file.status();
  auto read = [&](const char *name) {
    std::vector<float> values;
    auto index = (*file)->find(name);
    EXPECT_TRUE(index) << name;
    auto bytes = (*file)->data(*index);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    values.resize(bytes->size() / 4);
    if (!values.empty())
      std::memcpy(values.data(), bytes->data(), bytes->size());
    return values;
  };
  EXPECT_THAT(read("scalar"), ::testing::ElementsAre(6.0f));
  EXPECT_THAT(read("empty"), ::testing::ElementsAre());
  EXPECT_THAT(read("pair"), ::testing::ElementsAre(3.5f, -1.0f));
  EXPECT_FALSE((*file)->find("nothing"));
  // The order of the header is kept; offsets count from the start of the file.
  TensorEntry scalar = (*file)->tensor(0);
  EXPECT_EQ(scalar.name, "scalar");
  EXPECT_EQ(scalar.type->element, schema::F32);
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(scalar.offset + 4, (*file)->stamp().bytes);
}

TEST_F(SafetensorsTest, TypesWithoutElementTypeCanBeThere) {
  auto file = open(safetensors("{" + entry("q", "F8_E4M3", "[4]", "[0,4]") + "," +
                                   entry("p", "F4", "[3,2]", "[4,7]") + "}",
                               std::string(7, '\0')));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensor(0).type->element, schema::ELEMENT_TYPE_UNSPECIFIED);
  EXPECT_EQ((*file)->tensor(0).type->name, "F8_E4M3");
}

TEST_F(SafetensorsTest, HeaderHashIsXxh3OfTheJson) {
  auto file = open(safetensors("{}"));
  ASSERT_TRUE(file.ok()) << file.status();
  // Value from the Python package xxhash: xxh3_128_hexdigest(b"{}").
  EXPECT_EQ((*file)->headerHash(), "dc7048f8f8747f561349cde127705c16");
}

TEST_F(SafetensorsTest, ChangeAfterTheHeaderWasReadIsFound) {
  std::string bytes = safetensors("{" + entry("w", "U8", "[4]", "[0,4]") + "}", "abcd");
  auto file = open(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(pathOf("x.safetensors"), bytes.size() - 4);
  auto data = (*file)->data(0);
  EXPECT_FALSE(data.ok());
  EXPECT_THAT(message(data.status()), HasSubstr("has changed"));
}

} // namespace
} // namespace adapt::weights
