#include "adapt/Interpreter/Command.h"
#include "adapt/Interpreter/Files.h"
#include "adapt/Npy.h"
#include "mlir/IR/Builders.h"

#include "gtest/gtest.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace adapt::interp;

namespace {

class CommandTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "adapt_interpret_" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name) { return folder + "/" + name; }
  std::string write(const std::string &name, const std::string &text) {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  int run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "adapt-interpret");
    std::vector<char *> argv;
    for (std::string &argument : arguments)
      argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int code = interpretMain(argv.size(), argv.data());
    testing::internal::GetCapturedStdout();
    errors = testing::internal::GetCapturedStderr();
    return code;
  }
  std::vector<float> readFloats(const std::string &name) {
    auto array = adapt::rt::readNpy(path(name));
    EXPECT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->descr, "<f4");
    std::vector<float> values(array->data.size() / 4);
    std::memcpy(values.data(), array->data.data(), array->data.size());
    return values;
  }

  std::string folder, errors;
  std::string add = R"(
    func.func @main(%x: tensor<?xf32, #adapt.dims<[N]>>, %y: tensor<?xf32, #adapt.dims<[N]>>)
        -> (tensor<?xf32, #adapt.dims<[N]>> {adapt.name = "sum"}) attributes {adapt.symbols = ["N"]} {
      %0 = adapt.add %x, %y : tensor<?xf32, #adapt.dims<[N]>>
      return %0 : tensor<?xf32, #adapt.dims<[N]>>
    })";
};

TEST_F(CommandTest, ExitCodes) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"a.mlir", "--nonsense"}), 2);
  EXPECT_EQ(run({"a.mlir", "--mode", "narrow"}), 2);
  EXPECT_EQ(run({"a.mlir", "--size", "T"}), 2);
  EXPECT_EQ(run({"a.mlir", "--logits", "out.npy"}), 2);
  EXPECT_EQ(run({path("absent.mlir")}), 1);
  EXPECT_EQ(run({write("broken.mlir", "func.func @main( {")}), 1);
  EXPECT_NE(errors.find("broken.mlir:1:"), std::string::npos) << errors;
  EXPECT_EQ(run({"a.mlir", "--block-tokens", "0"}), 2);
}

TEST_F(CommandTest, FilesInAndOut) {
  mlir::MLIRContext context;
  mlir::Builder builder(&context);
  auto save = [&](const std::string &name, llvm::ArrayRef<double> values) {
    Tensor tensor(builder.getF32Type(), {int64_t(values.size())});
    llvm::copy(values, tensor.mutableFloats().begin());
    EXPECT_FALSE(bool(writeTensor(path(name), tensor)));
    return path(name);
  };
  std::string module = write("add.mlir", add), x = save("x.npy", {1, 2, 3});
  std::string y = save("y.npy", {10, 20, 30}), z = save("z.npy", {1, 2});
  EXPECT_EQ(run({module, "--input", x, "--input", y, "--output-dir", path("out")}), 0) << errors;
  EXPECT_EQ(readFloats("out/sum.npy"), (std::vector<float>{11, 22, 33}));
  // Both arguments have N elements.
  EXPECT_EQ(run({module, "--input", x, "--input", z}), 1);
  EXPECT_NE(errors.find("argument 1"), std::string::npos) << errors;
  EXPECT_NE(errors.find("has 2 elements on axis 0, not 3"), std::string::npos) << errors;
  EXPECT_EQ(run({module, "--input", x}), 1);
  EXPECT_EQ(run({module, "--input", x, "--input", y, "--input", z}), 1);
}

TEST_F(CommandTest, RandomInputsAreTheSameAgain) {
  std::string module = write("add.mlir", add);
  for (const char *out : {"a", "b"})
    EXPECT_EQ(run({module, "--random-inputs", "5", "--size", "N=4", "--output-dir", path(out)}), 0);
  EXPECT_EQ(run({module, "--random-inputs", "6", "--size", "N=4", "--output-dir", path("c")}), 0);
  EXPECT_EQ(readFloats("a/sum.npy"), readFloats("b/sum.npy"));
  EXPECT_NE(readFloats("a/sum.npy"), readFloats("c/sum.npy"));
}

} // namespace
