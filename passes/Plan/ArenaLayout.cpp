#include "passes/Plan/ArenaLayout.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <tuple>

using namespace adapt;

std::optional<int64_t> adapt::layOutArena(llvm::MutableArrayRef<ArenaRequest> requests,
                                          int64_t alignment) {
  llvm::SmallVector<ArenaRequest *> order;
  int64_t total = 0;
  for (ArenaRequest &request : requests) {
    if (request.bytes > std::numeric_limits<int64_t>::max() - alignment ||
        llvm::AddOverflow<int64_t>(total, llvm::alignTo(request.bytes, alignment), total))
      return std::nullopt;
    order.push_back(&request);
  }
  // By address last: the answer must not depend on the sort.
  llvm::sort(order, [](const ArenaRequest *a, const ArenaRequest *b) {
    return std::tuple(-a->bytes, a->firstStep, a) < std::tuple(-b->bytes, b->firstStep, b);
  });

  int64_t end = 0;
  llvm::SmallVector<ArenaRequest *> placed; // by offset
  for (ArenaRequest *request : order) {
    int64_t bytes = llvm::alignTo(request->bytes, alignment);
    int64_t best = -1, bestGap = std::numeric_limits<int64_t>::max(), gapBegin = 0;
    for (ArenaRequest *other : placed) {
      if (other->lastStep < request->firstStep || request->lastStep < other->firstStep)
        continue;
      int64_t gap = other->offset - gapBegin;
      if (gap >= bytes && gap < bestGap) {
        best = gapBegin;
        bestGap = gap;
      }
      gapBegin =
          std::max<int64_t>(gapBegin, other->offset + llvm::alignTo(other->bytes, alignment));
    }
    request->offset = best >= 0 ? best : gapBegin;
    end = std::max(end, request->offset + bytes);
    placed.insert(llvm::upper_bound(placed, request,
                                    [](const ArenaRequest *a, const ArenaRequest *b) {
                                      return a->offset < b->offset;
                                    }),
                  request);
  }
  return end;
}
