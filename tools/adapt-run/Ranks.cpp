// One rank, or several: threads of this process, or processes that a launcher started.
#include "adapt/Ranks.h"
#include "Commands.h"

#include "nlohmann/json.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <unistd.h>

using namespace adapt::rt;

namespace {

using Body = std::function<absl::Status(Session &)>;

absl::StatusOr<Bundle> openBundle(const RunOptions &options) {
  Bundle::Options bundleOptions;
  bundleOptions.verifyHashes = options.verifyHashes;
  return Bundle::open(options.bundle, bundleOptions);
}

std::chrono::milliseconds timeoutOf(const RunOptions &options) {
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(options.timeout * 1000)));
}

/// What Open MPI's mpirun, or a launcher with PMI, says in the environment.
int launcherSays(const char *openMpi, const char *pmi, int otherwise) {
  for (const char *name : {openMpi, pmi})
    if (const char *value = std::getenv(name))
      return std::atoi(value);
  return otherwise;
}

int launchedRanks() { return launcherSays("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1); }

/// Which CPUs are a process' own. A launcher that binds processes has given each some; several may
/// still share them.
CpuShare shareOf(const Transport &transport) {
  CpuShare share{transport.localSize(), transport.localRank()};
  if (!transport.isBound())
    return share;
  size_t all = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  size_t ranks = (static_cast<size_t>(share.ranks) * availableCpus().size() + all - 1) / all;
  return {static_cast<int>(std::max<size_t>(1, ranks)), 0};
}

/// Rank 0, or another: what it does with the bundle. OK on a rank that has nothing to report.
absl::Status runRank(Session &session, const Body &body) {
  Communicator &ranks = *session.ranks;
  absl::Status status = handshake(ranks, session.bundle);
  if (!status.ok())
    return status;
  if (ranks.rank() != 0)
    return follow(session.bundle, ranks, [&] { return openDevice(session); });
  status = body(session);
  dismiss(ranks);
  return status;
}

int runLocally(const RunOptions &options, const Body &body) {
  absl::StatusOr<Bundle> bundle = openBundle(options);
  if (!bundle.ok())
    return report(bundle.status());
  Mesh mesh = meshOf(bundle->manifest());
  auto transports = createLocalTransports(mesh.size(), timeoutOf(options));
  std::vector<absl::Status> statuses(mesh.size());
  auto runOne = [&](int rank) {
    Communicator ranks(*transports[rank], mesh);
    Session session{*bundle, options, &ranks, {mesh.size(), rank}, true, rank};
    statuses[rank] = runRank(session, body);
    if (ranks.isBroken())
      transports[rank]->announce(statuses[rank]);
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < mesh.size(); ++rank)
    threads.emplace_back(runOne, rank);
  runOne(0);
  for (std::thread &thread : threads)
    thread.join();
  // Rank 0 knows why it ended. Another may have failed after rank 0 was done.
  for (const absl::Status &status : statuses)
    if (!status.ok() && !isReported(status))
      return report(status);
  return 0;
}

int runAsProcess(const RunOptions &options, const Body &body) {
  absl::StatusOr<std::unique_ptr<Transport>> opened = openTransport("mpi", timeoutOf(options));
  if (!opened.ok())
    return report(opened.status());
  Transport &transport = **opened;
  // Until all have the bundle, the mesh is not known.
  Communicator all(transport, {1, transport.size()});
  absl::StatusOr<Bundle> bundle = openBundle(options);
  absl::Status status = bundle.status();
  if (status.ok() && meshOf(bundle->manifest()).size() != transport.size()) {
    Mesh mesh = meshOf(bundle->manifest());
    status = absl::FailedPreconditionError(absl::StrCat(
        "the bundle is made for ", mesh.size(), " ranks (tp=", mesh.tp, ", pp=", mesh.pp, "), but ",
        transport.size(), " were started: mpirun -n ", mesh.size(), " adapt-run"));
  }
  status = all.agree(status);
  bool isBroken = all.isBroken();
  if (status.ok()) {
    Communicator ranks(transport, meshOf(bundle->manifest()));
    Session session{
        *bundle, options, &ranks, shareOf(transport), !transport.isBound(), transport.localRank()};
    status = runRank(session, body);
    isBroken = ranks.isBroken();
  }
  if (status.ok())
    return 0;
  if (isReported(status))
    return 1;
  if (!isBroken)
    return report(status);
  int code = transport.announce(status) ? report(status) : 1;
  transport.end(code);
  return code;
}

} // namespace

absl::Status adapt::rt::writeStats(const Session &session, LanguageModel &model) {
  const std::string &path = session.options.stats;
  if (path.empty())
    return absl::OkStatus();
  ADAPT_ASSIGN_OR_RETURN(std::vector<Traffic> traffic, model.traffic());
  nlohmann::json steps = nlohmann::json::array();
  uint64_t total = 0;
  for (const Traffic &step : traffic) {
    total += step.bytes;
    steps.push_back({{"stage", step.stage},
                     {"step", step.where},
                     {"kind", toString(step.kind)},
                     {"times", step.times},
                     {"bytes", step.bytes}});
  }
  const Mesh mesh = session.ranks ? session.ranks->mesh() : Mesh();
  nlohmann::json json = {
      {"mesh", {{"pp", mesh.pp}, {"tp", mesh.tp}}}, {"bytes", total}, {"communication", steps}};
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << json.dump(2) << '\n';
  file.close();
  if (!file)
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

int adapt::rt::launchedRank() { return launcherSays("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0); }

int adapt::rt::runOnRanks(const RunOptions &options, const Body &body) {
  if (options.ranks == "local")
    return runLocally(options, body);
  if (options.ranks == "mpi" || launchedRanks() > 1)
    return runAsProcess(options, body);
  absl::StatusOr<Bundle> bundle = openBundle(options);
  if (!bundle.ok())
    return report(bundle.status());
  Session session{*bundle, options, nullptr, {}};
  return report(body(session));
}
