// paged_append and paged_attend against double loops: ragged batches of prefill and decode,
// windows, tails, and bits that do not depend on what is computed together.
#include "KernelRunner.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace adapt;
using namespace adapt::test;

namespace {
struct Case {
  std::string name;
  std::string type; ///< of queries, keys, values and state
  int64_t heads, groups, keySize, valueSize;
  int64_t window = 0;
  std::string features = "";
  std::string target = "cpu";
};

void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

/// Sequences with their contents, to be fed to the kernels in steps.
class Session {
public:
  Session(const Case &c, std::vector<int64_t> lengths)
      : c(c), lengths(std::move(lengths)),
        width(*std::max_element(this->lengths.begin(), this->lengths.end()) / 16 + 2),
        bytes(bytesOf(c.type)), keyPlane(blocks() * 16 * c.groups * c.keySize * bytes),
        valuePlane(blocks() * 16 * c.groups * c.valueSize * bytes) {
    for (size_t s = 0; s < this->lengths.size(); ++s) {
      queries.push_back(make(s, c.heads * c.keySize, 3.0f));
      keys.push_back(make(s + 100, c.groups * c.keySize, 1.0f));
      values.push_back(make(s + 200, c.groups * c.valueSize, 1.0f));
    }
    done.assign(this->lengths.size(), 0);
    // Blocks in no order.
    table.resize(this->lengths.size() * width);
    std::iota(table.begin(), table.end(), 0);
    for (size_t i = 0; i < table.size(); ++i)
      std::swap(table[i], table[(i * 7 + 3) % table.size()]);
  }

  static std::string getTypes(const Case &c) {
    auto tensor = [&](int64_t heads, int64_t size) {
      std::string h = std::to_string(heads), s = std::to_string(size);
      return "tensor<?x" + h + "x" + s + "x" + c.type + ", #adapt.dims<[s0, " + h + ", " + s +
             "]>>\n";
    };
    auto plane = [&](int64_t size) {
      return "tensor<" + std::to_string(c.groups) + "x" + std::to_string(size) + "x" + c.type + ">";
    };
    return "!q = " + tensor(c.heads, c.keySize) + "!k = " + tensor(c.groups, c.keySize) +
           "!v = " + tensor(c.groups, c.valueSize) + "!o = " + tensor(c.heads, c.valueSize) +
           "!s = !adapt.paged<" + plane(c.keySize) + ", " + plane(c.valueSize) + ">\n" +
           "!starts = tensor<?xi32, #adapt.dims<[s1 + 1]>>\n!lens = tensor<?xi32, "
           "#adapt.dims<[s1]>>\n!table = tensor<?x?xi32, #adapt.dims<[s1, s2]>>\n";
  }

  static std::string getAppend(const Case &c) {
    return getTypes(c) + R"(
adapt.kernel @append(%k: !k, %v: !v, %s: !s, %starts: !starts, %lens: !lens, %table: !table) -> !s
    attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %n = adapt.paged_append %k, %v, %s at %starts, %lens, %table
      : (!k, !v, !s, !starts, !lens, !table) -> !s
  adapt.yield %n : !s
})";
  }

  static std::string getAttend(const Case &c) {
    std::string window = c.window ? " window = " + std::to_string(c.window) : "";
    return getTypes(c) + R"(
adapt.kernel @attend(%q: !q, %s: !s, %starts: !starts, %lens: !lens, %table: !table) -> (!o, !s)
    attributes {adapt.symbols = ["s0", "s1", "s2"]} {
  %o, %n = adapt.paged_attend %q, %s at %starts, %lens, %table scale = 2.5e-1)" +
           window + R"( : (!q, !s, !starts, !lens, !table) -> (!o, !s)
  adapt.yield %o, %n : !o, !s
})";
  }

  /// Feeds `counts[s]` more tokens of each sequence; returns the results, a vector per sequence.
  std::vector<std::vector<float>> step(const Kernel &append, const Kernel &attend,
                                       const std::vector<int64_t> &counts) {
    std::vector<float> q, k, v;
    std::vector<int32_t> starts = {0}, lens;
    for (size_t s = 0; s < counts.size(); ++s) {
      auto take = [&](std::vector<float> &to, const std::vector<float> &from, int64_t size) {
        to.insert(to.end(), from.begin() + done[s] * size,
                  from.begin() + (done[s] + counts[s]) * size);
      };
      take(q, queries[s], c.heads * c.keySize);
      take(k, keys[s], c.groups * c.keySize);
      take(v, values[s], c.groups * c.valueSize);
      done[s] += counts[s];
      starts.push_back(starts.back() + counts[s]);
      lens.push_back(done[s]);
    }
    std::map<std::string, int64_t> sizes = {
        {"s0", starts.back()}, {"s1", counts.size()}, {"s2", width}};
    Buffer bq = Buffer::floats(c.type, q), bk = Buffer::floats(c.type, k),
           bv = Buffer::floats(c.type, v), bs = Buffer::of(starts), bl = Buffer::of(lens),
           bt = Buffer::of(table), out(starts.back() * c.heads * c.valueSize * bytes);
    append.run({&bk, &bv, &keyPlane, &valuePlane, &bs, &bl, &bt}, sizes, true);
    attend.run({&bq, &keyPlane, &valuePlane, &bs, &bl, &bt, &out}, sizes);
    std::vector<float> all = out.toFloats(c.type);
    std::vector<std::vector<float>> results;
    for (size_t s = 0; s < counts.size(); ++s)
      results.emplace_back(all.begin() + starts[s] * c.heads * c.valueSize,
                           all.begin() + starts[s + 1] * c.heads * c.valueSize);
    return results;
  }

  /// What `step` should have returned for tokens [begin, end) of a sequence.
  std::vector<float> expect(size_t s, int64_t begin, int64_t end) const {
    std::vector<float> result;
    int64_t share = c.heads / c.groups;
    for (int64_t t = begin; t < end; ++t)
      for (int64_t h = 0; h < c.heads; ++h) {
        int64_t first = c.window ? std::max<int64_t>(0, t + 1 - c.window) : 0, g = h / share;
        std::vector<double> scores;
        for (int64_t j = first; j <= t; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < c.keySize; ++d)
            dot += double(queries[s][(t * c.heads + h) * c.keySize + d]) *
                   keys[s][(j * c.groups + g) * c.keySize + d];
          scores.push_back(dot * 0.25);
        }
        double largest = *std::max_element(scores.begin(), scores.end()), sum = 0;
        for (double &score : scores)
          sum += score = std::exp(score - largest);
        for (int64_t e = 0; e < c.valueSize; ++e) {
          double mixed = 0;
          for (int64_t j = first; j <= t; ++j)
            mixed += scores[j - first] * values[s][(j * c.groups + g) * c.valueSize + e];
          result.push_back(mixed / sum);
        }
      }
    return result;
  }

