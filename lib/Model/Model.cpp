#include "adapt/Model/Model.h"
#include "llvm/Support/MathExtras.h"

namespace adapt {

void WeightExpr::forEachSource(llvm::function_ref<void(WeightExpr &)> visit) {
  if (kind == Kind::Source)
    visit(*this);
  for (WeightExpr &operand : operands)
    operand.forEachSource(visit);
}

// Binding has checked that this needs at most 63 bits.
int64_t Weight::getNumElements() const {
  int64_t product = 1;
  for (int64_t size : value.shape)
    product *= size;
  return product;
}

void Model::forEachWeight(llvm::function_ref<void(const Weight &, int64_t)> visit) const {
  for (const Weight &weight : embedding->weights)
    visit(weight, 1);
  for (const LayerKind &kind : layerKinds)
    for (const std::unique_ptr<Block> &block : kind.blocks)
      for (const Weight &weight : block->weights)
        visit(weight, kind.layers.size());
  for (const Weight &weight : head->weights)
    if (!isHeadTied || weight.name != embedding->weights[0].name)
      visit(weight, 1);
}

std::map<std::string, int64_t> Model::countParameters() const {
  std::map<std::string, int64_t> counts;
  forEachWeight([&](const Weight &weight, int64_t count) {
    int64_t &total = counts[weight.part];
    total = llvm::SaturatingAdd(uint64_t(total), uint64_t(weight.getNumElements()) * count);
  });
  return counts;
}

int64_t Model::getStateBytesPerToken() const {
  int64_t elements = 0;
  for (const LayerKind &kind : layerKinds)
    for (const std::unique_ptr<Block> &block : kind.blocks)
      for (const auto &plane : block->statePlanes) {
        int64_t size = kind.layers.size();
        for (int64_t extent : plane)
          size *= extent;
        elements += size;
      }
  return elements * dtype.getIntOrFloatBitWidth() / 8;
}

} // namespace adapt
