#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files/file_io.h"
#include "engine/base/protocol/message_splitter.h"
#include "fmt/format.h"
#include "nerf/internal/engine.pb.h"
#include "tests/engine/program/commands/engine_process.h"
#include "tests/engine/program/commands/worker_messages.h"

namespace nerf {

// Engines as workers have them, one a rank. This process takes the place of workers and server.
class EngineGang {
 public:
  // What one of them did with a training.
  struct Outcome {
    std::optional<internal::EngineMessage> end;  // done, failed or stopped; nullopt: none in time
    std::string checkpoint, model;               // the last files
    uint32_t n_texts = 0;                        // that it told the others

    // The error's message; empty where it has not failed.
    std::string Error() const {
      return end.has_value() && end->has_failed() ? end->failed().error().message() : "";
    }
    bool IsDone() const { return end.has_value() && end->has_done(); }
  };
  // What reaches the ranks of the text that one of them has told.
  using Alter = std::function<std::string(uint32_t rank, std::string text)>;

  EngineGang(const std::string& program, const std::vector<std::string>& devices) {
    for (const std::string& device : devices) engines_.push_back(Start(program, device));
  }
  ~EngineGang() {
    for (const auto& engine : engines_) shutdown(engine->socket.get(), SHUT_RDWR);
  }

  // Has every engine train as its rank, into `train.out`/RANK, until all have ended. The others
  // of one that fails are stopped after a while, as the server would do.
  std::vector<Outcome> Train(internal::WorkerRequest request, const Alter& alter = {}) {
    internal::Train& train = *request.mutable_train();
    const std::string out = train.out();
    const auto n_ranks = static_cast<uint32_t>(engines_.size());
    outcomes_.assign(n_ranks, {});
    texts_.clear();
    for (uint32_t rank = 0; rank < n_ranks; ++rank) {
      train.set_out(fmt::format("{}/{}", out, rank));
      train.mutable_ranks()->set_rank(rank);
      train.mutable_ranks()->set_count(std::max(n_told_ranks_, n_ranks));
      Send(rank, request);
    }
    const absl::Time deadline = absl::Now() + kTimeLimit;
    std::optional<absl::Time> failed_at;
    bool stopped = false;
    while (!HaveEnded() && absl::Now() < deadline) {
      Receive(alter);
      if (HasFailed() && !failed_at.has_value()) failed_at = absl::Now();
      if (!stopped && failed_at.has_value() && absl::Now() - *failed_at > kAfterFailure) {
        stopped = true;
        for (uint32_t rank = 0; rank < n_ranks; ++rank) {
          if (!outcomes_[rank].end.has_value()) Send(rank, StopMessage(request.job()));
        }
      }
    }
    return outcomes_;
  }
  // The engines are told that there are this many ranks.
  void PretendRanks(uint32_t n_ranks) { n_told_ranks_ = n_ranks; }

 private:
  static constexpr absl::Duration kTimeLimit = absl::Seconds(240), kAfterFailure = absl::Seconds(5);

  struct Engine {
    UniqueFd socket;
    std::unique_ptr<EngineProcess> process;
    MessageSplitter messages;
    bool has_ended = false;
  };

  static std::unique_ptr<Engine> Start(const std::string& program, const std::string& device) {
    auto engine = std::make_unique<Engine>();
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    engine->socket = UniqueFd(ends[0]);
    const UniqueFd theirs(ends[1]);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    engine->process = std::make_unique<EngineProcess>(
        fmt::format("serve --device {} --threads 1 --fd {}", device, ends[1]), program);
    return engine;
  }

  void Send(uint32_t rank, const internal::WorkerRequest& request) {
    const std::string bytes = Delimited(request.SerializeAsString());
    for (std::string_view left = bytes; !left.empty();) {
      const ssize_t n = send(engines_[rank]->socket.get(), left.data(), left.size(), MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      left.remove_prefix(static_cast<size_t>(n));
    }
  }

  bool HaveEnded() const {
    for (size_t rank = 0; rank < engines_.size(); ++rank) {
      if (!outcomes_[rank].end.has_value() && !engines_[rank]->has_ended) return false;
    }
    return true;
  }
  bool HasFailed() const {
    for (size_t rank = 0; rank < engines_.size(); ++rank) {
      if (!outcomes_[rank].Error().empty() || engines_[rank]->has_ended) return true;
    }
    return false;
  }

  void Receive(const Alter& alter) {
    std::vector<pollfd> polled;
    for (const auto& engine : engines_) {
      polled.push_back({engine->has_ended ? -1 : engine->socket.get(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), /*timeout=*/100);
    for (uint32_t rank = 0; rank < engines_.size(); ++rank) {
      if (polled[rank].revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = recv(engines_[rank]->socket.get(), buffer.data(), buffer.size(), 0);
      if (n <= 0) {
        engines_[rank]->has_ended = true;
        continue;
      }
      engines_[rank]->messages.Add(
          {buffer.data(), static_cast<size_t>(n)},
          [&](const std::string& bytes) { Handle(rank, bytes, alter); },
          [] { ADD_FAILURE() << "a message that is too long"; });
    }
  }

  void Handle(uint32_t rank, const std::string& bytes, const Alter& alter) {
    internal::EngineMessage message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    Outcome& outcome = outcomes_.at(rank);
    if (message.has_rank_text()) {
      const v1::RankText& text = message.rank_text();
      ++outcome.n_texts;
      auto& told = texts_[text.sequence()];
      told[rank] = alter ? alter(rank, text.text()) : text.text();
      if (told.size() < engines_.size()) return;
      internal::WorkerRequest all;
      all.set_job(message.job());
      all.mutable_rank_texts()->set_sequence(text.sequence());
      for (const auto& [of, each] : told) all.mutable_rank_texts()->add_texts(each);
      for (uint32_t to = 0; to < engines_.size(); ++to) Send(to, all);
    } else if (message.has_checkpoint()) {
      outcome.checkpoint = message.checkpoint().checkpoint();
      outcome.model = message.checkpoint().model();
    } else if (message.has_done() || message.has_failed() || message.has_stopped()) {
      outcome.end = std::move(message);
    }
  }

  std::vector<std::unique_ptr<Engine>> engines_;  // by rank
  std::vector<Outcome> outcomes_;
  std::map<uint32_t, std::map<uint32_t, std::string>> texts_;  // by number and rank
  uint32_t n_told_ranks_ = 0;
};

}  // namespace nerf