private:
  int64_t blocks() const { return lengths.size() * width; }
  std::vector<float> make(size_t s, int64_t size, float scale) const {
    std::vector<float> result = randomFloats(lengths[s % 100] * size, s, scale);
    for (float &value : result)
      value = roundTo(c.type, value);
    return result;
  }

  const Case &c;
  std::vector<int64_t> lengths, done;
  int64_t width, bytes;
  std::vector<int32_t> table;
  Buffer keyPlane, valuePlane; // at first not a number anywhere
  std::vector<std::vector<float>> queries, keys, values;
};

class PagedAttention : public testing::TestWithParam<Case> {
protected:
  PagedAttention() {
    append = Kernel::create(Session::getAppend(c), c.target, c.features);
    attend = Kernel::create(Session::getAttend(c), c.target, c.features);
  }
  double getTolerance() const { return 2e-6 + 2.5 * epsilonOf(c.type); }
  Case c = GetParam();
  std::unique_ptr<Kernel> append, attend;
};

// Steps of a ragged batch: long and short prefills, single tokens, nothing at all.
const std::vector<int64_t> kLengths = {290, 31, 17, 4, 1};
const std::vector<std::vector<int64_t>> kSteps = {
    {290, 20, 1, 3, 0}, {0, 1, 1, 1, 0}, {0, 10, 15, 0, 1}};
} // namespace

TEST_P(PagedAttention, RaggedStepsEqualDoubleLoops) {
  std::vector<int64_t> lengths = kLengths;
  std::vector<std::vector<int64_t>> steps = kSteps;
  if (c.target != "cpu" && c.heads > 8) // the simulation is slow
    lengths[0] = steps[0][0] = 70;
  Session session(c, lengths);
  std::vector<int64_t> done(lengths.size(), 0);
  for (const auto &counts : steps) {
    auto results = session.step(*append, *attend, counts);
    for (size_t s = 0; s < counts.size(); ++s) {
      EXPECT_LE(maxError(results[s], session.expect(s, done[s], done[s] + counts[s])),
                getTolerance())
          << "sequence " << s << " from " << done[s];
      done[s] += counts[s];
    }
  }
}

TEST_P(PagedAttention, BitsDoNotDependOnTheBatch) {
  std::vector<int64_t> lengths = kLengths;
  std::vector<std::vector<int64_t>> steps = kSteps;
  if (c.target != "cpu") { // the simulation is slow; here is more than one chunk of a wave
    lengths[0] = steps[0][0] = 70;
    append->runInOneOrder();
    attend->runInOneOrder();
  }
  std::vector<std::vector<float>> together(lengths.size()), alone(lengths.size());
  Session batch(c, lengths);
  for (const auto &counts : steps) {
    auto results = batch.step(*append, *attend, counts);
    for (size_t s = 0; s < counts.size(); ++s)
      together[s].insert(together[s].end(), results[s].begin(), results[s].end());
  }
  Session other(c, lengths);
  for (size_t s = 0; s < lengths.size(); ++s)
    for (int64_t t = 0; t < lengths[s]; ++t) {
      std::vector<int64_t> counts(lengths.size(), 0);
      counts[s] = 1;
      auto results = other.step(*append, *attend, counts);
      alone[s].insert(alone[s].end(), results[s].begin(), results[s].end());
    }
  for (size_t s = 0; s < lengths.size(); ++s)
    EXPECT_EQ(together[s], alone[s]) << "sequence " << s;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PagedAttention,
    testing::ValuesIn(
        onAll({Case{"f32", "f32", 4, 2, 16, 16}, Case{"bf16", "bf16", 9, 3, 64, 64},
               Case{"bf16_mha_window", "bf16", 2, 2, 32, 32, 20},
               Case{"f32_window", "f32", 6, 2, 16, 32, 7},
               Case{"f32_long_window", "f32", 3, 1, 16, 16, 150},
               Case{"f32_odd", "f32", 3, 1, 7, 21}, Case{"bf16_odd", "bf16", 3, 1, 9, 21},
               Case{"bf16_many_heads", "bf16", 32, 1, 16, 128}, Case{"f16", "f16", 6, 2, 32, 24, 9},
               Case{"bf16_fma", "bf16", 6, 2, 32, 24, 0, "-avx512bf16"},
               Case{"bf16_avx2", "bf16", 6, 2, 32, 24, 9, "-avx512f,+avx2,+fma"},
               Case{"f32_sse", "f32", 4, 2, 16, 24, 0, "-avx,-avx2,-fma,-avx512f"}})),
    [](const auto &info) { return info.param.name; });
