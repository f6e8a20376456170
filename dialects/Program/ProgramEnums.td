#ifndef PROGRAM_ENUMS_TD
#define PROGRAM_ENUMS_TD

include "mlir/IR/EnumAttr.td"

// In a file of their own: enums of included dialects would be generated again.
def Program_CollectiveKind : I32EnumAttr<"CollectiveKind", "what ranks do together", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">, I32EnumAttrCase<"AllGather", 1, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">]> {
  let cppNamespace = "::adapt::program";
  let genSpecializedAttr = 0;
}

#endif
