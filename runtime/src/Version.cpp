#include "adapt/Version.h"

const char *adapt::rt::version() { return ADAPT_VERSION; }

const char *adapt::rt::commit() {
  return
#include "commit.inc"
      ;
}
