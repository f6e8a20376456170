// Ranks as processes that mpirun started. Built as libadapt-mpi.so, which the runtime opens when it
// is asked to: nothing else is linked with MPI.
//
// Data and control go over two communicators of their own. Control messages are short, and every
// rank that waits looks for them:
//   ping   a rank has waited for too long: whoever is alive answers, and gives up too;
//   pong   the answer;
//   fail   a rank other than 0 has failed: rank 0 reports it.
#include "adapt/TransportPlugin.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <sched.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long others may take to answer a ping, and rank 0 to end all after a failure.
constexpr milliseconds kGrace(2000);
constexpr int kControlTag = 1;

enum class Kind : uint32_t { kPing, kPong, kFail };

struct Control {
  Kind kind;
  int32_t status;
  char text[ADAPT_TRANSPORT_TEXT];
};

std::string describe(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, length);
}

class MpiTransport {
public:
  int open(AdaptTransport &out, std::string &text);
  int exchange(const AdaptMessage *sends, uint64_t numSends, const AdaptMessage *receives,
               uint64_t numReceives, milliseconds timeout, AdaptTransportError &error);
  void announce(int32_t status, const char *text);
  void close();

private:
  int fault(int code, AdaptTransportError &error);
  int post(const AdaptMessage *sends, uint64_t numSends, const AdaptMessage *receives,
           uint64_t numReceives, std::vector<MPI_Request> &requests);
  int findSilent(AdaptTransportError &error);
  void sendControl(int peer, const Control &message);
  /// Answers what others ask; true if rank 0 has received a failure.
  bool serveControl(AdaptTransportError *error);
  void waitToBeEnded();

  int rank = 0, size = 1;
  MPI_Comm data = MPI_COMM_NULL, control = MPI_COMM_NULL;
  bool alarmed = false;
  std::vector<bool> alive;
  std::deque<std::pair<MPI_Request, Control>> outgoing; // memory that MPI still reads
};

/// Gives the CPU to others the longer nothing happens: ranks may be more than cores.
class Patience {
public:
  void wait() {
    ++turns;
    if (turns < 200)
      return;
    if (turns < 2000)
      sched_yield();
    else
      usleep(50);
  }
  void reset() { turns = 0; }

private:
  int turns = 0;
};

int MpiTransport::open(AdaptTransport &out, std::string &text) {
  int done = 0;
  MPI_Finalized(&done);
  if (done) {
    text = "MPI was ended before";
    return 1;
  }
  int isInitialized = 0, level = 0;
  MPI_Initialized(&isInitialized);
  if (!isInitialized && MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level)) {
    text = "MPI_Init_thread failed";
    return 1;
  }
  MPI_Comm local = MPI_COMM_NULL;
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &data);
  if (code == MPI_SUCCESS)
    code = MPI_Comm_dup(MPI_COMM_WORLD, &control);
  if (code == MPI_SUCCESS)
    code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
  if (code != MPI_SUCCESS) {
    text = describe(code);
    return 1;
  }
  for (MPI_Comm each : {data, control})
    MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
  MPI_Comm_rank(data, &rank);
  MPI_Comm_size(data, &size);
  MPI_Comm_rank(local, &out.local_rank);
  MPI_Comm_size(local, &out.local_size);
  MPI_Comm_free(&local);
  const char *bound = std::getenv("OMPI_MCA_orte_bound_at_launch");
  out.is_bound = bound && std::strcmp(bound, "1") == 0;
  out.rank = rank;
  out.size = size;
  return 0;
}

int MpiTransport::fault(int code, AdaptTransportError &error) {
  std::snprintf(error.text, sizeof(error.text), "%s", describe(code).c_str());
  return ADAPT_TRANSPORT_FAULT;
}

int MpiTransport::post(const AdaptMessage *sends, uint64_t numSends, const AdaptMessage *receives,
                       uint64_t numReceives, std::vector<MPI_Request> &requests) {
  requests.assign(numReceives + numSends, MPI_REQUEST_NULL);
  for (uint64_t i = 0; i < numReceives + numSends; ++i) {
    const AdaptMessage &message = i < numReceives ? receives[i] : sends[i - numReceives];
    int bytes = static_cast<int>(message.bytes), tag = static_cast<int>(message.tag);
    int code =
        i < numReceives
            ? MPI_Irecv(message.data, bytes, MPI_BYTE, message.peer, tag, data, &requests[i])
            : MPI_Isend(message.data, bytes, MPI_BYTE, message.peer, tag, data, &requests[i]);
    if (code != MPI_SUCCESS)
      return code;
  }
  return MPI_SUCCESS;
}

