// Runs a bundle. Exit codes: 0 done, 1 the input can't be done, 2 wrong usage, 3 a fault of ours.
#include "Commands.h"
#include "absl/strings/str_cat.h"
#include "adapt/Version.h"

#include "CLI/CLI.hpp"

#include <cstdio>
#include <iostream>
#include <limits>
#include <sstream>

using namespace adapt::rt;

namespace {

/// Counts and lengths; sums of two do not overflow. (CLI::PositiveNumber says its range in 300
/// digits.)
const CLI::Range kPositive(int64_t(1), int64_t(std::numeric_limits<int32_t>::max()));

} // namespace

int adapt::rt::report(const absl::Status &status) {
  if (status.ok())
    return 0;
  std::fflush(stdout);
  // Names from files may hold what a terminal should not see.
  std::string message;
  for (unsigned char c : status.message()) {
    if (c == '\n' || (c >= ' ' && c != 0x7f))
      message += static_cast<char>(c);
    else
      absl::StrAppend(&message, "\\x", absl::Hex(c, absl::kZeroPad2));
  }
  std::fprintf(stderr, "adapt-run: error: %s\n", message.c_str());
  return status.code() == absl::StatusCode::kInternal ? 3 : 1;
}

int main(int argc, char **argv) {
  RunOptions options;
  bool bench = false;
  int64_t maxTokens = 0;
  CLI::App app("Runs a model that adaptc compiled.", "adapt-run");
  app.set_version_flag("--version", absl::StrCat("adapt-run ", version(), " (", commit(),
                                                 "), devices: cpu, cuda, hip, sim"));
  app.add_option("bundle", options.bundle, "Folder that adaptc wrote")->required();

  auto *prompt = app.add_option("--prompt", options.prompt, "Continue this text on stdout");
  auto *tokens =
      app.add_option("--tokens", options.tokens,
                     "Token ids, .npy file [batch, seq] of int32 or int64, instead of a prompt");
  auto *benchFlag = app.add_flag("--bench", bench, "Measure prefill and decode");
  auto *input =
      app.add_option("--input", options.inputs, "An input of a graph, NAME=file.npy; once for each")
          ->type_name("NAME=FILE");
  prompt->excludes(tokens)->excludes(benchFlag)->excludes(input);
  tokens->excludes(benchFlag)->excludes(input);
  benchFlag->excludes(input);
  input->needs(app.add_option("--output-dir", options.outputDirectory,
                              "Folder for a graph's outputs, NAME.npy each"));

  app.add_option("--max-tokens", maxTokens,
                 "Generate at most N tokens (default: what the context holds)")
      ->check(CLI::Range(int64_t(0), int64_t(std::numeric_limits<int32_t>::max())))
      ->needs(prompt)
      ->type_name("N");
  app.add_option("--temperature", options.sampling.temperature, "0: greedy (default)")
      ->needs(prompt);
  app.add_option("--top-k", options.sampling.topK, "Sample among the k likeliest; 0: all")
      ->needs(prompt);
  app.add_option("--top-p", options.sampling.topP,
                 "Sample among the likeliest that have this probability together; 1: all")
      ->needs(prompt);
  app.add_option("--min-p", options.sampling.minP,
                 "Sample among tokens this many times as likely as the likeliest; 0: all")
      ->needs(prompt);
  app.add_option("--seed", options.sampling.seed, "Of sampling (default 0)")->needs(prompt);

  auto *logits = app.add_option("--logits", options.logits,
                                "Write the logits of all positions, f32 [batch, seq, vocabulary]")
                     ->needs(tokens);
  app.add_option("--lengths", options.lengths,
                 "Tokens of each row, e.g. 3,7,16; what follows is padding")
      ->delimiter(',')
      ->needs(tokens);
  app.add_option("--chunk", options.chunk, "Prefill in chunks of N tokens")
      ->check(kPositive)
      ->needs(tokens)
      ->type_name("N");
  auto *generate = app.add_option("--generate", options.generate,
                                  "Continue each row by N greedy tokens, whatever they are")
                       ->check(kPositive)
                       ->needs(tokens)
                       ->type_name("N");
  auto *outputTokens = app.add_option("--output-tokens", options.outputTokens,
                                      "Where --generate writes them: .npy of int64 [batch, N]");
  generate->needs(outputTokens);
  outputTokens->needs(generate);

  app.add_option("--bench-prompt", options.benchPrompt, "Tokens of the prefill (default 512)")
      ->check(kPositive)
      ->needs(benchFlag);
  app.add_option("--bench-context", options.benchContext, "Tokens before the decode (default 128)")
      ->check(kPositive)
      ->needs(benchFlag);
  app.add_option("--bench-decode", options.benchDecode, "Tokens of the decode (default 64)")
      ->check(kPositive)
      ->needs(benchFlag);
  app.add_option("--bench-repetitions", options.benchRepetitions, "Medians of so many (default 5)")
      ->check(kPositive)
      ->needs(benchFlag);

  app.add_option("--device", options.device,
                 "Where to run: cpu, cuda, hip, or sim, the simulated GPU (default: the bundle's "
                 "target)")
      ->check(CLI::IsMember({"cpu", "cuda", "hip", "sim"}));
  app.add_option("--lane-order", options.laneOrder,
                 "Of --device=sim: forward, reverse, permuted or permuted:SEED")
      ->type_name("ORDER");
  app.add_option("--ranks", options.ranks,
                 "How to run a bundle of several ranks: local, as threads of this process, or mpi, "
                 "as the processes that mpirun started (default, where it did)")
      ->check(CLI::IsMember({"local", "mpi"}));
  app.add_option("--timeout", options.timeout,
                 "How long a rank may keep the others waiting, while it loads too (default 120)")
      ->check(CLI::Range(0.01, 1e6))
      ->type_name("SECONDS");
  app.add_option("--stats", options.stats, "Write what the ranks sent to each other, as JSON")
      ->type_name("FILE");
  app.add_option("--threads", options.threads,
                 "Of each rank (default: one a core, of all ranks on a machine)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_flag("--json", options.json, "Results as JSON on stdout");
  app.add_flag("--verify-hashes", options.verifyHashes, "Check the weight files' hashes too");
  app.add_flag("--poison", options.poison,
               "Fill the memory that kernels may not read with NaN first (to find faults)");

  try {
    app.parse(argc, argv);
    if (!*prompt && !*tokens && !bench && options.outputDirectory.empty())
      throw CLI::RequiredError(
          "one of --prompt, --tokens and --bench, or --input and --output-dir");
    if (*tokens && !*logits && !*generate)
      throw CLI::RequiredError("one of --logits and --generate");
  } catch (const CLI::ParseError &error) {
    // Help and complaints are output too: rank 0's.
    std::ostringstream unheard;
    bool isHeard = launchedRank() == 0;
    return app.exit(error, isHeard ? std::cout : unheard, isHeard ? std::cerr : unheard) == 0 ? 0
                                                                                              : 2;
  }
  if (app.count("--max-tokens"))
    options.maxTokens = maxTokens;

  return runOnRanks(options, [&](Session &session) -> absl::Status {
    bool isGraph = session.bundle.manifest().kind == "graph";
    if (isGraph != !options.outputDirectory.empty())
      return absl::InvalidArgumentError(
          absl::StrCat(options.bundle, isGraph ? " holds a graph: give --input and --output-dir"
                                               : " holds a language model: give --prompt, --tokens "
                                                 "or --bench"));
    if (isGraph)
      return runGraph(options);
    if (*prompt)
      return runPrompt(session);
    return *tokens ? runTokens(session) : runBench(session);
  });
}
