#include "engine/group/gloo/gloo_group.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <map>

#include "common/mutex.h"
#include "fmt/format.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace nerf {
namespace {

using UnboundBuffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

// Each block is a first message of its size and its first bytes and, where it is larger, a second
// one with the rest, since the receiver must know the size of a message beforehand.
constexpr size_t kHeadBytes = 4096;
constexpr uint64_t kHeadSlot = 0, kRestSlot = 1;

struct Head {
  uint64_t size = 0;  // of the block
  std::array<std::byte, kHeadBytes - sizeof(uint64_t)> first;

  size_t n_first() const { return std::min<size_t>(size, first.size()); }
};
static_assert(sizeof(Head) == kHeadBytes);

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

// Keeps SIGPIPE from this thread, and from threads started meanwhile: Gloo writes to sockets whose
// other end may be gone, which must be an error and not the end of the process.
class PipeSignalBlock {
 public:
  PipeSignalBlock() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }

  ~PipeSignalBlock() {
    if (sigismember(&before_, SIGPIPE)) return;
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  PipeSignalBlock(const PipeSignalBlock&) = delete;
  PipeSignalBlock& operator=(const PipeSignalBlock&) = delete;

 private:
  sigset_t pipe_, before_;
};

class GlooGroup final : public Group {
 public:
  GlooGroup(Rendezvous* rendezvous, const GlooOptions& options)
      : context_(rendezvous->rank(), rendezvous->n_ranks()),
        heads_out_(rendezvous->n_ranks()),
        heads_in_(rendezvous->n_ranks()) {
    const PipeSignalBlock block;
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
    std::vector<UnboundBuffer> receiving, sending;
    for (const Incoming& block : in) {
      *peer = block.from;
      receiving.push_back(context_.createUnboundBuffer(&heads_in_[block.from], sizeof(Head)));
      receiving.back()->recv(block.from, kHeadSlot);
    }
    for (const Outgoing& block : out) {
      *peer = block.to;
      Head& head = heads_out_[block.to];
      head.size = block.bytes.size();
      std::copy_n(block.bytes.begin(), head.n_first(), head.first.begin());
      sending.push_back(context_.createUnboundBuffer(&head, sizeof(Head)));
      sending.back()->send(block.to, kHeadSlot, 0, sizeof(head.size) + head.n_first());
      if (head.size <= head.first.size()) continue;
      const size_t n_rest = head.size - head.first.size();
      // Gloo takes a pointer to what it only reads.
      auto* rest = const_cast<std::byte*>(block.bytes.data()) + head.first.size();
      sending.push_back(context_.createUnboundBuffer(rest, n_rest));
      sending.back()->send(block.to, kRestSlot);
    }
    std::vector<std::pair<int, UnboundBuffer>> rests;
    for (size_t i = 0; i < in.size(); ++i) {
      const int from = *peer = in[i].from;
      receiving[i]->waitRecv();
      const Head& head = heads_in_[from];
      std::byte* const bytes = in[i].block->Resize(head.size);
      std::copy_n(head.first.begin(), head.n_first(), bytes);
      if (head.size <= head.first.size()) continue;
      rests.emplace_back(from, context_.createUnboundBuffer(bytes + head.first.size(),
                                                            head.size - head.first.size()));
      rests.back().second->recv(from, kRestSlot);
    }
    for (const auto& [from, rest] : rests) {
      *peer = from;
      rest->waitRecv();
    }
    for (const UnboundBuffer& buffer : sending) buffer->waitSend(peer);
  }

  static std::string FirstLine(std::string text) {
    const size_t bracket = text.find("] ");  // behind the source line that Gloo begins with
    if (bracket != std::string::npos) text = text.substr(bracket + 2);
    return text.substr(0, text.find('\n'));
  }

  gloo::rendezvous::Context context_;
  std::vector<Head> heads_out_, heads_in_;  // of each rank
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
