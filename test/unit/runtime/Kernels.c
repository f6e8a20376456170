// Kernels for the tests of the runtime, after the ABI of docs/bundle.md. Together they make a toy
// language model with one number per token and layer in its cache:
//   x[t] = token; per layer: cache[t] = x[t], x[t] = scale * sum over j <= t of (j + 1) * cache[j];
//   logits[l, v] = x[row l] * head[v] + v.
#include <stdint.h>
#include <string.h>

enum { kBlockTokens = 4 };

static int64_t sequenceOf(const int32_t *starts, int64_t s, int64_t t) {
  int64_t found = 0;
  for (int64_t i = 0; i < s; ++i)
    if (starts[i] <= t)
      found = i;
  return found;
}

// sizes T; buffers token_ids, x. Grid [T].
int embed(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)sizes, (void)scratch;
  ((float *)buffers[1])[id[0]] = (float)((const int32_t *)buffers[0])[id[0]];
  return 0;
}

// sizes T, S, B; buffers x, positions, seq_starts, block_table, plane. Grid [T].
int append(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)scratch;
  const float *x = buffers[0];
  const int32_t *positions = buffers[1], *starts = buffers[2], *table = buffers[3];
  float *plane = buffers[4];
  int64_t s = sequenceOf(starts, sizes[1], id[0]), position = positions[id[0]];
  int64_t block = table[s * sizes[2] + position / kBlockTokens];
  plane[block * 16 + position % kBlockTokens] = x[id[0]]; // 64 bytes a block
  return 0;
}

// sizes T, S, B; buffers positions, seq_starts, block_table, plane, scale[1], x. Grid [T].
int attend(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  const int32_t *positions = buffers[0], *starts = buffers[1], *table = buffers[2];
  const float *plane = buffers[3], *scale = buffers[4];
  float *terms = scratch; // 64 bytes
  int64_t s = sequenceOf(starts, sizes[1], id[0]), last = positions[id[0]];
  float sum = 0;
  for (int64_t j = 0; j <= last; ++j) {
    terms[j % 16] =
        (float)(j + 1) * plane[table[s * sizes[2] + j / kBlockTokens] * 16 + j % kBlockTokens];
    sum += terms[j % 16];
  }
  ((float *)buffers[5])[id[0]] = *scale * sum;
  return 0;
}

// sizes L, V; buffers x, logit_rows, head, logits. Grid [L, V / 2]. The variant for one row has
// grid [V].
int head(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)scratch;
  const float *x = buffers[0], *weights = buffers[2];
  float value = x[((const int32_t *)buffers[1])[id[0]]];
  for (int64_t v = 2 * id[1]; v < 2 * (int64_t)id[1] + 2; ++v)
    ((float *)buffers[3])[id[0] * sizes[1] + v] = value * weights[v] + (float)v;
  return 0;
}

// sizes L, V, first; buffers x, logit_rows, head, logits: a rank's part of the vocabulary, V
// entries from `first` on. Grid [L].
int head_part(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)scratch;
  const float *x = buffers[0], *weights = buffers[2];
  float value = x[((const int32_t *)buffers[1])[id[0]]];
  for (int64_t v = 0; v < sizes[1]; ++v)
    ((float *)buffers[3])[id[0] * sizes[1] + v] = value * weights[v] + (float)(sizes[2] + v);
  return 0;
}
int head_one(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)scratch, (void)sizes;
  const float *x = buffers[0], *weights = buffers[2];
  float value = x[((const int32_t *)buffers[1])[0]];
  ((float *)buffers[3])[id[0]] = value * weights[id[0]] + (float)id[0];
  return 0;
}

// sizes N, and grid extents; buffers out (i64[items, 4]): which item ran, and with what.
int record(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)scratch;
  int64_t item = ((int64_t)id[0] * sizes[1] + id[1]) * sizes[2] + id[2];
  int64_t *out = (int64_t *)buffers[0] + item * 4;
  out[0] += 1;
  out[1] = id[0], out[2] = id[1], out[3] = id[2];
  return 0;
}

// sizes N; buffers in, out. Grid [N]: out[i] = in[N - 1 - i] + 1: what any other item of the launch
// before wrote.
int reverse_increment(void *const *buffers, const int64_t *sizes, void *scratch,
                      const uint32_t id[3]) {
  (void)scratch;
  ((int64_t *)buffers[1])[id[0]] = ((const int64_t *)buffers[0])[sizes[0] - 1 - id[0]] + 1;
  return 0;
}

// sizes N; buffers out: writes a mark of the variant.
int mark_small(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)sizes, (void)scratch, (void)id;
  *(int64_t *)buffers[0] = 1;
  return 0;
}
int mark_medium(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)sizes, (void)scratch, (void)id;
  *(int64_t *)buffers[0] = 2;
  return 0;
}
int mark_large(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)sizes, (void)scratch, (void)id;
  *(int64_t *)buffers[0] = 3;
  return 0;
}

// Fails in item 3.
int fail(void *const *buffers, const int64_t *sizes, void *scratch, const uint32_t id[3]) {
  (void)buffers, (void)sizes, (void)scratch;
  return id[0] == 3 ? -7 : 0;
}
