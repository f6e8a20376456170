// The command line of adapt-interpret.
#pragma once

namespace adapt::interp {

/// Returns the exit code: 0 done; 1 the module cannot be run, or two differ; 2 wrong usage.
int interpretMain(int argc, char **argv);

} // namespace adapt::interp