int MpiTransport::exchange(const AdaptMessage *sends, uint64_t numSends,
                           const AdaptMessage *receives, uint64_t numReceives, milliseconds timeout,
                           AdaptTransportError &error) {
  for (uint64_t i = 0; i < numReceives + numSends; ++i) {
    const AdaptMessage &message = i < numReceives ? receives[i] : sends[i - numReceives];
    if (message.bytes > INT_MAX) {
      std::snprintf(error.text, sizeof(error.text),
                    "a message of %llu bytes; MPI carries at most %d at once",
                    static_cast<unsigned long long>(message.bytes), INT_MAX);
      return ADAPT_TRANSPORT_FAULT;
    }
  }
  std::vector<MPI_Request> requests;
  if (int code = post(sends, numSends, receives, numReceives, requests))
    return fault(code, error);
  int count = static_cast<int>(requests.size());
  std::vector<int> completed(count);
  std::vector<MPI_Status> statuses(count);
  Clock::time_point deadline = Clock::now() + timeout;
  Patience patience;
  for (int left = count; left > 0;) {
    int number = 0;
    int code = MPI_Testsome(count, requests.data(), &number, completed.data(), statuses.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
      return fault(code, error);
    for (int i = 0; i < number; ++i) {
      uint64_t index = static_cast<uint64_t>(completed[i]);
      bool isReceive = index < numReceives;
      // A longer message than was waited for is an error of MPI's, a shorter one of ours.
      int failed = code == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : MPI_SUCCESS, got = 0;
      if (failed != MPI_SUCCESS) {
        int kind = 0;
        MPI_Error_class(failed, &kind);
        if (!isReceive || kind != MPI_ERR_TRUNCATE)
          return fault(failed, error);
      }
      if (isReceive)
        MPI_Get_count(&statuses[i], MPI_BYTE, &got);
      if (isReceive &&
          (failed != MPI_SUCCESS || static_cast<uint64_t>(got) != receives[index].bytes)) {
        error.peer = receives[index].peer;
        std::snprintf(
            error.text, sizeof(error.text), "sends %s%llu bytes where rank %d waits for %llu",
            failed != MPI_SUCCESS ? "more than " : "",
            static_cast<unsigned long long>(failed != MPI_SUCCESS ? receives[index].bytes
                                                                  : static_cast<uint64_t>(got)),
            rank, static_cast<unsigned long long>(receives[index].bytes));
        return ADAPT_TRANSPORT_MISMATCH;
      }
    }
    left -= std::max(number, 0);
    if (number > 0) {
      patience.reset();
      continue;
    }
    if (serveControl(&error))
      return ADAPT_TRANSPORT_ANNOUNCED;
    if (alarmed || Clock::now() >= deadline)
      return findSilent(error);
    patience.wait();
  }
  return ADAPT_TRANSPORT_OK;
}

void MpiTransport::sendControl(int peer, const Control &message) {
  outgoing.emplace_back(MPI_REQUEST_NULL, message);
  auto &[request, held] = outgoing.back();
  MPI_Isend(&held, sizeof(held), MPI_BYTE, peer, kControlTag, control, &request);
}

bool MpiTransport::serveControl(AdaptTransportError *error) {
  while (true) {
    int arrived = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kControlTag, control, &arrived, &status) != MPI_SUCCESS ||
        !arrived)
      return false;
    Control message = {};
    MPI_Recv(&message, sizeof(message), MPI_BYTE, status.MPI_SOURCE, kControlTag, control, &status);
    switch (message.kind) {
    case Kind::kPing:
      sendControl(status.MPI_SOURCE, {Kind::kPong, 0, {}});
      alarmed = true;
      break;
    case Kind::kPong:
      if (!alive.empty())
        alive[status.MPI_SOURCE] = true;
      break;
    case Kind::kFail:
      if (!error)
        break;
      error->peer = status.MPI_SOURCE;
      error->status = message.status;
      std::memcpy(error->text, message.text, sizeof(error->text));
      error->text[sizeof(error->text) - 1] = '\0';
      return true;
    }
  }
}

/// Who does not answer now is silent; who waits for such a rank is not to blame. The first rank
/// that is alive reports.
int MpiTransport::findSilent(AdaptTransportError &error) {
  alive.assign(size, false);
  alive[rank] = true;
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank)
      sendControl(peer, {Kind::kPing, 0, {}});
  Clock::time_point deadline = Clock::now() + kGrace;
  Patience patience;
  while (Clock::now() < deadline && std::count(alive.begin(), alive.end(), false)) {
    if (serveControl(&error))
      return ADAPT_TRANSPORT_ANNOUNCED;
    patience.wait();
  }
  bool isFirst = std::find(alive.begin(), alive.end(), true) - alive.begin() == rank;
  for (int peer = 0; peer < size; ++peer)
    error.silent[peer] = !alive[peer];
  if (!isFirst)
    waitToBeEnded();
  error.reports = 1;
  return ADAPT_TRANSPORT_TIMEOUT;
}

/// Returns where nobody ends this rank.
void MpiTransport::waitToBeEnded() {
  Clock::time_point deadline = Clock::now() + 2 * kGrace;
  Patience patience;
  while (Clock::now() < deadline) {
    serveControl(nullptr);
    patience.wait();
  }
}

void MpiTransport::announce(int32_t status, const char *text) {
  if (rank == 0)
    return;
  Control message = {Kind::kFail, status, {}};
  std::snprintf(message.text, sizeof(message.text), "%s", text);
  sendControl(0, message);
  waitToBeEnded();
}

void MpiTransport::close() {
  for (auto &[request, held] : outgoing)
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&control);
  MPI_Comm_free(&data);
  MPI_Finalize();
}

MpiTransport *get(void *self) { return static_cast<MpiTransport *>(self); }

} // namespace

extern "C" __attribute__((visibility("default"))) int
adapt_open_transport(AdaptTransport *transport, char text[ADAPT_TRANSPORT_TEXT]) {
  auto *self = new MpiTransport();
  std::string error;
  if (self->open(*transport, error)) {
    std::snprintf(text, ADAPT_TRANSPORT_TEXT, "%s", error.c_str());
    delete self;
    return 1;
  }
  transport->abi = ADAPT_TRANSPORT_ABI;
  transport->self = self;
  transport->exchange = [](void *self, const AdaptMessage *sends, uint64_t numSends,
                           const AdaptMessage *receives, uint64_t numReceives, int64_t timeout,
                           AdaptTransportError *error) {
    return get(self)->exchange(sends, numSends, receives, numReceives, milliseconds(timeout),
                               *error);
  };
  transport->announce = [](void *self, int32_t status, const char *text) {
    get(self)->announce(status, text);
  };
  transport->end = [](void *, int32_t exitCode) { MPI_Abort(MPI_COMM_WORLD, exitCode); };
  transport->close = [](void *self) {
    get(self)->close();
    delete get(self);
  };
  return 0;
}
