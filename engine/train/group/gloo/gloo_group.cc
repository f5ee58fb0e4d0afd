#include "engine/train/group/gloo/gloo_group.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "engine/base/buffer.h"
#include "engine/base/pipe_signal_block.h"
#include "fmt/format.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace nerf {
namespace {

using UnboundBuffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

// A block travels in up to three messages: its size and its first bytes, a body, and a rest. Gloo
// sends nothing before the other end has said that it receives. So the receives of the next block's
// first two messages are posted when the block before has come, and the word is there in time. Both
// ends know how large the posted body is; what a block has beyond that is its rest, whose receive
// is posted when its size is known.
constexpr size_t kHeadBytes = 4096;
constexpr size_t kMaxBodyBytes = size_t{16} << 20;
constexpr uint64_t kHeadSlot = 0, kBodySlot = 1, kRestSlot = 2;

struct Head {
  uint64_t size = 0;  // of the block
  std::array<std::byte, kHeadBytes - sizeof(uint64_t)> first;
};
static_assert(sizeof(Head) == kHeadBytes);

// How a block of `size` bytes is divided, if a body of body_capacity bytes is posted.
struct Division {
  Division(size_t size, size_t body_capacity)
      : first(std::min(size, sizeof(Head::first))),
        body(std::min(size - first, body_capacity)),
        rest(size - first - body) {}

  const size_t first, body, rest;
};

// The body that is posted for the block after one of `size` bytes.
size_t NextBodyCapacity(size_t size, size_t body_capacity) {
  const Division part(size, body_capacity);
  if (part.rest == 0) return body_capacity;
  return std::min(kMaxBodyBytes, std::bit_ceil(part.body + part.rest));
}

// Gloo's key-value store. Gloo sets each of its keys on every rank, in the same order, before it
// reads those of others, so setting one is a gather over the rendezvous.
class RendezvousStore final : public gloo::rendezvous::Store {
 public:
  explicit RendezvousStore(Rendezvous* rendezvous) : rendezvous_(rendezvous) {}

  void set(const std::string& key, const std::vector<char>& value) override {
    auto texts = rendezvous_->Gather({value.data(), value.size()});
    if (!texts.ok()) throw GroupError(std::string(texts.status().message()));
    // Keys end in the rank: "rank_3", "3".
    const std::string own = std::to_string(rendezvous_->rank());
    const std::string prefix = key.substr(0, key.size() - own.size());
    for (int rank = 0; rank < rendezvous_->n_ranks(); ++rank) {
      const std::string& text = (*texts)[rank];
      values_[prefix + std::to_string(rank)] = std::vector<char>(text.begin(), text.end());
    }
  }

  std::vector<char> get(const std::string& key) override {
    const auto found = values_.find(key);
    if (found == values_.end()) throw GroupError(fmt::format("gloo asks for {}", key));
    return found->second;
  }

  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {}

 private:
  Rendezvous* const rendezvous_;
  std::map<std::string, std::vector<char>> values_;
};

// Sends one rank's blocks.
class Sender {
 public:
  Sender(gloo::rendezvous::Context* context, int to) : context_(context), to_(to) {}

  // `bytes` must stay until Await returns.
  void Send(Bytes bytes) {
    const Division part(bytes.size(), body_capacity_);
    head_.size = bytes.size();
    std::copy_n(bytes.begin(), part.first, head_.first.begin());
    Post(&head_, sizeof(head_.size) + part.first, kHeadSlot);
    // Gloo takes a pointer to what it only reads.
    auto* const from = const_cast<std::byte*>(bytes.data());
    if (part.body > 0) Post(from + part.first, part.body, kBodySlot);
    if (part.rest > 0) Post(from + part.first + part.body, part.rest, kRestSlot);
    body_capacity_ = NextBodyCapacity(bytes.size(), body_capacity_);
  }

  void Await() {
    for (const UnboundBuffer& buffer : sending_) buffer->waitSend();
    sending_.clear();
  }

  // After an error: Gloo no longer reads the bytes that were to be sent.
  void Drop() { sending_.clear(); }

 private:
  void Post(void* from, size_t size, uint64_t slot) {
    sending_.push_back(context_->createUnboundBuffer(from, size));
    sending_.back()->send(to_, slot);
  }

  gloo::rendezvous::Context* const context_;
  const int to_;
  size_t body_capacity_ = 0;
  Head head_;
  std::vector<UnboundBuffer> sending_;
};

// Receives one rank's blocks.
class Receiver {
 public:
  Receiver(gloo::rendezvous::Context* context, int from) : context_(context), from_(from) {}

  // Says that the next block is received, unless that was said.
  void Post() {
    if (head_buffer_ == nullptr) head_buffer_ = Receive(&head_, sizeof(head_), kHeadSlot);
    if (body_buffer_ == nullptr && body_capacity_ > 0) {
      std::byte* const body = memory_[current_].data() + sizeof(head_.first);
      body_buffer_ = Receive(body, body_capacity_, kBodySlot);
    }
  }

