#ifndef ADAPT_IMPORT_PASSES
#define ADAPT_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def VerifyImport : Pass<"adapt-verify-import", "::mlir::ModuleOp"> {
  let summary = "checks what holds at the end of the phase import";
  let description = [{
    There is an entry point; each private function is called, and no two are equal (a function per
    *distinct* layer). Weights are params: no constant holds more than 1 KiB. A name is one param in a
    function. State is linear: each value of it is used once.
  }];
}

#endif
