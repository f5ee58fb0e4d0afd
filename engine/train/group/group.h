#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/buffer.h"

namespace nerf {

// Thrown by a group's functions when a rank is lost, does not answer in time or has left, and by
// every later call: the group is of no more use. what() names the rank where it is known.
class GroupError : public std::runtime_error {
 public:
  explicit GroupError(const std::string& what, int lost_rank = -1)
      : std::runtime_error(what), lost_rank_(lost_rank) {}
  int lost_rank() const { return lost_rank_; }  // -1: not known

 private:
  int lost_rank_;
};

using Bytes = std::span<const std::byte>;

template <typename T>
Bytes BytesOf(std::span<T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(values);
}

// Bytes to send or received ones. Keeps its memory for the next block.
class ByteBlock {
 public:
  ByteBlock() = default;
  // In memory of its own kind, which lives as long as the block.
  explicit ByteBlock(std::shared_ptr<BufferAllocator> memory) : memory_(std::move(memory)) {}

  // The first bytes of the block's own memory stay; the rest is not initialized.
  std::byte* Resize(size_t size) {
    if (size > storage_.size()) {
      Buffer<std::byte> grown(std::max(size, 2 * storage_.size()),
                              memory_ != nullptr ? memory_.get() : HostAllocator());
      if (!bytes_.empty() && bytes_.data() == storage_.data())
        std::memcpy(grown.data(), bytes_.data(), bytes_.size());
      storage_ = std::move(grown);
    }
    bytes_ = {storage_.data(), size};
    return storage_.data();
  }
  // Shows bytes that lie elsewhere, until the next Resize or Show.
  void Show(Bytes bytes) { bytes_ = bytes; }
  Bytes bytes() const { return bytes_; }

 private:
  std::shared_ptr<BufferAllocator> memory_;  // outlives storage_; null: the host's
  Buffer<std::byte> storage_;
  Bytes bytes_;
};

struct Outgoing {
  int to = 0;
  Bytes bytes;
};

// The block's bytes are valid until the group's next Transfer or AwaitUnused.
struct Incoming {
  int from = 0;
  ByteBlock* block = nullptr;
};

// What a rank has sent and received, and how long it waited for that.
struct GroupTraffic {
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  int64_t n_transfers = 0;
  double seconds = 0;  // in Transfer

  GroupTraffic Since(const GroupTraffic& before) const {
    return {bytes_sent - before.bytes_sent, bytes_received - before.bytes_received,
            n_transfers - before.n_transfers, seconds - before.seconds};
  }
  GroupTraffic& operator+=(const GroupTraffic& other) {
    bytes_sent += other.bytes_sent;
    bytes_received += other.bytes_received;
    n_transfers += other.n_transfers;
    seconds += other.seconds;
    return *this;
  }
};

// The processes (ranks) that train one model together, seen from one of them. Every rank makes the
// same transfers in the same order. Used from one thread at a time, but for Abort.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int n_ranks() const = 0;

  // Sends and receives at the same time, at most one block to and from each other rank; blocks may
  // be of any size and empty. Returns when all of it is done. Throws GroupError.
  void Transfer(std::span<const Outgoing> out, std::span<const Incoming> in);

  // An empty block for bytes that are sent often: where ranks share memory it lies there, and
  // Transfer does not copy it.
  virtual ByteBlock NewBlock() { return ByteBlock(); }
  // To be called before a block of NewBlock that was sent is written again: waits until no rank
  // reads it any more. Throws GroupError.
  virtual void AwaitUnused(const ByteBlock& block);

  // Ends the group on every rank: transfers in progress and later ones throw GroupError, here with
  // this reason. Thread-safe; only the first call counts.
  virtual void Abort(const std::string& reason) = 0;

  // The network interface of the ranks' traffic; empty: they are on this machine.
  virtual std::string interface() const { return ""; }

  const GroupTraffic& traffic() const { return traffic_; }
  // Counts what a library has sent for the ranks over connections of its own.
  void AddTraffic(const GroupTraffic& traffic) { traffic_ += traffic; }

 private:
  virtual void DoTransfer(std::span<const Outgoing> out, std::span<const Incoming> in) = 0;

  GroupTraffic traffic_;
};

// Block to[i] goes to rank i; (*from)[i] becomes what rank i sent here. The entries of the rank
// itself are neither read nor written. Shapes: to, from [n_ranks].
void AllToAll(Group* group, std::span<const Bytes> to, std::vector<ByteBlock>* from);

// Every rank's block to every other rank, as AllToAll.
void AllGather(Group* group, Bytes mine, std::vector<ByteBlock>* from);

// Every rank's block to rank `root`; the others receive nothing.
void Gather(Group* group, int root, Bytes mine, std::vector<ByteBlock>* from);

// The root's bytes to every rank. Throws GroupError where the sizes differ.
void Broadcast(Group* group, int root, std::span<std::byte> bytes);

template <typename T>
void BroadcastValue(Group* group, int root, T* value) {
  static_assert(std::is_trivially_copyable_v<T>);
  Broadcast(group, root, std::as_writable_bytes(std::span<T>(value, 1)));
}

// Sums each element over the ranks, in the order of the ranks; every rank gets the sums. For
// counts: a sum of floats would depend on the number of ranks (train/gradient_lanes.h).
void Reduce(Group* group, std::span<int64_t> counts);

}  // namespace nerf
