#include "engine/program/serve/serve_gang.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/base/protocol/failed_line.h"
#include "engine/program/serve/engine_messages.h"
#include "engine/program/serve/serve_job.h"
#include "engine/program/serve/serve_loop.h"
#include "engine/program/session/training_methods.h"
#include "engine/train/group/rendezvous.h"

namespace nerf {
namespace {

constexpr absl::Duration kGangMeetingTime = absl::Minutes(10);  // also for reading a large data set
constexpr char kRank[] = "rank";

// Ranks meet by messages: each tells its worker, which tells the server, which tells all.
class MessageRendezvous final : public Rendezvous {
 public:
  using Tell = std::function<void(uint32_t sequence, std::string_view text)>;

  // `requests` outlives this.
  MessageRendezvous(const internal::RankPlace& place, Tell tell, RequestQueue* requests)
      : Rendezvous(static_cast<int>(place.rank()), static_cast<int>(place.count()), {},
                   kGangMeetingTime),
        tell_(std::move(tell)),
        requests_(requests) {}

  absl::StatusOr<std::vector<std::string>> Gather(std::string_view mine) override {
    const uint32_t sequence = next_++;
    tell_(sequence, mine);
    NERF_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                          requests_->AwaitRankTexts(sequence, kGangMeetingTime));
    if (texts.size() == static_cast<size_t>(n_ranks())) return texts;
    return absl::InternalError("the server sent texts of another number of ranks");
  }

 private:
  const Tell tell_;
  RequestQueue* const requests_;
  uint32_t next_ = 0;
};

// Lets the worker know that a rank other than 0, which reports no progress, is alive.
class FollowerObserver final : public TrainerObserver {
 public:
  FollowerObserver(std::function<void()> report, const Clock* clock)
      : report_(std::move(report)), clock_(clock), last_(clock->Now()) {}

  absl::Status BetweenSteps() override {
    const SteadyTime now = clock_->Now();
    if (now - last_ < kServeHeartbeat) return absl::OkStatus();
    last_ = now;
    report_();
    return absl::OkStatus();
  }

 private:
  const std::function<void()> report_;
  const Clock* const clock_;
  SteadyTime last_;
};

}  // namespace

absl::Status WithLostRank(const absl::Status& status, int lost_rank) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  const absl::Status lost = absl::UnavailableError(status.message());
  if (lost_rank < 0) return WithReason(lost, protocol::kRankLost);
  return WithReason(lost, protocol::kRankLost, {{kRank, std::to_string(lost_rank)}});
}

std::optional<uint32_t> LostRank(const absl::Status& status) {
  const auto found = GetReason(status);
  if (!found.has_value() || found->reason != protocol::kRankLost) return std::nullopt;
  const auto rank = found->metadata.find(kRank);
  if (rank == found->metadata.end()) return std::nullopt;
  return static_cast<uint32_t>(std::stoul(rank->second));
}

RankReports LogRanks(const std::string& job) {
  return {[job](const RankFigures& forecast) {
            LogInfo("ranks begin", {{"job", job}, {"forecast", ForecastText(forecast)}});
          },
          [job](const RankFigures& measured, const RankFigures& forecast) {
            LogInfo("ranks end", {{"job", job}, {"measured", ComparisonText(measured, forecast)}});
          }};
}

absl::StatusOr<std::unique_ptr<RankSession>> ServeLoop::MeetRanks(const std::string& job,
                                                                  const internal::Train& train,
                                                                  const TrainConfig& config) {
  if (!train.has_ranks()) return std::unique_ptr<RankSession>();
  NERF_RETURN_IF_ERROR(
      CheckRanksShare(config, options_.device, static_cast<int>(train.ranks().count())));
  auto rendezvous = std::make_unique<MessageRendezvous>(
      train.ranks(),
      [this, job](uint32_t sequence, std::string_view text) {
        internal::EngineMessage message;
        message.set_job(job);
        message.mutable_rank_text()->set_sequence(sequence);
        message.mutable_rank_text()->set_text(std::string(text));
        Send(message);
      },
      &requests_);
  auto session = RankSession::Join(std::move(rendezvous), train.ranks().interface());
  if (!session.ok()) return WithLostRank(session.status(), -1);
  return session;
}

absl::Status ServeLoop::FollowRanks(Job* job, RankSession* ranks, TrainingSession* session) {
  FollowerObserver observer(
      [this, job] {
        internal::EngineMessage message;
        message.set_job(job->name());
        message.mutable_working();
        Send(message);
      },
      clock_);
  TrainerOptions options;
  options.group = ranks->group();
  options.progress_interval = absl::InfiniteDuration();
  Trainer trainer(&session->scene, session->state, session->step.get(), pool_, clock_, options,
                  &observer);
  // Rank 0's word ends the training; a stop of this rank alone breaks the group.
  const std::stop_callback on_stop(job->stop(), [&] { ranks->group()->Abort("was stopped"); });
  TrainSummary summary;
  try {
    NERF_RETURN_IF_ERROR(ForecastRanks(ranks->group(), *session, pool_, *clock_).status());
    job->OnBegin(*session, nullptr);
    NERF_RETURN_IF_ERROR(trainer.Run({}).status());
  } catch (const GroupError& e) {
    if (job->stop().stop_requested()) return job->OnStopped();
    return WithLostRank(absl::UnavailableError(e.what()), e.lost_rank());
  }
  summary.step = trainer.state().step;
  Send(DoneMessage(job->name(), summary, {}));
  return absl::OkStatus();
}

}  // namespace nerf
