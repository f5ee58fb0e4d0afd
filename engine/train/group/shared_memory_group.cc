#include "engine/train/group/shared_memory_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "common/mutex.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/train/group/shared_memory.h"
#include "fmt/format.h"

namespace nerf {
namespace {

using std::chrono::steady_clock;

constexpr size_t kMemory = size_t{8} << 30;  // of a rank: addresses, of which few are used
constexpr size_t kPage = 4096;
constexpr uint64_t kUnread = 4;              // blocks to a rank that it has not given back
constexpr int kBounces = 2;                  // copies of blocks to a rank
constexpr int kLooksPerYield = 64;           // while a waiting rank stays awake
constexpr int64_t kSleepNanos = 20'000'000;  // then it looks whether the others live

constexpr char kNoMemory[] = "none", kOpened[] = "opened";  // said at the rendezvous

// Where a block lies in the memory of its sender.
struct Message {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// What a rank says in its own memory to one other rank. Counts of messages since the beginning.
struct alignas(64) Box {
  std::atomic<uint64_t> n_sent = 0;
  std::array<Message, kUnread> messages;  // number n (from 0) at n % kUnread
  // Number of the other's messages that this rank does not read any more.
  alignas(64) std::atomic<uint64_t> n_released = 0;
};

enum class State : uint32_t { kRunning, kLeft, kFailed };

// Begins a rank's memory; the boxes for each rank follow, then blocks. Written by that rank alone.
struct alignas(64) Header {
  std::atomic<uint32_t> n_events = 0;  // changes of anything below: what others sleep on
  std::atomic<State> state = State::kRunning;
  std::atomic<int32_t> lost_rank = -1;  // with kFailed: whom it has lost
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

size_t HeaderBytes(int n_ranks) {
  const size_t size = sizeof(Header) + sizeof(Box) * static_cast<size_t>(n_ranks);
  return (size + kPage - 1) / kPage * kPage;
}

// Blocks in a rank's own memory. Addresses are not used twice, so that memory is always zeroed.
class Arena final : public BufferAllocator {
 public:
  Arena(SharedMemory memory, size_t begin) : memory_(std::move(memory)), end_(begin) {}

  void* Allocate(size_t byte_size) override {
    const size_t rounded = (byte_size + kPage - 1) / kPage * kPage;
    if (rounded > memory_.size() - end_) throw std::bad_alloc();
    std::byte* const bytes = memory_.data() + end_;
    end_ += rounded;
    return bytes;
  }
  // Nothing is freed, since others may still read it. What a block leaves behind as it grows is
  // less than what it holds in the end.
  void Free(void*, size_t) override {}
  DeviceKind device() const override { return DeviceKind::kCpu; }
  SharedMemory& memory() { return memory_; }

 private:
  SharedMemory memory_;
  size_t end_;
};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long Futex(const std::atomic<uint32_t>& word, int operation, uint32_t value,
           const timespec* limit) {
  return syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
}

class SharedMemoryGroup final : public Group {
 public:
  // memories: of all ranks; this rank's own one is that of `arena` and not among them (nullopt).
  SharedMemoryGroup(int rank, std::shared_ptr<Arena> arena,
                    std::vector<std::optional<SharedMemory>> memories,
                    const SharedMemoryOptions& options)
      : rank_(rank),
        n_ranks_(static_cast<int>(memories.size())),
        time_limit_(absl::ToChronoNanoseconds(options.time_limit)),
        spin_(std::thread::hardware_concurrency() < memories.size()
                  ? std::chrono::nanoseconds(0)
                  : absl::ToChronoNanoseconds(options.spin)),
        arena_(std::move(arena)),
        memories_(std::move(memories)),
        peers_(n_ranks_) {}

  ~SharedMemoryGroup() override {
    State running = State::kRunning;
    Own().state.compare_exchange_strong(running, State::kLeft);
    Post();
  }

  int rank() const override { return rank_; }
  int n_ranks() const override { return n_ranks_; }

  void Abort(const std::string& reason) override { EndGroup(reason, -1); }

  ByteBlock NewBlock() override { return ByteBlock(arena_); }

  void AwaitUnused(const ByteBlock& block) override {
    Release();
    AwaitUnread(block.bytes());
  }

 private:
  // What this rank remembers of another one.
  struct Peer {
    uint64_t n_sent = 0, n_received = 0;
    std::array<ByteBlock, kBounces> bounces;  // copies of blocks that lie elsewhere
    int next_bounce = 0;
  };
  // The last message to a rank with the bytes that begin there.
  struct Use {
    const std::byte* begin;
    int to;
    uint64_t n_sent;
  };

