// gated_mlp: norm, down(activation(gate) * up), residual.
#include "Blocks/BlockBinder.h"
#include "Blocks/BlockBuilder.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace adapt {
namespace {

struct GatedMlp : Block {
  Norm inputNorm;
  Linear gate, up, down;
  Activation activation = Activation::Silu;

  Value build(BlockBuilder &b, Value hidden) const override {
    Value normed = b.norm(*this, inputNorm, hidden);
    Value gated = b.linear(*this, gate, normed);
    Value raised = b.linear(*this, up, normed);
    Value product =
        GatedActivationOp::create(b.builder, b.getLoc(), gated.getType(), gated, raised,
                                  ActivationAttr::get(b.builder.getContext(), activation));
    return b.add(hidden, b.linear(*this, down, product));
  }
};

using Type = OptionSpec::Type;
constexpr OptionSpec kOptions[] = {{"norm", Type::Norm},       {"size", Type::Expr},
                                   {"activation", Type::Expr}, {"gate", Type::Linear},
                                   {"up", Type::Linear},       {"down", Type::Linear}};

/// The names are those of config files ("ACT2FN" in transformers).
std::optional<Activation> parseActivation(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Activation>>(name)
      .Cases({"silu", "swish"}, Activation::Silu)
      .Case("gelu", Activation::GeluErf)
      .Cases({"gelu_new", "gelu_pytorch_tanh"}, Activation::GeluTanh)
      .Default(std::nullopt);
}

std::unique_ptr<Block> bind(BlockBinder &binder) {
  auto block = std::make_unique<GatedMlp>();
  int64_t hidden = binder.hiddenSize, size = binder.size("size");
  std::string activation = binder.text("activation");
  if (auto known = parseActivation(activation))
    block->activation = *known;
  else
    binder.error() << "there is no activation '" << activation
                   << "'; there are silu, swish, gelu, gelu_new and gelu_pytorch_tanh";
  block->inputNorm = binder.norm("norm", hidden);
  block->gate = binder.linear("gate", size, hidden, "mlp");
  block->up = binder.linear("up", size, hidden, "mlp");
  block->down = binder.linear("down", hidden, size, "mlp");
  binder.split(block->gate, {0});
  binder.split(block->up, {0});
  binder.split(block->down, {1});
  return block;
}

} // namespace

const BlockKind kGatedMlp = {"gated_mlp", BlockKind::Place::Layer, kOptions, bind};

} // namespace adapt
