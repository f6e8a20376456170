#include "adapt/Npy.h"

#include "gtest/gtest.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include <unistd.h>

using namespace adapt::rt;

namespace {

class Npy : public testing::Test {
protected:
  std::string path = testing::TempDir() + "adapt_npy_" + std::to_string(getpid()) + ".npy";
  void TearDown() override { unlink(path.c_str()); }

  absl::StatusOr<NpyIntegers> read(const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return readNpyIntegers(path);
  }
};

/// A file as the format's documentation (NEP 1) describes it.
std::string npy(char major, const std::string &header, const std::string &data) {
  std::string text = header + "\n", file("\x93NUMPY", 6);
  file += {major, '\0', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  if (major > 1)
    file += std::string(2, '\0');
  return file + text + data;
}

std::string bytes(std::initializer_list<int32_t> values) {
  return std::string(reinterpret_cast<const char *>(values.begin()), values.size() * 4);
}

TEST_F(Npy, ReadsBothTypesAndVersions) {
  for (char major : {1, 2, 3}) {
    absl::StatusOr<NpyIntegers> array =
        read(npy(major, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }",
                 bytes({1, -2, 3, 4, 5, 6})));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(array->values, (std::vector<int64_t>{1, -2, 3, 4, 5, 6}));
  }
  absl::StatusOr<NpyIntegers> wide =
      read(npy(1, "{\"shape\": (1,), 'fortran_order': False, 'descr': '<i8'}", bytes({-1, -1})));
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->values, (std::vector<int64_t>{-1}));
  absl::StatusOr<NpyIntegers> scalar =
      read(npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': ()}", bytes({7})));
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_TRUE(scalar->shape.empty());
  absl::StatusOr<NpyIntegers> empty =
      read(npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (0, 5)}", ""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->values.empty());
}

TEST_F(Npy, ReadsArraysOfAnyType) {
  std::ofstream(path, std::ios::binary)
      << npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }",
             std::string("\0\0\0\0\0\0\xf8\x3f", 8)); // 1.5, IEEE 754
  absl::StatusOr<NpyArray> array = readNpy(path);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->descr, "<f8");
  ASSERT_EQ(array->data.size(), 8u);
  double value;
  std::memcpy(&value, array->data.data(), 8);
  EXPECT_EQ(value, 1.5);
  std::ofstream(path, std::ios::binary)
      << npy(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", std::string(8, '\0'));
  EXPECT_FALSE(readNpy(path).ok());
}

TEST_F(Npy, RefusesEverythingElse) {
  std::string good = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }";
  struct {
    std::string file, words;
  } cases[] = {
      {"", "too short"},
      {std::string(12, 'x'), "not an .npy file"},
      {npy(4, good, bytes({1})), ".npy version 4"},
      {npy(1, good, ""), "0 bytes of data"},
      {npy(1, good, bytes({1, 2})), "8 bytes of data"},
      {npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", bytes({1})),
       "elements of type '<f4'"},
      {npy(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }", bytes({1})),
       "elements of type '>i4'"},
      {npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (1, 1), }", bytes({1})),
       "Fortran order"},
      {npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,), }", bytes({1})),
       "not a dictionary"},
      {npy(1, "{'descr': '<i4', 'fortran_order': False}", bytes({1})), "not a dictionary"},
      {npy(1, good + "x", bytes({1})), "not a dictionary"},
      {npy(1, "{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,)}",
           bytes({1})),
       "not a dictionary"},
      {npy(1, "{'descr': '<i4", bytes({1})), "not a dictionary"},
      {npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4,), }",
           bytes({1})),
       "bytes of data"},
      {npy(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
           bytes({1})),
       "not a dictionary"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "header of 4294967295 bytes"},
  };
  for (const auto &test : cases) {
    absl::StatusOr<NpyIntegers> array = read(test.file);
    ASSERT_FALSE(array.ok()) << test.words;
    EXPECT_NE(array.status().message().find(test.words), absl::string_view::npos) << array.status();
  }
  EXPECT_FALSE(readNpyIntegers(testing::TempDir() + "does_not_exist.npy").ok());
  EXPECT_FALSE(readNpyIntegers(testing::TempDir()).ok());
}

TEST_F(Npy, WritesPiecesAndZeros) {
  {
    absl::StatusOr<NpyWriter> writer = NpyWriter::create(path, "<i4", {2, 3});
    ASSERT_TRUE(writer.ok()) << writer.status();
    int32_t last[] = {8, 9};
    EXPECT_TRUE(writer->write(4, last, 2).ok());
    EXPECT_FALSE(writer->write(5, last, 2).ok());
    EXPECT_NE(access(path.c_str(), F_OK), 0) << "appears only when finished";
    EXPECT_TRUE(writer->finish().ok());
  }
  std::ifstream file(path, std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_GT(all.size(), 10u);
  size_t header = static_cast<unsigned char>(all[8]) + 256 * static_cast<unsigned char>(all[9]);
  EXPECT_EQ((10 + header) % 64, 0u);
  EXPECT_EQ(all.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(all[9 + header], '\n');
  EXPECT_EQ(all.substr(10 + header), bytes({0, 0, 0, 0, 8, 9}));
  absl::StatusOr<NpyIntegers> again = readNpyIntegers(path);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shape, (std::vector<int64_t>{2, 3}));
}

TEST_F(Npy, AbandonedWriterLeavesNothing) {
  {
    ASSERT_TRUE(NpyWriter::create(path, "<f4", {5}).ok());
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_NE(access((path + "." + std::to_string(getpid()) + ".tmp").c_str(), F_OK), 0);
}

} // namespace
