/* The C ABI of a plugin that carries messages between ranks (adapt/Communicator.h, Transport): a
 * shared object libadapt-NAME.so that exports adapt_open_transport. It needs nothing of the
 * runtime. */
#ifndef ADAPT_TRANSPORT_PLUGIN_H
#define ADAPT_TRANSPORT_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ADAPT_TRANSPORT_ABI 1u
#define ADAPT_TRANSPORT_TEXT 4096

typedef struct AdaptMessage {
  int32_t peer;
  uint32_t tag; /* below 2^15 */
  char *data;   /* of a message that is sent: only read */
  uint64_t bytes;
} AdaptMessage;

typedef enum AdaptTransportCode {
  ADAPT_TRANSPORT_OK = 0,
  ADAPT_TRANSPORT_TIMEOUT = 1,   /* `silent` says who; nobody: all wait for each other */
  ADAPT_TRANSPORT_ANNOUNCED = 2, /* rank `peer` has announced `text`, of kind `status` */
  ADAPT_TRANSPORT_MISMATCH = 3,  /* rank `peer` sends another number of bytes; `text` has both */
  ADAPT_TRANSPORT_FAULT = 4      /* `text` says what the library reported */
} AdaptTransportCode;

typedef struct AdaptTransportError {
  int32_t peer;
  int32_t status;  /* as given to announce() */
  uint8_t *silent; /* [size] of the caller; 1: did not answer */
  int32_t reports; /* of a time-out: 1 if it is for this rank to report it */
  char text[ADAPT_TRANSPORT_TEXT];
} AdaptTransportError;

typedef struct AdaptTransport {
  uint32_t abi; /* ADAPT_TRANSPORT_ABI */
  int32_t rank, size;
  int32_t local_rank, local_size; /* among the ranks of this machine */
  int32_t is_bound; /* whether the launcher has bound this process to CPUs of its own */
  void *self;

  /* Sends and receives all of these. Returns an AdaptTransportCode. Messages of one peer and tag
   * arrive in order. After `timeout_ms` without success it finds out which ranks do not answer. */
  int (*exchange)(void *self, const AdaptMessage *sends, uint64_t num_sends,
                  const AdaptMessage *receives, uint64_t num_receives, int64_t timeout_ms,
                  AdaptTransportError *error);
  /* Gives rank 0 a failure to report; it ends all ranks, and this does not return. Returns where
   * rank 0 does not (or on rank 0): then the caller reports. */
  void (*announce)(void *self, int32_t status, const char *text);
  /* Ends all ranks. */
  void (*end)(void *self, int32_t exit_code);
  /* Leaves in good order, all ranks at once. */
  void (*close)(void *self);
} AdaptTransport;

/* Joins the ranks. Returns 0, or fills `text`. */
int adapt_open_transport(AdaptTransport *transport, char text[ADAPT_TRANSPORT_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
