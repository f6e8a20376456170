// What an operation's toRecipe needs: the schema, kept out of the dialect's header because
// Protobuf's headers are slow to compile.
#pragma once

#include "recipe.pb.h"
