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
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/file_io.h"
#include "engine/protocol/engine_message.h"
#include "engine/protocol/line_splitter.h"
#include "engine/protocol/worker_request.h"
#include "engine/serve/line_socket.h"
#include "fmt/format.h"
#include "tests/engine/commands/engine_process.h"

namespace nerf {

// Engines as workers have them, one a rank. This process takes the place of workers and server.
class EngineGang {
 public:
  // What one of them did with a training.
  struct Outcome {
    std::optional<protocol::EngineMessage> end;  // done, failed or stopped; nullopt: none in time
    std::string checkpoint, model;               // the last files
    uint32_t n_texts = 0;                        // that it told the others

    // The error's message; empty where it has not failed.
    std::string Error() const {
      const auto* const failed = end.has_value() ? std::get_if<protocol::Failed>(&*end) : nullptr;
      return failed == nullptr ? "" : failed->error.message;
    }
    bool IsDone() const { return end.has_value() && std::holds_alternative<protocol::Done>(*end); }
  };
  // What reaches the ranks of the text that one of them has told.
  using Alter = std::function<std::string(uint32_t rank, std::string text)>;

  EngineGang(const std::string& program, const std::vector<std::string>& devices) {
    for (const std::string& device : devices) engines_.push_back(Start(program, device));
  }
  ~EngineGang() {
    for (const auto& engine : engines_) shutdown(engine->socket.get(), SHUT_RDWR);
  }

  // Has every engine train as its rank, into `message.out`/RANK, until all have ended. The others
  // of one that fails are stopped after a while, as the server would do.
  std::vector<Outcome> Train(protocol::Train message, const Alter& alter = {}) {
    const std::string out = message.out;
    const auto n_ranks = static_cast<uint32_t>(engines_.size());
    outcomes_.assign(n_ranks, {});
    texts_.clear();
    for (uint32_t rank = 0; rank < n_ranks; ++rank) {
      message.out = fmt::format("{}/{}", out, rank);
      message.ranks = protocol::RankPlace{rank, std::max(n_told_ranks_, n_ranks), ""};
      Send(rank, message);
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
          if (!outcomes_[rank].end.has_value()) Send(rank, protocol::Stop{message.job});
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
    LineSplitter lines;
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

  void Send(uint32_t rank, const protocol::WorkerRequest& request) {
    EXPECT_TRUE(LineSocket(engines_[rank]->socket.get()).Write(protocol::ToLine(request)));
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
      engines_[rank]->lines.Add(
          {buffer.data(), static_cast<size_t>(n)},
          [&](const std::string& line) { Handle(rank, line, alter); },
          [] { ADD_FAILURE() << "a line that is too long"; });
    }
  }

  void Handle(uint32_t rank, const std::string& line, const Alter& alter) {
    absl::StatusOr<protocol::EngineMessage> message = protocol::ParseEngineMessage(line);
    ASSERT_TRUE(message.ok()) << line;
    Outcome& outcome = outcomes_.at(rank);
    if (const auto* const text = std::get_if<protocol::RankText>(&*message)) {
      ++outcome.n_texts;
      auto& told = texts_[text->sequence];
      told[rank] = alter ? alter(rank, text->text) : text->text;
      if (told.size() < engines_.size()) return;
      protocol::RankTexts all{text->job, text->sequence, {}};
      for (const auto& [of, each] : told) all.texts.push_back(each);
      for (uint32_t to = 0; to < engines_.size(); ++to) Send(to, all);
    } else if (const auto* const files = std::get_if<protocol::Checkpoint>(&*message)) {
      outcome.checkpoint = files->checkpoint;
      outcome.model = files->model;
    } else if (std::holds_alternative<protocol::Done>(*message) ||
               std::holds_alternative<protocol::Failed>(*message) ||
               std::holds_alternative<protocol::Stopped>(*message)) {
      outcome.end = *std::move(message);
    }
  }

  std::vector<std::unique_ptr<Engine>> engines_;  // by rank
  std::vector<Outcome> outcomes_;
  std::map<uint32_t, std::map<uint32_t, std::string>> texts_;  // by number and rank
  uint32_t n_told_ranks_ = 0;
};

}  // namespace nerf
