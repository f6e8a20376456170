// A model from a bundle: program, weights and kernels brought together.
#include "adapt/Bundle.h"
#include "adapt/GraphModel.h"
#include "adapt/LanguageModel.h"

#include "WeightUpload.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "weights/WeightLoader.h"

#include <limits>

using namespace adapt;
using namespace adapt::rt;

namespace {
constexpr uint64_t kMaxMessage = std::numeric_limits<int32_t>::max(); // Protobuf's own limit

absl::Status prefix(absl::string_view path, const absl::Status &status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

/// The kernels of a rank that run on the device, relative to the bundle.
absl::StatusOr<std::string> chooseKernels(const Manifest &manifest, const Manifest::Rank &rank,
                                          const Device &device) {
  absl::string_view name = device.name();
  bool isSim = absl::ConsumePrefix(&name, "sim-");
  if (manifest.targetName != name)
    return absl::FailedPreconditionError(absl::StrCat(
        "the bundle was compiled for target '", manifest.targetName, "', the device is '",
        device.name(), "': compile with --target=", name, isSim ? " --sim" : ""));
  if (isSim) {
    if (rank.sim.empty())
      return absl::FailedPreconditionError(absl::StrCat(
          "the bundle has no kernels for the simulated GPU: compile it with --target=", name, ":",
          manifest.targetArch, " --sim"));
    return rank.sim;
  }
  if (manifest.targetArch.empty())
    return rank.kernels;
  absl::Status fits = device.checkArch(manifest.targetArch, absl::EndsWith(rank.kernels, ".ptx"));
  if (fits.ok())
    return rank.kernels;
  if (!rank.ptx.empty() && device.checkArch(manifest.targetArch, /*portable=*/true).ok())
    return rank.ptx;
  return fits;
}

struct Parts {
  Program program;
  ModelSource source;
};

/// What one rank needs.
absl::StatusOr<Parts> loadParts(const Bundle &bundle, const std::unique_ptr<Device> &device,
                                int number) {
  const Manifest &manifest = bundle.manifest();
  const Manifest::Rank &rank = manifest.ranks[number];
  ADAPT_ASSIGN_OR_RETURN(std::string kernels, chooseKernels(manifest, rank, *device));

  ADAPT_ASSIGN_OR_RETURN(std::string programPath, bundle.resolve(rank.program));
  ADAPT_ASSIGN_OR_RETURN(std::string bytes, readFile(programPath, kMaxMessage));
  absl::StatusOr<Program> program = Program::parse(bytes);
  if (!program.ok())
    return prefix(programPath, program.status());

  ADAPT_ASSIGN_OR_RETURN(std::string tablePath, bundle.resolve(rank.weights));
  ADAPT_ASSIGN_OR_RETURN(schema::WeightTable table, weights::readWeightTable(tablePath));
  weights::LoadOptions loadOptions;
  loadOptions.threads = static_cast<unsigned>(std::max(1, device->threads()));
  loadOptions.bundleDirectory = bundle.root();
  loadOptions.symbols = {{"tp_rank", rank.tpRank}, {"pp_rank", rank.ppRank}};
  loadOptions.copyToArena = device->hostAccessible(); // else they are read once, to be copied there
  absl::StatusOr<std::unique_ptr<weights::LoadedWeights>> loaded = weights::LoadedWeights::load(
      table, absl::StrCat(bundle.root(), "/", rank.directory), loadOptions);
  if (!loaded.ok())
    return prefix(tablePath, loaded.status());
  std::shared_ptr<weights::LoadedWeights> held = *std::move(loaded);

  ModelSource source;
  ADAPT_ASSIGN_OR_RETURN(source.kernels, bundle.resolve(kernels));
  source.weights = held;
  source.param = [held](absl::string_view name) -> absl::StatusOr<Region> {
    std::optional<absl::Span<const std::byte>> found = held->find({name.data(), name.size()});
    if (!found)
      return absl::NotFoundError(absl::StrCat("the weight table has no parameter '", name, "'"));
    // Programs take addresses of all buffers alike; kernels only read their weights.
    return Region{reinterpret_cast<char *>(const_cast<std::byte *>(found->data())), found->size()};
  };
  if (!device->hostAccessible()) {
    ADAPT_ASSIGN_OR_RETURN(const schema::EntryPoint *entry, program->findEntry("main"));
    ADAPT_ASSIGN_OR_RETURN(std::vector<std::string> names, program->params(*entry));
    ADAPT_ASSIGN_OR_RETURN(UploadedWeights uploaded, uploadWeights(*device, names, source.param));
    auto there = std::make_shared<UploadedWeights>(std::move(uploaded));
    source.uploadedBytes = there->memory.bytes;
    source.weights = there;
    source.param = [there](absl::string_view name) -> absl::StatusOr<Region> {
      auto found = there->params.find(name);
      if (found == there->params.end())
        return absl::InternalError(absl::StrCat("parameter '", name, "' was not uploaded"));
      return found->second;
    };
  }
  source.maxSeqLen = manifest.maxSeqLen;
  source.vocabSize = manifest.vocabSize;
  return Parts{*std::move(program), std::move(source)};
}

absl::Status checkOneRank(const Bundle &bundle) {
  const Manifest &manifest = bundle.manifest();
  size_t ranks = manifest.ranks.size();
  return ranks == 1 ? absl::OkStatus()
                    : absl::FailedPreconditionError(absl::StrCat(
                          "the bundle is made for ", ranks, " ranks (tp=", manifest.tp,
                          ", pp=", manifest.pp, "): run them as threads with --ranks=local, or as ",
                          "processes with mpirun -n ", ranks, " adapt-run"));
}
} // namespace

absl::StatusOr<std::unique_ptr<ModelStage>> ModelStage::load(const Bundle &bundle,
                                                             std::unique_ptr<Device> device,
                                                             const Options &options,
                                                             Communicator *ranks) {
  if (!ranks)
    ADAPT_RETURN_IF_ERROR(checkOneRank(bundle));
  ADAPT_ASSIGN_OR_RETURN(Parts parts, loadParts(bundle, device, ranks ? ranks->rank() : 0));
  absl::StatusOr<std::unique_ptr<ModelStage>> stage =
      create(std::move(device), parts.program, std::move(parts.source), options, ranks);
  if (!stage.ok())
    return prefix(bundle.root(), stage.status());
  return stage;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LanguageModel::load(const Bundle &bundle,
                                                                   std::unique_ptr<Device> device,
                                                                   const Options &options,
                                                                   Communicator *ranks) {
  absl::StatusOr<std::unique_ptr<ModelStage>> stage =
      ranks ? loadOnAll(*ranks, bundle, std::move(device), options)
            : ModelStage::load(bundle, std::move(device), options, nullptr);
  if (!stage.ok())
    return stage.status();
  return std::unique_ptr<LanguageModel>(new LanguageModel(*std::move(stage), ranks));
}

absl::StatusOr<std::unique_ptr<GraphModel>>
GraphModel::load(const Bundle &bundle, std::unique_ptr<Device> device, const Options &options) {
  ADAPT_RETURN_IF_ERROR(checkOneRank(bundle));
  ADAPT_ASSIGN_OR_RETURN(Parts parts, loadParts(bundle, device, 0));
  absl::StatusOr<std::unique_ptr<GraphModel>> model =
      create(std::move(device), parts.program, std::move(parts.source), options);
  if (!model.ok())
    return prefix(bundle.root(), model.status());
  return model;
}
