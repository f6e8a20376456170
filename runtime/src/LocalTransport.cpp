// Ranks as threads of one process.
#include "TransportErrors.h"
#include "adapt/Communicator.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

using namespace adapt;
using namespace adapt::rt;

namespace {

using Message = Transport::Message;
using Clock = std::chrono::steady_clock;

/// What all ranks share; the mutex guards all of it.
struct Board {
  struct Packet {
    int from;
    uint32_t tag;
    std::vector<char> bytes;
  };
  struct Rank {
    std::deque<Packet> inbox;
    bool waits = false; // within exchange(), for what is not there yet
    std::condition_variable arrival;
  };

  explicit Board(int ranks, std::chrono::milliseconds timeout) : timeout(timeout), ranks(ranks) {}

  /// The first failure is the one that all get.
  void fail(const absl::Status &why) {
    if (!failure.ok())
      return;
    failure = why;
    for (Rank &rank : ranks)
      rank.arrival.notify_all();
  }

  std::mutex mutex;
  std::chrono::milliseconds timeout;
  std::deque<Rank> ranks;
  absl::Status failure;
};

class LocalTransport : public Transport {
public:
  LocalTransport(std::shared_ptr<Board> board, int rank) : board(std::move(board)), me(rank) {}

  int rank() const override { return me; }
  int size() const override { return static_cast<int>(board->ranks.size()); }
  absl::Status exchange(absl::Span<const Message> sends,
                        absl::Span<const Message> receives) override;
  bool announce(const absl::Status &why) override {
    std::lock_guard<std::mutex> lock(board->mutex);
    // Who got the failure from exchange() announces it again.
    board->fail(absl::Status(why.code(), absl::StrCat("rank ", me, ": ", why.message())));
    return me == 0;
  }
  void end(int) override {} // each thread ends by its error

private:
  absl::Status takeArrived(std::vector<const Message *> &pending);
  absl::Status timedOut();

  std::shared_ptr<Board> board;
  int me;
};

absl::Status LocalTransport::exchange(absl::Span<const Message> sends,
                                      absl::Span<const Message> receives) {
  // Copied before the lock is taken.
  std::vector<Board::Packet> packets;
  for (const Message &message : sends)
    packets.push_back({me, message.tag, {message.data, message.data + message.bytes}});
  std::vector<const Message *> pending;
  for (const Message &message : receives)
    pending.push_back(&message);

  std::unique_lock<std::mutex> lock(board->mutex);
  if (!board->failure.ok())
    return board->failure;
  for (size_t i = 0; i < sends.size(); ++i) {
    Board::Rank &peer = board->ranks[sends[i].peer];
    peer.inbox.push_back(std::move(packets[i]));
    peer.arrival.notify_one();
  }
  Clock::time_point deadline = Clock::now() + board->timeout;
  Board::Rank &mine = board->ranks[me];
  while (true) {
    ADAPT_RETURN_IF_ERROR(takeArrived(pending));
    if (pending.empty())
      return absl::OkStatus();
    mine.waits = true;
    std::cv_status status = mine.arrival.wait_until(lock, deadline);
    mine.waits = false;
    if (!board->failure.ok())
      return board->failure;
    if (status == std::cv_status::timeout) {
      ADAPT_RETURN_IF_ERROR(takeArrived(pending));
      if (!pending.empty())
        return timedOut();
    }
  }
}

/// Takes what has arrived of the pending messages.
absl::Status LocalTransport::takeArrived(std::vector<const Message *> &pending) {
  std::deque<Board::Packet> &inbox = board->ranks[me].inbox;
  for (size_t i = 0; i < pending.size();) {
    const Message &wanted = *pending[i];
    auto found = std::find_if(inbox.begin(), inbox.end(), [&](const Board::Packet &packet) {
      return packet.from == wanted.peer && packet.tag == wanted.tag;
    });
    if (found == inbox.end()) {
      ++i;
      continue;
    }
    if (found->bytes.size() != wanted.bytes) {
      board->fail(
          absl::InternalError(absl::StrCat("rank ", wanted.peer, " sends ", found->bytes.size(),
                                           " bytes where rank ", me, " waits for ", wanted.bytes)));
      return board->failure;
    }
    std::copy(found->bytes.begin(), found->bytes.end(), wanted.data);
    inbox.erase(found);
    pending.erase(pending.begin() + i);
  }
  return absl::OkStatus();
}

/// Silent is who does not wait: a rank that waits for a silent one is not to blame.
absl::Status LocalTransport::timedOut() {
  std::vector<uint8_t> silent;
  for (int r = 0; r < size(); ++r)
    silent.push_back(r != me && !board->ranks[r].waits);
  board->fail(silenceError(silent, board->timeout));
  return board->failure;
}

} // namespace

std::vector<std::unique_ptr<Transport>>
rt::createLocalTransports(int ranks, std::chrono::milliseconds timeout) {
  auto board = std::make_shared<Board>(ranks, timeout);
  std::vector<std::unique_ptr<Transport>> result;
  for (int rank = 0; rank < ranks; ++rank)
    result.push_back(std::make_unique<LocalTransport>(board, rank));
  return result;
}
