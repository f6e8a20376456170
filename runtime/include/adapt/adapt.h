/* The runtime as a C library: loads a bundle that adaptc wrote, a graph or a language model, and
 * runs it. Nothing throws or exits. A function that can fail returns NULL on success, else a status
 * that the caller frees. A model is used by one thread at a time.
 */
#ifndef ADAPT_ADAPT_H
#define ADAPT_ADAPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why something failed. */
typedef struct adapt_status adapt_status;

typedef enum adapt_code {
  ADAPT_REFUSED = 1, /* the bundle, the inputs or the machine do not allow it */
  ADAPT_FAULT = 3    /* a fault of this library, or a kernel that failed */
} adapt_code;

adapt_code adapt_status_code(const adapt_status *status);
/* In words, one problem a line. Valid until the status is freed. */
const char *adapt_status_message(const adapt_status *status);
void adapt_status_free(adapt_status *status);

/*===--------------------------------------------------------------------===*/
/* Models                                                                     */
/*===--------------------------------------------------------------------===*/

typedef struct adapt_model adapt_model;

typedef enum adapt_kind { ADAPT_GRAPH = 1, ADAPT_LANGUAGE_MODEL = 2 } adapt_kind;

typedef struct adapt_load_options {
  size_t size;          /* of this struct, sizeof(adapt_load_options) */
  int threads;          /* 0: one for each core */
  int verify_hashes;    /* of all files, the weights too */
  int poison;           /* memory that kernels may not read is filled with NaN, to find faults */
  int64_t cache_tokens; /* of a language model, all sequences together; 0: what the bundle allows */
  const char *device;   /* cpu, cuda, hip or sim; NULL: the bundle's target */
  const char *lane_order; /* of sim: forward, reverse, permuted or permuted:SEED; NULL: forward */
} adapt_load_options;

/* `options` may be NULL. */
adapt_status *adapt_model_load(const char *bundle, const adapt_load_options *options,
                               adapt_model **model);
void adapt_model_free(adapt_model *model);
adapt_kind adapt_model_kind(const adapt_model *model);

/*===--------------------------------------------------------------------===*/
/* Graphs                                                                     */
/*===--------------------------------------------------------------------===*/

/* As in runtime/schema/types.proto. */
typedef enum adapt_element {
  ADAPT_F64 = 1,
  ADAPT_F32 = 2,
  ADAPT_F16 = 3,
  ADAPT_BF16 = 4,
  ADAPT_I64 = 5,
  ADAPT_I32 = 6,
  ADAPT_I16 = 7,
  ADAPT_I8 = 8,
  ADAPT_U64 = 9,
  ADAPT_U32 = 10,
  ADAPT_U16 = 11,
  ADAPT_U8 = 12,
  ADAPT_BOOL = 13
} adapt_element;

/* An input or output: name and element type, and each axis as text ("batch", "16"). */
typedef struct adapt_port {
  const char *name;
  adapt_element element;
  size_t rank;
  const char *const *shape;
} adapt_port;

/* A dense row-major tensor. */
typedef struct adapt_tensor {
  const char *name;
  adapt_element element;
  size_t rank;
  const int64_t *shape;
  const void *data;
} adapt_tensor;

/* Zero for a language model. Ports live as long as the model. */
size_t adapt_graph_num_inputs(const adapt_model *model);
size_t adapt_graph_num_outputs(const adapt_model *model);
const adapt_port *adapt_graph_input(const adapt_model *model, size_t index);
const adapt_port *adapt_graph_output(const adapt_model *model, size_t index);

typedef struct adapt_results adapt_results;

/* Runs a graph on all of its inputs, in any order. */
adapt_status *adapt_graph_run(adapt_model *model, const adapt_tensor *inputs, size_t count,
                              adapt_results **results);
size_t adapt_results_count(const adapt_results *results);
/* Valid until the results are freed. */
const adapt_tensor *adapt_results_get(const adapt_results *results, size_t index);
void adapt_results_free(adapt_results *results);

/*===--------------------------------------------------------------------===*/
/* Language models                                                            */
/*===--------------------------------------------------------------------===*/

int64_t adapt_language_vocab_size(const adapt_model *model);
int64_t adapt_language_max_seq_len(const adapt_model *model);

adapt_status *adapt_language_add_sequence(adapt_model *model, uint64_t *sequence);
void adapt_language_remove_sequence(adapt_model *model, uint64_t sequence);

/* Tokens that are appended to a sequence. */
typedef struct adapt_chunk {
  uint64_t sequence;
  const int32_t *tokens;
  size_t count;
  int all_logits; /* of each token, not only of the last */
} adapt_chunk;

/* Called with the logits [vocab_size] of a token of a chunk. Another value than 0 ends the step. */
typedef int (*adapt_logits)(void *user, size_t chunk, int64_t token, const float *logits);

adapt_status *adapt_language_step(adapt_model *model, const adapt_chunk *chunks, size_t count,
                                  adapt_logits logits, void *user);

#ifdef __cplusplus
}
#endif
#endif
