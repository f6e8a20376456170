#ifndef ADAPT_OP_BASE_TD
#define ADAPT_OP_BASE_TD

include "dialects/Adapt/AdaptDialect.td"
include "dialects/Adapt/AdaptInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"

class Adapt_Op<string mnemonic, list<Trait> traits = []> : Op<Adapt_Dialect, mnemonic, traits>;

// The interfaces that a computing operation answers.
def Adapt_Evaluate : DeclareOpInterfaceMethods<EvaluateOpInterface, ["evaluate"]>;
def Adapt_Decompose : DeclareOpInterfaceMethods<DecomposeOpInterface>;
def Adapt_Linalg : DeclareOpInterfaceMethods<LinalgOpLoweringInterface, ["lowerToLinalg"]>;
def Adapt_Sharding : DeclareOpInterfaceMethods<ShardingRuleOpInterface>;
def Adapt_Cost : DeclareOpInterfaceMethods<CostOpInterface>;
def Adapt_Recipe : DeclareOpInterfaceMethods<RecipeOpInterface>;
def Adapt_Collective : DeclareOpInterfaceMethods<CollectiveOpInterface>;
def Adapt_State : DeclareOpInterfaceMethods<StateOpInterface>;

class Adapt_BaseOp<string mnemonic, list<Trait> traits = []>
    : Adapt_Op<mnemonic, [Pure, Adapt_Evaluate, Adapt_Linalg, Adapt_Sharding, Adapt_Cost] # traits>;

class Adapt_CompositeOp<string mnemonic, list<Trait> traits = []>
    : Adapt_Op<mnemonic, [Pure, Adapt_Evaluate, Adapt_Decompose, Adapt_Sharding, Adapt_Cost] # traits>;

#endif
