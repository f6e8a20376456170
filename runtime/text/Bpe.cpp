#include "text/Bpe.h"

#include <algorithm>

namespace adapt::rt {

size_t Bpe::encode(std::string_view word, bool plain, Scratch &scratch,
                   std::vector<int32_t> &ids) const {
  auto allowed = [&](int32_t id) { return !plain || !special[id]; };
  if (!words.empty())
    if (auto it = words.find(absl::string_view(word.data(), word.size()));
        it != words.end() && allowed(it->second)) {
      ids.push_back(it->second);
      return 0;
    }

  std::vector<Scratch::Symbol> &symbols = scratch.symbols;
  symbols.clear();
  size_t dropped = 0;
  bool afterUnknown = false;
  for (char byte : word) {
    int32_t id = byteTokens[static_cast<unsigned char>(byte)];
    bool isUnknown = id < 0;
    if (isUnknown) {
      id = unknown;
      if (id < 0 || !allowed(id)) {
        ++dropped;
        continue;
      }
      if (fuseUnknown && afterUnknown)
        continue;
    }
    afterUnknown = isUnknown;
    int32_t position = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  }
  if (symbols.empty())
    return dropped;
  symbols.back().next = -1;

  // The best candidate is the one of lowest rank, then the leftmost.
  auto worse = [](const Scratch::Candidate &a, const Scratch::Candidate &b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  std::vector<Scratch::Candidate> &heap = scratch.heap;
  heap.clear();
  auto find = [&](int32_t position) -> const Merge * {
    const Scratch::Symbol &left = symbols[position];
    if (left.next < 0)
      return nullptr;
    auto it = merges.find(pairKey(left.id, symbols[left.next].id));
    return it != merges.end() && allowed(it->second.id) ? &it->second : nullptr;
  };
  auto push = [&](int32_t position) {
    if (const Merge *merge = find(position)) {
      heap.push_back({merge->rank, position, merge->id});
      std::push_heap(heap.begin(), heap.end(), worse);
    }
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    if (const Merge *merge = find(static_cast<int32_t>(i)))
      heap.push_back({merge->rank, static_cast<int32_t>(i), merge->id});
  std::make_heap(heap.begin(), heap.end(), worse);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), worse);
    Scratch::Candidate best = heap.back();
    heap.pop_back();
    Scratch::Symbol &left = symbols[best.position];
    if (left.id < 0)
      continue;
    // A candidate is stale once one of its two symbols was merged into another token.
    const Merge *merge = find(best.position);
    if (!merge || merge->id != best.id)
      continue;
    Scratch::Symbol &right = symbols[left.next];
    left.id = best.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0)
      symbols[left.next].prev = best.position;
    if (left.prev >= 0)
      push(left.prev);
    push(best.position);
  }
  for (const Scratch::Symbol &symbol : symbols)
    if (symbol.id >= 0)
      ids.push_back(symbol.id);
  return dropped;
}

const WordCache::Entry &WordCache::get(const Bpe &bpe, std::string_view word, bool plain) {
  if (word.size() > kMaxWord) {
    uncached.ids.clear();
    uncached.dropped = bpe.encode(word, plain, scratch, uncached.ids);
    return uncached;
  }
  auto &map = entries[plain];
  auto it = map.find(absl::string_view(word.data(), word.size()));
  if (it != map.end())
    return it->second;
  if (map.size() >= kMaxEntries)
    map.clear();
  Entry entry;
  entry.dropped = bpe.encode(word, plain, scratch, entry.ids);
  return map.emplace(std::string(word), std::move(entry)).first->second;
}

} // namespace adapt::rt
