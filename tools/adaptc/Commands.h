// The commands of adaptc. Each returns the exit code: 0 done, 1 the model cannot be done, 3 a fault
// of ours (2, wrong usage, is main's).
#pragma once

#include "adapt/Driver/Compiler.h"

namespace CLI {
class App;
} // namespace CLI

namespace adapt {

struct CommandOptions {
  CompileOptions compile;
  bool json = false;
};

void addOptions(CLI::App &app, CommandOptions &options);
/// Refuses options that do not go together: throws a CLI::ValidationError.
void checkCombinations(const CLI::App &app, const CommandOptions &options, bool isSubcommand);
int runCompile(CommandOptions &options);
int runPlan(CommandOptions &options);
int runInspect(CommandOptions &options);

} // namespace adapt
