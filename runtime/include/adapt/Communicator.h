// What ranks say to each other. A Communicator is made of a Transport, which carries messages: the
// threads of one process (createLocalTransports), or whatever a plugin knows (openTransport).
#pragma once
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "adapt/Status.h"
#include "types.pb.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adapt::rt {

/// Carries messages between the ranks 0 … size() - 1. One thread at a time uses a rank's transport.
/// After an error nothing more can be said: the ranks end.
class Transport {
public:
  /// A piece of memory on its way to or from a rank. Messages of one peer and tag arrive in the
  /// order in which they were sent.
  struct Message {
    int peer = 0;
    uint32_t tag = 0;
    char *data = nullptr; ///< of a message that is sent: only read
    uint64_t bytes = 0;   ///< the same at both ends
  };

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Ranks on this machine, and which of them this is.
  virtual int localSize() const { return size(); }
  virtual int localRank() const { return rank(); }
  /// Whether the launcher has already bound this process to its CPUs.
  virtual bool isBound() const { return false; }

  /// Sends and receives all of these at once, and returns when the memory is the caller's again.
  /// Errors, the same on every rank that waits: DeadlineExceeded, naming the ranks that were
  /// silent; what another rank announced; sizes that differ.
  virtual absl::Status exchange(absl::Span<const Message> sends,
                                absl::Span<const Message> receives) = 0;

  /// Tells the others that this rank has failed. Returns true if it is this rank that shall report
  /// it to the user: of all ranks that fail, one does.
  virtual bool announce(const absl::Status &why) = 0;

  /// Ends all ranks after a failure was reported, as far as they have not ended themselves.
  virtual void end(int exitCode) = 0;
};

/// One transport for each of `ranks` threads of this process.
std::vector<std::unique_ptr<Transport>> createLocalTransports(int ranks,
                                                              std::chrono::milliseconds timeout);

/// Loads a plugin by its name ("mpi": libadapt-mpi.so, beside the program, in ../lib, or where
/// $ADAPT_PLUGIN_DIR says) and joins the ranks that were started with this one. Errors: no such
/// plugin, and what it says.
absl::StatusOr<std::unique_ptr<Transport>> openTransport(absl::string_view plugin,
                                                         std::chrono::milliseconds timeout);

/// Ranks in order: rank = pp_rank * tp + tp_rank.
struct Mesh {
  int pp = 1, tp = 1;

  int size() const { return pp * tp; }
  int ppRank(int rank) const { return rank / tp; }
  int tpRank(int rank) const { return rank % tp; }
  int rank(int ppRank, int tpRank) const { return ppRank * tp + tpRank; }
};

/// The ranks that differ from this one in one coordinate alone, by that coordinate.
struct Group {
  std::vector<int> ranks;
  int me = 0; ///< this rank's place
};

class Communicator {
public:
  /// The mesh has as many ranks as the transport.
  Communicator(Transport &transport, Mesh mesh) : transport(transport), shape(mesh) {}

  /// Whether an exchange has failed, or this rank broke off: nothing more can be said.
  bool isBroken() const { return broken; }
  /// This rank has failed where the others expect it to go on.
  void breakOff() { broken = true; }

  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
  const Mesh &mesh() const { return shape; }
  int ppRank() const { return shape.ppRank(rank()); }
  int tpRank() const { return shape.tpRank(rank()); }

  /// Axes: "tp" and "pp". InvalidArgument for others.
  absl::StatusOr<Group> group(absl::string_view axis) const;

  // Collectives: every rank of the group calls them, in the same order and with the same sizes.
  // Elements are F32, BF16, F16 or I32. Sums are in f32 (i32: wrapping), in the order of the group,
  // and rounded once: the same bits on all ranks. They give the bytes that this rank sent.

  /// to[i] = the sum over the ranks of from[i]; `count` elements. `from` may be `to`.
  absl::StatusOr<uint64_t> allReduce(const Group &group, schema::ElementType element,
                                     const char *from, char *to, uint64_t count);
  /// from [outer, inner] to [outer, ranks, inner], bytes of any type.
  absl::StatusOr<uint64_t> allGather(const Group &group, const char *from, char *to, uint64_t outer,
                                     uint64_t innerBytes);
  /// The sum of from [outer, ranks, inner], of which this rank gets its part, [outer, inner].
  absl::StatusOr<uint64_t> reduceScatter(const Group &group, schema::ElementType element,
                                         const char *from, char *to, uint64_t outer,
                                         uint64_t inner);

  absl::Status send(int to, uint32_t tag, absl::Span<const char> bytes);
  absl::Status receive(int from, uint32_t tag, absl::Span<char> bytes);

  /// From rank 0 to all: `bytes` is what rank 0 gives, and what the others get, of any length.
  absl::Status broadcast(std::string &bytes);
  /// From all to rank 0: one string of each rank; empty on the others.
  absl::StatusOr<std::vector<std::string>> gather(absl::string_view bytes);

  /// Every rank says how it fared, and all learn it: OK if all are. Else rank 0 gets the first
  /// rank's error, and the others one that isReported() by rank 0.
  absl::Status agree(const absl::Status &mine);

  /// That all ranks have the same values under the same names; errors, as agree() gives them, name
  /// the ranks and both values.
  absl::Status checkEqual(absl::Span<const std::pair<std::string, std::string>> namedValues);

private:
  using Part = std::vector<char>;
  absl::Status exchange(absl::Span<const Transport::Message> sends,
                        absl::Span<const Transport::Message> receives);
  absl::Status reduceParts(const Group &group, schema::ElementType element, const char *own,
                           absl::Span<const Part> parts, char *to, uint64_t count);

  Transport &transport;
  Mesh shape;
  std::vector<Part> scratch;
  bool broken = false;
};

/// Whether another rank reports this error to the user.
bool isReported(const absl::Status &status);

} // namespace adapt::rt
