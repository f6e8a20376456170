// adaptc: a checkpoint in, a bundle out.
#include "Commands.h"
#include "adapt/Bundle/BundleWriter.h"
#include "adapt/Support/Version.h"
#include "adapt/Target/Target.h"
#include <CLI/CLI.hpp>
#include <iostream>

using namespace adapt;

int main(int argc, char **argv) {
  CLI::App app("adaptc: compiles a model's checkpoint to a bundle for a target.\n"
               "  adaptc MODEL [-o BUNDLE]     compiles\n"
               "  adaptc plan MODEL            what it will need, from headers alone\n"
               "  adaptc inspect MODEL         what it is");
  app.set_version_flag("--version", [] {
    std::string text = getVersionText("adaptc") + "\ntargets:";
    for (const std::string &target : listTargets())
      text += " " + target;
    return text;
  });
  app.require_subcommand(0, 1);
  // Options may stand before or after the subcommand's name.
  app.fallthrough();

  CommandOptions options;
  addOptions(app, options);
  CLI::App *plan = app.add_subcommand("plan", "bytes by region, and what does not fit");
  CLI::App *inspect = app.add_subcommand("inspect", "structure, parameters and operations");
  for (CLI::App *command : {plan, inspect})
    command->add_option("model", options.compile.input, "folder of the checkpoint")->required();

  try {
    app.parse(argc, argv);
    if (!*plan && !*inspect && options.compile.input.empty())
      throw CLI::RequiredError("model");
    checkCombinations(app, options, *plan || *inspect);
  } catch (const CLI::ParseError &error) {
    // --help and --version end here too, with 0.
    return app.exit(error) == 0 ? 0 : 2;
  }
  removeUnfinishedBundlesOnSignal();
  if (*plan)
    return runPlan(options);
  if (*inspect)
    return runInspect(options);
  return runCompile(options);
}
