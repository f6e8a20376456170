#include "Commands.h"
#include "adapt/OpenDevice.h"

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "text/TextStream.h"
#include "text/Tokenizer.h"

#include <chrono>
#include <cstdio>

using namespace adapt::rt;

absl::StatusOr<std::unique_ptr<Device>> adapt::rt::openDevice(const Session &session) {
  OpenDeviceOptions where;
  where.device = session.options.device;
  where.laneOrder = session.options.laneOrder;
  where.threads = session.options.threads;
  where.pin = session.pin;
  where.pinCaller = true;
  where.share = session.share;
  where.index = session.localRank;
  return openDevice(session.bundle.manifest(), where);
}

absl::StatusOr<std::unique_ptr<LanguageModel>> adapt::rt::openModel(const Session &session,
                                                                    int64_t cacheTokens) {
  ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice(session));
  LanguageModel::Options model;
  model.cacheTokens = cacheTokens;
  model.poison = session.options.poison;
  return LanguageModel::load(session.bundle, std::move(device), model, session.ranks);
}

std::string adapt::rt::describeUpload(LanguageModel &model) {
  if (!model.uploadedBytes())
    return "";
  return absl::StrFormat(", %.1f MB of weights copied to the device", model.uploadedBytes() / 1e6);
}

std::string adapt::rt::describeDevice(LanguageModel &model) {
  Device &device = model.device();
  std::string threads = device.threads() ? absl::StrCat(device.threads(), " threads") : "";
  if (device.name() == "cpu")
    return threads;
  return absl::StrCat(device.description(), threads.empty() ? "" : ", ", threads);
}

absl::Status adapt::rt::runPrompt(const Session &session) {
  const Bundle &bundle = session.bundle;
  const RunOptions &options = session.options;
  auto begin = std::chrono::steady_clock::now();
  const Manifest &manifest = bundle.manifest();
  if (manifest.tokenizer.empty())
    return absl::FailedPreconditionError(
        absl::StrCat(options.bundle, " has no tokenizer, since the checkpoint had none: give token "
                                     "ids with --tokens"));
  ADAPT_ASSIGN_OR_RETURN(std::string path, bundle.resolve(manifest.tokenizer));
  ADAPT_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::fromFile(path));
  absl::StatusOr<Encoded> encoded = tokenizer.encode(options.prompt);
  if (!encoded.ok())
    return absl::Status(encoded.status().code(),
                        absl::StrCat("--prompt: ", encoded.status().message()));
  if (encoded->droppedBytes)
    std::fprintf(stderr,
                 "adapt-run: warning: the vocabulary cannot write %zu bytes of the prompt\n",
                 encoded->droppedBytes);

  GenerationRequest request;
  request.prompt = std::move(encoded->ids);
  request.sampling = options.sampling;
  request.maxTokens = options.maxTokens;
  request.endIds = manifest.eosTokenIds;
  int64_t promptTokens = static_cast<int64_t>(request.prompt.size());
  int64_t tokens = manifest.maxSeqLen;
  if (options.maxTokens)
    tokens = std::min(tokens, promptTokens + std::min(*options.maxTokens, tokens));
  ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                         openModel(session, std::max<int64_t>(tokens, 1)));
  double loadSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  TextStream stream(tokenizer);
  std::string text;
  auto emit = [&](const std::string &piece) {
    text += piece;
    if (options.json)
      return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  ADAPT_ASSIGN_OR_RETURN(GenerationResult result,
                         generate(*model, request, [&](int32_t id) -> absl::Status {
                           ADAPT_ASSIGN_OR_RETURN(std::string piece, stream.push(id));
                           emit(piece);
                           return absl::OkStatus();
                         }));
  emit(stream.flush());
  ADAPT_RETURN_IF_ERROR(writeStats(session, *model));

  double decoded = static_cast<double>(result.tokens.size()) - 1;
  double prefillRate = result.tokens.empty() ? 0 : promptTokens / result.prefillSeconds;
  double decodeRate = decoded > 0 ? decoded / result.decodeSeconds : 0;
  if (options.json) {
    nlohmann::json json = {{"text", text},
                           {"tokens", result.tokens},
                           {"prompt_tokens", request.prompt},
                           {"finish_reason", toString(result.reason)},
                           {"load_seconds", loadSeconds},
                           {"prefill_seconds", result.prefillSeconds},
                           {"decode_seconds", result.decodeSeconds}};
    std::printf("%s\n", json.dump().c_str());
    return absl::OkStatus();
  }
  std::printf("\n");
  std::fflush(stdout);
  std::fprintf(stderr,
               "loaded in %.2f s%s; prompt of %lld tokens at %.1f tokens/s; %zu tokens at %.1f "
               "tokens/s; %s%s; finished: %s\n",
               loadSeconds, describeUpload(*model).c_str(), static_cast<long long>(promptTokens),
               prefillRate, result.tokens.size(), decodeRate,
               session.ranks ? absl::StrCat(session.ranks->size(), " ranks of ").c_str() : "",
               describeDevice(*model).c_str(), toString(result.reason));
  return absl::OkStatus();
}