  // Waits for the block that was posted. *block then shows it or has a copy.
  void Await(ByteBlock* block) {
    head_buffer_->waitRecv();
    head_buffer_.reset();
    const size_t size = head_.size;
    const Division part(size, body_capacity_);
    if (part.body == 0 && part.rest == 0) {
      std::copy_n(head_.first.begin(), size, block->Resize(size));
      return;
    }
    if (part.body > 0) {
      body_buffer_->waitRecv();
      body_buffer_.reset();
    }
    const Buffer<std::byte>& memory = memory_[current_];
    if (part.rest == 0) {
      std::copy_n(head_.first.begin(), part.first, memory_[current_].data());
      block->Show({memory.data(), size});
      current_ = 1 - current_;  // the next block must not overwrite this one
      return;
    }
    std::byte* const bytes = block->Resize(size);
    std::copy_n(head_.first.begin(), part.first, bytes);
    if (part.body > 0) std::copy_n(memory.data() + part.first, part.body, bytes + part.first);
    Receive(bytes + part.first + part.body, part.rest, kRestSlot)->waitRecv();
    Grow(NextBodyCapacity(size, body_capacity_));
  }

 private:
  UnboundBuffer Receive(void* to, size_t size, uint64_t slot) {
    UnboundBuffer buffer = context_->createUnboundBuffer(to, size);
    buffer->recv(from_, slot);
    return buffer;
  }

  void Grow(size_t body_capacity) {
    if (body_capacity == body_capacity_) return;
    body_capacity_ = body_capacity;
    for (Buffer<std::byte>& memory : memory_)
      memory = Buffer<std::byte>(sizeof(head_.first) + body_capacity, HostAllocator());
  }

  gloo::rendezvous::Context* const context_;
  const int from_;
  size_t body_capacity_ = 0;
  int current_ = 0;              // the memory of the next block with a body
  Buffer<std::byte> memory_[2];  // [sizeof(Head::first) + body_capacity_]
  Head head_;
  UnboundBuffer head_buffer_, body_buffer_;  // null: not posted. Last, since they use the memory
};

class GlooGroup final : public Group {
 public:
  GlooGroup(Rendezvous* rendezvous, const GlooOptions& options)
      : context_(rendezvous->rank(), rendezvous->n_ranks()), interface_(options.interface) {
    const PipeSignalBlock block;
    for (int rank = 0; rank < context_.size; ++rank) {
      senders_.push_back(std::make_unique<Sender>(&context_, rank));
      receivers_.push_back(std::make_unique<Receiver>(&context_, rank));
    }
    context_.setTimeout(absl::ToChronoMilliseconds(options.time_limit));
    gloo::transport::tcp::attr attributes("127.0.0.1");
    if (!options.interface.empty()) {
      attributes.hostname.clear();
      attributes.iface = options.interface;
    }
    RendezvousStore store(rendezvous);
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context_.connectFullMesh(store, device);
  }

  ~GlooGroup() override { context_.closeConnections(); }

  int rank() const override { return context_.rank; }
  int n_ranks() const override { return context_.size; }
  std::string interface() const override { return interface_; }

  void Abort(const std::string& reason) override {
    {
      const MutexLock lock(mu_);
      if (reason_.empty()) reason_ = reason;
    }
    context_.closeConnections();
  }

 private:
  void DoTransfer(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    const PipeSignalBlock block;
    int peer = -1;
    try {
      TransferBlocks(out, in, &peer);
    } catch (const std::exception& e) {
      for (const std::unique_ptr<Sender>& sender : senders_) sender->Drop();
      const MutexLock lock(mu_);
      if (reason_.empty()) {
        reason_ = fmt::format("rank {} is lost: {}", peer, FirstLine(e.what()));
        lost_rank_ = peer;
      }
      throw GroupError(reason_, lost_rank_);
    }
  }

  // *peer: the rank that is waited for.
  void TransferBlocks(std::span<const Outgoing> out, std::span<const Incoming> in, int* peer) {
    for (const Incoming& block : in) {
      *peer = block.from;
      receivers_[block.from]->Post();
    }
    for (const Outgoing& block : out) {
      *peer = block.to;
      senders_[block.to]->Send(block.bytes);
    }
    for (const Incoming& block : in) {
      *peer = block.from;
      receivers_[block.from]->Await(block.block);
    }
    for (const Outgoing& block : out) {
      *peer = block.to;
      senders_[block.to]->Await();
    }
    for (const Incoming& block : in) {
      try {
        receivers_[block.from]->Post();
      } catch (const std::exception&) {
        // A rank may leave after its last block. A later transfer with it throws.
      }
    }
  }

  static std::string FirstLine(std::string text) {
    const size_t bracket = text.find("] ");  // behind the source line that Gloo begins with
    if (bracket != std::string::npos) text = text.substr(bracket + 2);
    return text.substr(0, text.find('\n'));
  }

  gloo::rendezvous::Context context_;
  const std::string interface_;
  std::vector<std::unique_ptr<Sender>> senders_;  // to each rank
  std::vector<std::unique_ptr<Receiver>> receivers_;
  Mutex mu_;
  std::string reason_ ABSL_GUARDED_BY(mu_);  // why the group has failed
  int lost_rank_ ABSL_GUARDED_BY(mu_) = -1;
};

}  // namespace

std::unique_ptr<Group> NewGlooGroup(Rendezvous* rendezvous, const GlooOptions& options) {
  try {
    return std::make_unique<GlooGroup>(rendezvous, options);
  } catch (const GroupError&) {
    throw;
  } catch (const std::exception& e) {
    throw GroupError(fmt::format("cannot connect the ranks: {}", e.what()));
  }
}

}  // namespace nerf
