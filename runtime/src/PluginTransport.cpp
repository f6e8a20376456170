// Ranks as processes, connected by a plugin (adapt/TransportPlugin.h).
#include "TransportErrors.h"
#include "adapt/Communicator.h"
#include "adapt/TransportPlugin.h"

#include <climits>
#include <cstdlib>

#include <dlfcn.h>
#include <unistd.h>

using namespace adapt;
using namespace adapt::rt;

namespace {

class PluginTransport : public Transport {
public:
  PluginTransport(const AdaptTransport &plugin, std::chrono::milliseconds timeout)
      : plugin(plugin), timeout(timeout) {}
  ~PluginTransport() override {
    if (!failed)
      plugin.close(plugin.self);
  }

  int rank() const override { return plugin.rank; }
  int size() const override { return plugin.size; }
  int localRank() const override { return plugin.local_rank; }
  int localSize() const override { return plugin.local_size; }
  bool isBound() const override { return plugin.is_bound; }

  absl::Status exchange(absl::Span<const Message> sends,
                        absl::Span<const Message> receives) override;
  bool announce(const absl::Status &why) override {
    failed = true;
    // Where the plugin gave us the failure, it is ours to report.
    if (!given)
      plugin.announce(plugin.self, why.raw_code(), std::string(why.message()).c_str());
    return true;
  }
  void end(int exitCode) override { plugin.end(plugin.self, exitCode); }

private:
  AdaptTransport plugin;
  std::chrono::milliseconds timeout;
  bool failed = false;
  bool given = false; // the failure, by the plugin
};

std::vector<AdaptMessage> toC(absl::Span<const Transport::Message> messages) {
  std::vector<AdaptMessage> result;
  for (const Transport::Message &message : messages)
    result.push_back({message.peer, message.tag, message.data, message.bytes});
  return result;
}

absl::Status PluginTransport::exchange(absl::Span<const Message> sends,
                                       absl::Span<const Message> receives) {
  if (sends.empty() && receives.empty())
    return absl::OkStatus();
  std::vector<uint8_t> silent(plugin.size, 0);
  AdaptTransportError error = {};
  error.silent = silent.data();
  std::vector<AdaptMessage> outgoing = toC(sends), incoming = toC(receives);
  int code = plugin.exchange(plugin.self, outgoing.data(), outgoing.size(), incoming.data(),
                             incoming.size(), timeout.count(), &error);
  if (code == ADAPT_TRANSPORT_OK)
    return absl::OkStatus();
  failed = true;
  error.text[sizeof(error.text) - 1] = '\0';
  switch (code) {
  case ADAPT_TRANSPORT_TIMEOUT:
    given = true;
    return silenceError(silent, timeout);
  case ADAPT_TRANSPORT_ANNOUNCED:
    given = true;
    return absl::Status(static_cast<absl::StatusCode>(error.status),
                        absl::StrCat("rank ", error.peer, ": ", error.text));
  case ADAPT_TRANSPORT_MISMATCH:
    return absl::InternalError(absl::StrCat("rank ", error.peer, " ", error.text));
  default:
    return absl::InternalError(absl::StrCat("the ranks' connection failed: ", error.text));
  }
}

std::string programFolder() {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  std::string result(path, length > 0 ? length : 0);
  return result.substr(0, result.rfind('/'));
}

/// The first of these files that there is; empty without.
std::string findPlugin(const std::string &file, std::vector<std::string> &places) {
  if (const char *folder = std::getenv("ADAPT_PLUGIN_DIR"))
    places = {folder};
  else
    places = {programFolder(), programFolder() + "/../lib"};
  for (const std::string &place : places)
    if (std::string path = place + "/" + file; access(path.c_str(), R_OK) == 0)
      return path;
  return "";
}

} // namespace

absl::StatusOr<std::unique_ptr<Transport>> rt::openTransport(absl::string_view plugin,
                                                             std::chrono::milliseconds timeout) {
  std::string file = absl::StrCat("libadapt-", plugin, ".so");
  std::vector<std::string> places;
  std::string path = findPlugin(file, places);
  if (path.empty())
    return absl::NotFoundError(
        absl::StrCat("no ", file, " in ", absl::StrJoin(places, " or "),
                     ": build adapt with Open MPI's headers installed (libopenmpi-dev), or run "
                     "the ranks as threads, with --ranks=local"));
  // Components that the library loads itself look for its symbols among the global ones.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return absl::FailedPreconditionError(absl::StrCat("plugin ", dlerror()));
  auto open =
      reinterpret_cast<decltype(&adapt_open_transport)>(dlsym(library, "adapt_open_transport"));
  if (!open)
    return absl::FailedPreconditionError(
        absl::StrCat("plugin ", path, " has no function adapt_open_transport"));
  AdaptTransport transport = {};
  char text[ADAPT_TRANSPORT_TEXT] = {};
  if (open(&transport, text) != 0)
    return absl::FailedPreconditionError(absl::StrCat("plugin ", path, ": ", text));
  if (transport.abi != ADAPT_TRANSPORT_ABI || transport.size < 1 || transport.rank < 0 ||
      transport.rank >= transport.size)
    return absl::FailedPreconditionError(absl::StrCat(
        "plugin ", path, " speaks version ", transport.abi, " of rank ", transport.rank, " of ",
        transport.size, ", this runtime version ", ADAPT_TRANSPORT_ABI));
  // Never unloaded: the library cannot be started twice in a process.
  return std::unique_ptr<Transport>(std::make_unique<PluginTransport>(transport, timeout));
}
