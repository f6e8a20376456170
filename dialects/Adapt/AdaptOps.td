#ifndef ADAPT_OPS_TD
#define ADAPT_OPS_TD

// Each family has a .td of definitions and a .cpp of the same name with verifiers, folders and
// interfaces.
include "dialects/Adapt/AdaptOpBase.td"
include "dialects/Adapt/Structure.td"
include "dialects/Adapt/Weights.td"
include "dialects/Adapt/Elementwise.td"
include "dialects/Adapt/Shape.td"
include "dialects/Adapt/Linear.td"
include "dialects/Adapt/Normalization.td"
include "dialects/Adapt/RotaryEmbedding.td"
include "dialects/Adapt/Attention.td"
include "dialects/Adapt/Collectives.td"

#endif
