// attention: norm, q/k/v, rope, causal attention over the paged state with grouped heads, output,
// residual. Optionally an RMS norm on each head of query and key before rope (Qwen3).
#include "Blocks/BlockBinder.h"
#include "Blocks/BlockBuilder.h"
#include <cmath>

using namespace mlir;

namespace adapt {
namespace {

struct Attention : Block {
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  Norm inputNorm;
  Linear query, key, value, output;
  std::optional<Norm> queryNorm, keyNorm;

  Value build(BlockBuilder &b, Value hidden) const override {
    Value normed = b.norm(*this, inputNorm, hidden);
    Value q = b.reshape(b.linear(*this, query, normed), {heads, headDim});
    Value k = b.reshape(b.linear(*this, key, normed), {kvHeads, headDim});
    Value v = b.reshape(b.linear(*this, value, normed), {kvHeads, headDim});
    if (queryNorm)
      q = b.norm(*this, *queryNorm, q);
    if (keyNorm)
      k = b.norm(*this, *keyNorm, k);
    q = RopeOp::create(b.builder, b.getLoc(), q, b.step.cosines, b.step.sines);
    k = RopeOp::create(b.builder, b.getLoc(), k, b.step.cosines, b.step.sines);
    Value &state = b.nextState();
    auto attention = PagedAttentionOp::create(
        b.builder, b.getLoc(), TypeRange{q.getType(), state.getType()}, q, k, v, state,
        b.step.seqStarts, b.step.kvLens, b.step.blockTable,
        b.builder.getF64FloatAttr(1.0 / std::sqrt(double(headDim))), /*window=*/IntegerAttr());
    state = attention.getNewState();
    Value merged = b.reshape(attention.getResult(), {heads * headDim});
    return b.add(hidden, b.linear(*this, output, merged));
  }
};

using Type = OptionSpec::Type;
constexpr OptionSpec kOptions[] = {
    {"norm", Type::Norm},           {"heads", Type::Expr},    {"kv_heads", Type::Expr},
    {"head_dim", Type::Expr},       {"query", Type::Linear},  {"key", Type::Linear},
    {"value", Type::Linear},        {"output", Type::Linear}, {"query_norm", Type::Norm, false},
    {"key_norm", Type::Norm, false}};

std::unique_ptr<Block> bind(BlockBinder &binder) {
  auto block = std::make_unique<Attention>();
  block->heads = binder.size("heads");
  block->kvHeads = binder.size("kv_heads");
  block->headDim = binder.size("head_dim");
  if (block->heads % block->kvHeads != 0)
    binder.error() << block->kvHeads << " key/value heads do not divide " << block->heads
                   << " query heads";
  int64_t hidden = binder.hiddenSize;
  int64_t queryRows = block->heads * block->headDim, keyRows = block->kvHeads * block->headDim;
  block->inputNorm = binder.norm("norm", hidden);
  block->query = binder.linear("query", queryRows, hidden, "attention");
  block->key = binder.linear("key", keyRows, hidden, "attention");
  block->value = binder.linear("value", keyRows, hidden, "attention");
  block->output = binder.linear("output", hidden, queryRows, "attention");
  if (block->heads % block->kvHeads == 0) {
    int64_t queries = block->heads / block->kvHeads;
    binder.split(block->query, {0, block->kvHeads, queries});
    binder.split(block->key, {0, block->kvHeads});
    binder.split(block->value, {0, block->kvHeads});
    binder.split(block->output, {1, block->kvHeads, queries});
  }
  if (binder.has("query_norm"))
    block->queryNorm = binder.norm("query_norm", block->headDim);
  if (binder.has("key_norm"))
    block->keyNorm = binder.norm("key_norm", block->headDim);
  block->statePlanes = {{block->kvHeads, block->headDim}, {block->kvHeads, block->headDim}};
  return block;
}

} // namespace

const BlockKind kAttention = {"attention", BlockKind::Place::Layer, kOptions, bind};

} // namespace adapt