  Header& Own() { return *reinterpret_cast<Header*>(arena_->memory().data()); }
  Box& OwnBox(int peer) { return reinterpret_cast<Box*>(&Own() + 1)[peer]; }
  const Header& Of(int peer) const {
    return *reinterpret_cast<const Header*>(memories_[peer]->data());
  }
  // What that rank says to this one.
  const Box& BoxOf(int peer) const { return reinterpret_cast<const Box*>(&Of(peer) + 1)[rank_]; }

  void DoTransfer(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    ThrowIfEnded();
    Release();
    Bytes copied, copy;  // the last block that was copied, which may go to several ranks
    for (const Outgoing& block : out) {
      Bytes bytes = block.bytes;
      if (!bytes.empty() && !IsOwn(bytes.data())) {
        if (bytes.data() != copied.data() || bytes.size() != copied.size()) {
          copy = Copy(block.to, bytes);
          copied = bytes;
        }
        bytes = copy;
      }
      Send(block.to, bytes);
    }
    for (const Incoming& block : in) block.block->Show(Receive(block.from));
  }

  bool IsOwn(const std::byte* bytes) {
    const SharedMemory& memory = arena_->memory();
    return bytes >= memory.data() && bytes < memory.data() + memory.size();
  }

  // The copy of a block that goes to rank `to`.
  Bytes Copy(int to, Bytes bytes) {
    Peer& peer = peers_[to];
    ByteBlock& bounce = peer.bounces[peer.next_bounce];
    peer.next_bounce = (peer.next_bounce + 1) % kBounces;
    if (!IsOwn(bounce.bytes().data())) bounce = NewBlock();
    AwaitUnread(bounce.bytes());
    std::memcpy(bounce.Resize(bytes.size()), bytes.data(), bytes.size());
    return bounce.bytes();
  }

  void Send(int to, Bytes bytes) {
    Peer& peer = peers_[to];
    Await(to, [&] {
      return peer.n_sent - BoxOf(to).n_released.load(std::memory_order_acquire) < kUnread;
    });
    Message message;
    if (!bytes.empty()) {
      message = {static_cast<uint64_t>(bytes.data() - arena_->memory().data()), bytes.size()};
    }
    Box& box = OwnBox(to);
    box.messages[peer.n_sent % kUnread] = message;
    box.n_sent.store(++peer.n_sent, std::memory_order_release);
    Post();
    if (bytes.empty()) return;
    const auto use = std::find_if(uses_.begin(), uses_.end(), [&](const Use& u) {
      return u.begin == bytes.data() && u.to == to;
    });
    if (use == uses_.end()) {
      uses_.push_back({bytes.data(), to, peer.n_sent});
    } else {
      use->n_sent = peer.n_sent;
    }
  }

  Bytes Receive(int from) {
    Peer& peer = peers_[from];
    const Box& box = BoxOf(from);
    Await(from, [&] { return box.n_sent.load(std::memory_order_acquire) > peer.n_received; });
    const Message message = box.messages[peer.n_received % kUnread];
    ++peer.n_received;
    const SharedMemory& memory = *memories_[from];
    if (message.size > memory.size() || message.offset > memory.size() - message.size)
      Fail(from, "it sent a block that it does not have");
    return {memory.data() + message.offset, message.size};
  }

  // What was received may be overwritten.
  void Release() {
    bool changed = false;
    for (int from = 0; from < n_ranks_; ++from) {
      if (from == rank_) continue;
      std::atomic<uint64_t>& n_released = OwnBox(from).n_released;
      if (n_released.load(std::memory_order_relaxed) == peers_[from].n_received) continue;
      n_released.store(peers_[from].n_received, std::memory_order_release);
      changed = true;
    }
    if (changed) Post();
  }

  // Returns once every rank that was sent some of these bytes has released them.
  void AwaitUnread(Bytes bytes) {
    const auto is_of_block = [&](const Use& use) {
      return use.begin >= bytes.data() && use.begin < bytes.data() + bytes.size();
    };
    for (const Use& use : uses_) {
      if (!is_of_block(use)) continue;
      Await(use.to,
            [&] { return BoxOf(use.to).n_released.load(std::memory_order_acquire) >= use.n_sent; });
    }
    std::erase_if(uses_, is_of_block);
  }

  // Tells the ranks that sleep on this one that something has changed.
  void Post() {
    Own().n_events.fetch_add(1, std::memory_order_release);
    Futex(Own().n_events, FUTEX_WAKE, INT_MAX, nullptr);
  }

