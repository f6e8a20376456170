#include "adapt/Support/Yaml.h"
#include "TestFiles.h"
#include "gmock/gmock.h"

using namespace adapt;
using testing::HasSubstr;

namespace {

class Yaml : public testing::Test {
protected:
  mlir::FailureOr<YamlNode> parse(llvm::StringRef text) {
    return parseYaml(&context, text, "f.yaml");
  }
  mlir::MLIRContext context;
  test::Diagnostics diagnostics{&context};
};

TEST_F(Yaml, Tree) {
  auto root = parse("a: 1\n"
                    "b: [x, 'y z', null]\n"
                    "c:\n"
                    "  d: model.layers.{layer}.weight  # a comment\n"
                    "  e:\n");
  ASSERT_TRUE(mlir::succeeded(root)) << diagnostics.text;
  YamlMap map(*root, "the test");
  EXPECT_EQ(map.requireText("a"), "1");
  const YamlNode *b = map.require("b");
  ASSERT_EQ(b->items.size(), 3u);
  EXPECT_EQ(b->items[1].text, "y z");
  EXPECT_EQ(b->items[2].kind, YamlNode::Kind::Null);
  YamlMap c(*map.require("c"), "c");
  EXPECT_EQ(c.requireText("d"), "model.layers.{layer}.weight");
  EXPECT_EQ(c.require("e")->kind, YamlNode::Kind::Null);
  EXPECT_TRUE(mlir::succeeded(c.finish()));
  EXPECT_TRUE(mlir::succeeded(map.finish()));
  EXPECT_EQ(diagnostics.text, "");
}

TEST_F(Yaml, WrongKeysAreToldWithPlaceAndNearest) {
  auto root = parse("family: x\nhaeds: 1\n\nsomething_else: 2\n");
  ASSERT_TRUE(mlir::succeeded(root));
  YamlMap map(*root, "a family");
  map.get("family");
  map.get("heads");
  EXPECT_TRUE(mlir::failed(map.finish()));
  EXPECT_THAT(diagnostics.text, HasSubstr("f.yaml\":2:1"));
  EXPECT_THAT(diagnostics.text, HasSubstr("a family has no key 'haeds' (did you mean 'heads'?)"));
  EXPECT_THAT(diagnostics.text, HasSubstr("f.yaml\":4:1"));
  EXPECT_THAT(diagnostics.text, HasSubstr("no key 'something_else'\n"));
}

TEST_F(Yaml, Refused) {
  const std::pair<std::string, const char *> cases[] = {
      {"", "the file is empty"},
      {"a: 1\na: 2\n", "key 'a' stands here twice"},
      {"a: &x 1\nb: *x\n", "aliases are not supported"},
      {"a: [1, 2\n", "f.yaml"},
      {"a: 1\n---\nb: 2\n", "more than one document"},
      {"{[1]: 2}", "a key must be a plain word"},
      {std::string(20000, '[') + std::string(20000, ']'), "nested more than 64 levels"},
      {"a: 'unclosed", "f.yaml"},
      {"a: b: c\n", "f.yaml"},
  };
  for (const auto &[text, expected] : cases) {
    diagnostics.text.clear();
    EXPECT_TRUE(mlir::failed(parse(text))) << text;
    EXPECT_THAT(diagnostics.text, HasSubstr(expected)) << text;
  }
  EXPECT_TRUE(mlir::failed(readYaml(&context, "/nonexistent/f.yaml")));
}

TEST_F(Yaml, MissingKeysAndWrongKinds) {
  auto root = parse("a: [1]\n");
  ASSERT_TRUE(mlir::succeeded(root));
  YamlMap map(*root, "it");
  map.requireText("a");
  map.require("b");
  EXPECT_TRUE(mlir::failed(map.finish()));
  EXPECT_THAT(diagnostics.text, HasSubstr("'a' must be a value, not a list"));
  EXPECT_THAT(diagnostics.text, HasSubstr("it lacks the key 'b'"));
  YamlMap notMap(*map.get("a"), "it");
  EXPECT_TRUE(mlir::failed(notMap.finish()));
  EXPECT_THAT(diagnostics.text, HasSubstr("it must be a map, not a list"));
}

} // namespace
