/* Runs a bundle, a graph or a language model, through the C API:
 *   run_bundle BUNDLE NUMBER...
 * The numbers are token ids. A language model continues them by the likeliest token, whose id and
 * logit are printed. A graph gets them in every input, of integers or floating-point numbers: as
 * [1, ..., 1, count] if its rank is at least 1; the shape and the first elements of outputs of f32
 * are printed.
 */
#include "adapt/adapt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 8
#define MAX_SHOWN 8

static int fail(adapt_status *status) {
  int code = (int)adapt_status_code(status);
  fprintf(stderr, "run_bundle: error: %s\n", adapt_status_message(status));
  adapt_status_free(status);
  return code;
}

struct best {
  int64_t count, id;
  float logit;
};

static int take_logits(void *user, size_t chunk, int64_t token, const float *logits) {
  struct best *best = user;
  int64_t i;
  (void)chunk;
  (void)token;
  for (i = 0; i < best->count; ++i)
    if (i == 0 || logits[i] > best->logit) {
      best->id = i;
      best->logit = logits[i];
    }
  return 0;
}

static int run_language_model(adapt_model *model, const int64_t *numbers, size_t count) {
  struct best best = {0, 0, 0};
  adapt_chunk chunk;
  adapt_status *status;
  size_t i;
  int32_t *tokens = malloc((count + 1) * sizeof(int32_t));
  if (!tokens)
    return 3;
  for (i = 0; i < count; ++i)
    tokens[i] = (int32_t)numbers[i];
  memset(&chunk, 0, sizeof chunk);
  chunk.tokens = tokens;
  chunk.count = count;
  best.count = adapt_language_vocab_size(model);
  status = adapt_language_add_sequence(model, &chunk.sequence);
  if (!status)
    status = adapt_language_step(model, &chunk, 1, take_logits, &best);
  free(tokens);
  if (status)
    return fail(status);
  adapt_language_remove_sequence(model, chunk.sequence);
  printf("next %" PRId64 " %.9g\n", best.id, (double)best.logit);
  return 0;
}

static void print_output(const adapt_tensor *output) {
  int64_t elements = 1, i;
  size_t axis;
  printf("%s [", output->name);
  for (axis = 0; axis < output->rank; ++axis) {
    printf(axis ? ", %" PRId64 : "%" PRId64, output->shape[axis]);
    elements *= output->shape[axis];
  }
  printf("]");
  if (output->element == ADAPT_F32)
    for (i = 0; i < elements && i < MAX_SHOWN; ++i)
      printf(" %.9g", (double)((const float *)output->data)[i]);
  printf("\n");
}

static int run_graph(adapt_model *model, const int64_t *numbers, size_t count) {
  size_t inputs = adapt_graph_num_inputs(model), i;
  int64_t shape[MAX_RANK];
  adapt_tensor *tensors = calloc(inputs + 1, sizeof(adapt_tensor));
  float *floats = malloc((count + 1) * sizeof(float));
  adapt_results *results = NULL;
  adapt_status *status;
  if (!tensors || !floats)
    return 3;
  for (i = 0; i < count; ++i)
    floats[i] = (float)numbers[i];
  for (i = 0; i < MAX_RANK; ++i)
    shape[i] = 1;
  shape[MAX_RANK - 1] = (int64_t)count;
  for (i = 0; i < inputs; ++i) {
    const adapt_port *port = adapt_graph_input(model, i);
    if (port->rank > MAX_RANK || (port->element != ADAPT_I64 && port->element != ADAPT_F32)) {
      fprintf(stderr, "run_bundle: error: input '%s' is of another kind\n", port->name);
      free(tensors);
      free(floats);
      return 1;
    }
    tensors[i].name = port->name;
    tensors[i].element = port->element;
    tensors[i].rank = port->rank;
    tensors[i].shape = shape + MAX_RANK - port->rank;
    tensors[i].data = port->element == ADAPT_I64 ? (const void *)numbers : (const void *)floats;
  }
  status = adapt_graph_run(model, tensors, inputs, &results);
  free(tensors);
  free(floats);
  if (status)
    return fail(status);
  for (i = 0; i < adapt_results_count(results); ++i)
    print_output(adapt_results_get(results, i));
  adapt_results_free(results);
  return 0;
}

int main(int argc, char **argv) {
  adapt_load_options options;
  adapt_model *model = NULL;
  adapt_status *status;
  int64_t *numbers;
  size_t count = 0;
  int i, code;
  if (argc < 3) {
    fprintf(stderr, "usage: run_bundle BUNDLE NUMBER...\n");
    return 2;
  }
  numbers = malloc((size_t)argc * sizeof(int64_t));
  if (!numbers)
    return 3;
  for (i = 2; i < argc; ++i) {
    char *end;
    numbers[count++] = strtoll(argv[i], &end, 10);
    if (end == argv[i] || *end) {
      fprintf(stderr, "run_bundle: '%s' is no number\n", argv[i]);
      free(numbers);
      return 2;
    }
  }
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  status = adapt_model_load(argv[1], &options, &model);
  if (status) {
    free(numbers);
    return fail(status);
  }
  code = adapt_model_kind(model) == ADAPT_GRAPH ? run_graph(model, numbers, count)
                                                : run_language_model(model, numbers, count);
  adapt_model_free(model);
  free(numbers);
  return code;
}