  // Waits until `peer` has done what makes `done` true.
  template <typename Done>
  void Await(int peer, Done done) {
    if (done()) return;
    const auto begin = steady_clock::now();
    for (auto now = begin; now - begin < spin_; now = steady_clock::now()) {
      for (int i = 0; i < kLooksPerYield; ++i) {
        if (done()) return;
        Pause();
      }
      sched_yield();  // in case the other rank needs this core
    }
    const timespec limit{0, kSleepNanos};
    while (true) {
      const uint32_t n_events = Of(peer).n_events.load(std::memory_order_acquire);
      if (done()) return;
      ThrowIfEnded();
      // What it sent before it left is there.
      if (Of(peer).state.load(std::memory_order_acquire) == State::kLeft && !done())
        Fail(peer, "it has ended");
      Futex(Of(peer).n_events, FUTEX_WAIT, n_events, &limit);
      if (done()) return;
      FailIfDead(done);
      if (steady_clock::now() - begin > time_limit_) Fail(peer, "it does not answer");
    }
  }

  void FailIfDead(const std::function<bool()>& done) {
    for (int peer = 0; peer < n_ranks_; ++peer) {
      if (peer == rank_ || memories_[peer]->OwnerRuns()) continue;
      if (Of(peer).state.load(std::memory_order_acquire) == State::kLeft || done()) continue;
      Fail(peer, "its process is gone");
    }
  }

  void ThrowIfEnded() {
    {
      const MutexLock lock(mu_);
      if (!reason_.empty()) throw GroupError(reason_, lost_rank_);
    }
    for (int peer = 0; peer < n_ranks_; ++peer) {
      if (peer == rank_ || Of(peer).state.load(std::memory_order_acquire) != State::kFailed)
        continue;
      const int lost = Of(peer).lost_rank.load(std::memory_order_acquire);
      if (lost == rank_) Fail(peer, "it has given up waiting for this rank");
      if (lost >= 0) Fail(lost, fmt::format("rank {} says so", peer));
      Fail(peer, "it has given up");
    }
  }

  [[noreturn]] void Fail(int lost_rank, const std::string& why) {
    EndGroup(fmt::format("rank {} is lost: {}", lost_rank, why), lost_rank);
    const MutexLock lock(mu_);
    throw GroupError(reason_, lost_rank_);
  }

  // Only the first call counts.
  void EndGroup(const std::string& reason, int lost_rank) {
    {
      const MutexLock lock(mu_);
      if (!reason_.empty()) return;
      reason_ = reason;
      lost_rank_ = lost_rank;
    }
    Own().lost_rank.store(lost_rank, std::memory_order_release);
    Own().state.store(State::kFailed, std::memory_order_release);
    Post();
  }

  const int rank_, n_ranks_;
  const std::chrono::nanoseconds time_limit_, spin_;
  const std::shared_ptr<Arena> arena_;
  const std::vector<std::optional<SharedMemory>> memories_;
  std::vector<Peer> peers_;
  std::vector<Use> uses_;
  Mutex mu_;
  std::string reason_ ABSL_GUARDED_BY(mu_);  // why the group has ended
  int lost_rank_ ABSL_GUARDED_BY(mu_) = -1;
};

// The memories of the other ranks by rank; FailedPrecondition where one cannot be read here.
absl::StatusOr<std::vector<std::optional<SharedMemory>>> OpenOthers(
    int rank, const std::vector<std::string>& addresses) {
  std::vector<std::optional<SharedMemory>> memories(addresses.size());
  for (size_t other = 0; other < addresses.size(); ++other) {
    if (static_cast<int>(other) == rank) continue;
    NERF_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Open(addresses[other]));
    if (memory.size() <= HeaderBytes(static_cast<int>(addresses.size())))
      return absl::FailedPreconditionError("shared memory is too small");
    memories[other].emplace(std::move(memory));
  }
  return memories;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Group>> OpenSharedMemoryGroup(Rendezvous* rendezvous,
                                                             const SharedMemoryOptions& options) {
  const int n_ranks = rendezvous->n_ranks();
  std::shared_ptr<Arena> arena;
  std::string address = kNoMemory;
  if (absl::StatusOr<SharedMemory> own = SharedMemory::Create(kMemory); own.ok()) {
    auto* const header = new (own->data()) Header;
    for (int other = 0; other < n_ranks; ++other)
      new (reinterpret_cast<Box*>(header + 1) + other) Box;
    address = own->Address();
    arena = std::make_shared<Arena>(*std::move(own), HeaderBytes(n_ranks));
  }
  NERF_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, rendezvous->Gather(address));
  auto memories = OpenOthers(rendezvous->rank(), addresses);
  const bool here = arena != nullptr && memories.ok();
  // Nobody goes on before all have opened the memories of all.
  NERF_ASSIGN_OR_RETURN(const std::vector<std::string> answers,
                        rendezvous->Gather(here ? kOpened : kNoMemory));
  if (std::any_of(answers.begin(), answers.end(), [](const auto& a) { return a != kOpened; }))
    return nullptr;
  arena->memory().Close();
  return std::make_unique<SharedMemoryGroup>(rendezvous->rank(), std::move(arena),
                                             *std::move(memories), options);
}

}  // namespace nerf
