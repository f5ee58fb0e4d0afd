// The stream between the agent and the server.
#include <algorithm>
#include <array>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "worker/agent.h"
#include "worker/base/durations.h"

namespace nerf {

void Agent::Connect() {
  const int generation = ++generation_;
  stream_ = Stream::kOpen;
  write_in_flight_ = false;
  said_hello_ = false;
  report_due_ = true;
  // Callbacks that run after the agent's destruction do nothing.
  const auto post = [alive = std::weak_ptr<bool>(alive_),
                     &mailbox = context_.mailbox](std::function<void()> read) {
    mailbox.Post([alive, read = std::move(read)] {
      if (!alive.expired()) read();
    });
  };
  context_.server.Open(
      {.on_message =
           [this, generation, post](v1::SynchronizeResponse message) {
             post([this, generation, message = std::move(message)] {
               OnMessage(generation, message);
             });
           },
       .on_written = [this, generation,
                      post] { post([this, generation] { OnWritten(generation); }); },
       .on_closed =
           [this, generation, post](CallResult result) {
             post([this, generation, result = std::move(result)] { OnClosed(generation, result); });
           }});
}

void Agent::OnMessage(int generation, const v1::SynchronizeResponse& message) {
  if (generation != generation_) return;
  if (!ever_connected_) LogInfo("connected", {{"worker", options_.worker_id}});
  ever_connected_ = true;
  backoff_ = options_.min_backoff;
  last_server_message_ = context_.clock.Now();
  told_doubtful_ = false;
  if (message.has_heartbeat_interval()) {
    heartbeat_interval_ = std::clamp(FromProto(message.heartbeat_interval()),
                                     absl::Milliseconds(10), absl::Seconds(60));
  }
  if (message.has_checkpoint_interval()) {
    checkpoint_interval_ =
        std::max(FromProto(message.checkpoint_interval()), absl::Milliseconds(10));
  }
  if (!message.finished_acknowledged().empty() && job_ != nullptr && job_->is_final() &&
      job_->name() == message.finished_acknowledged()) {
    finished_job_ = job_->name();
    finished_epoch_ = job_->lease_epoch();
    job_.reset();
    report_due_ = true;
  }
  if (message.has_desired_job()) HandleDesired(message.desired_job());
  if (message.has_rank_texts() && job_ != nullptr && job_->name() == message.rank_texts().job()) {
    job_->OnRankTexts(message.rank_texts());
  }
  if (message.has_request()) requests_->Handle(message.request());
  SendDue();
}

void Agent::OnWritten(int generation) {
  if (generation != generation_) return;
  write_in_flight_ = false;
  meter_.OnWritten();
  SendDue();
}

void Agent::OnClosed(int generation, const CallResult& result) {
  if (generation != generation_) return;
  stream_ = Stream::kClosed;
  requests_->DropAll();
  if (std::exchange(write_in_flight_, false)) meter_.OnLost();
  if (result.reason == reason::kWorkerReplaced) {
    result_ = result;  // two processes with one id would end each other's streams for ever
    return;
  }
  const bool refused = result.code == absl::StatusCode::kUnauthenticated ||
                       result.code == absl::StatusCode::kPermissionDenied ||
                       result.code == absl::StatusCode::kUnimplemented ||
                       result.code == absl::StatusCode::kInvalidArgument;
  if (refused && !ever_connected_) {
    result_ = result;  // such as a wrong token: retrying does not help
    return;
  }
  // Jitter, 50 to 100 % of the backoff, keeps workers from reconnecting at the same moment.
  std::array<uint8_t, 1> random_byte;
  context_.random.Fill(random_byte);
  next_connect_ = context_.clock.Now() + backoff_ * (0.5 + random_byte[0] / 510.0);
  LogWarning("cannot reach the server, trying again",
             {{"error", result.message}, {"retry_seconds", absl::ToDoubleSeconds(backoff_)}});
  backoff_ = std::min(backoff_ * 2, options_.max_backoff);
}

void Agent::SendDue() {
  if (stream_ != Stream::kOpen || write_in_flight_) return;
  const absl::Duration since_write = context_.clock.Now() - last_write_;
  const bool due = !said_hello_ || report_due_ || requests_->HasReply() ||
                   (progress_due_ && since_write >= options_.min_progress_interval) ||
                   since_write >= heartbeat_interval_;
  if (!due) return;
  v1::SynchronizeRequest message = NextMessage();
  write_in_flight_ = true;
  last_write_ = context_.clock.Now();
  context_.server.Write(std::move(message));
}

v1::SynchronizeRequest Agent::NextMessage() {
  v1::SynchronizeRequest message;
  const bool is_first = !said_hello_;
  if (!said_hello_) {
    v1::WorkerHello* hello = message.mutable_hello();
    hello->set_worker_id(options_.worker_id);
    hello->set_session_id(options_.session_id);
    hello->set_device(options_.device);
    hello->set_device_description(engines_->last_hello().description());
    hello->set_version(options_.version);
    hello->set_host(options_.host);
    hello->set_problem(problem_);
    const auto& methods = engines_->last_hello().methods();
    *hello->mutable_methods() = {methods.begin(), methods.end()};
    *hello->mutable_features() = {options_.features.begin(), options_.features.end()};
    hello->set_colmap_version(options_.colmap_version);
    hello->set_ffmpeg_version(options_.ffmpeg_version);
    for (const std::string& method : engines_->last_hello().merges())
      hello->add_features("merge/" + method);
    if (engines_->last_hello().writes_nanovdb()) hello->add_features("export-nvdb");
    said_hello_ = true;
  }
  // An abandoned job is not reported, even while its engine still stops.
  if (job_ != nullptr && !job_->abandoned()) {
    *message.mutable_job() = is_first ? job_->FirstReport() : job_->report();
    if (job_->rank_text() != nullptr) *message.mutable_rank_text() = *job_->rank_text();
  }
  message.set_draining(!takes_work());
  if (requests_->HasReply()) *message.mutable_reply() = requests_->TakeReply();
  *message.mutable_metrics() = meter_.Take(engines_->restarts());
  report_due_ = progress_due_ = false;
  return message;
}

}  // namespace nerf
