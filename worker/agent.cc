#include "worker/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/log_options.h"
#include "common/logging.h"
#include "worker/base/durations.h"
#include "worker/runs/export/export_run.h"
#include "worker/runs/pose/pose_run.h"
#include "worker/runs/render/frame_run.h"
#include "worker/runs/render/movie_run.h"

namespace nerf {
namespace {

constexpr absl::Duration kTickInterval = absl::Milliseconds(50);
constexpr std::array kFoldersOfEarlierVersions = {"/jobs", "/requests", "/open"};

// An empty folder `name`. Files that an earlier process left in it are removed.
void ResetFolder(const std::string& name) {
  std::error_code error;
  std::filesystem::remove_all(name, error);
  std::filesystem::create_directories(name, error);
}

}  // namespace

Agent::Agent(AgentOptions options, AgentContext context)
    : options_(std::move(options)),
      context_(context),
      next_connect_(context_.clock.Now()),
      last_write_(context_.clock.Now()),
      last_server_message_(context_.clock.Now()),
      backoff_(options_.min_backoff),
      heartbeat_interval_(options_.heartbeat_interval),
      checkpoint_interval_(options_.job.checkpoint_interval),
      lease_ttl_(absl::InfiniteDuration()) {
  for (const char* name : kFoldersOfEarlierVersions) {
    std::error_code ignored;
    std::filesystem::remove_all(options_.cache_dir + name, ignored);
  }
  EnginePoolOptions engines = options_.engines;
  engines.folder = options_.cache_dir + "/rooms";
  ResetFolder(engines.folder);
  requests_ = std::make_unique<RequestBoard>(RequestBoardOptions{.worker_id = options_.worker_id},
                                             ContextOfRequests());
  engines_ = std::make_unique<EnginePool>(std::move(engines), context_.clock, context_.engines,
                                          context_.mailbox, context_.tasks, EngineListener());
}

RequestContext Agent::ContextOfRequests() {
  return RequestContext{
      .tasks = context_.tasks,
      .cache = context_.cache,
      .room_of = [this](const std::string& project) { return engines_->RoomOf(project); },
      .begin_asking = [this] { engines_->BeginRequests(); },
      .engine_for = [this](const std::shared_ptr<EngineRoom>& room) -> std::optional<int> {
        const std::optional<int> engine = engines_->ForRequest(room);
        const bool must_wait = job_ != nullptr && job_->needs_alone() && room == job_room_;
        return must_wait ? std::nullopt : engine;
      },
      .send_to_engine =
          [this](int engine, const internal::WorkerRequest& request) {
            engines_->supervisor(engine).Send(request);
          },
      .new_request_id = [this] { return NewRequestId(); },
      .training_key = [this](const std::string& job) -> std::optional<std::string> {
        if (job_ == nullptr || job_->name() != job) return std::nullopt;
        return job_->training_key();
      }};
}

EnginePool::Listener Agent::EngineListener() {
  return EnginePool::Listener{
      .on_ready = [this](int /*engine*/) { TickJobs(); },
      .on_message =
          [this](int engine, const internal::EngineMessage& message) {
            OnEngineMessage(engine, message);
          },
      .on_exit = [this](int engine, const EngineExit& exit) { OnEngineExit(engine, exit); },
      .on_hopeless = [this](const EngineRoom& room,
                            const std::string& why) { requests_->OnEngineHopeless(room, why); },
      .has_requests = [this](int engine) { return requests_->InEngine(engine); },
      .has_job = [this] { return EngineHasJob(); }};
}

Agent::~Agent() {
  ++generation_;
  context_.server.Close();
}

void Agent::Tick() {
  if (result_.has_value()) return;
  if (problem_.empty()) engines_->Tick();
  const SteadyTime now = context_.clock.Now();
  if (problem_.empty() && engines_->main().failed_starts() >= options_.engines.max_failed_starts) {
    const std::string why = engines_->main().last_failure();
    if (job_ != nullptr) {
      job_->OnEngineHopeless(why);
    } else if (!engines_->GiveUpMain() && !StaysWithoutEngine()) {
      result_ = CallResult{absl::StatusCode::kInternal,
                           fmt::format("the engine does not start: {}", why), ""};
      return;
    }
  }
  // The first hello describes the device, so it waits for the engine. Later ones do not: a job
  // must be reported even if the engine fails.
  const bool may_connect = ever_connected_ || engines_->main().ready() || !problem_.empty();
  if (stream_ == Stream::kClosed && may_connect && now >= next_connect_) Connect();
  TickJobs();
  TickShutdown();
  SendDue();
}

// ---- The job.

bool Agent::IsUnknown(const v1::DesiredJob& desired) const {
  return job_ == nullptr &&
         (desired.job() != finished_job_ || desired.lease_epoch() > finished_epoch_);
}

void Agent::HandleDesired(const v1::DesiredJob& desired) {
  if (desired.has_lease_ttl()) lease_ttl_ = FromProto(desired.lease_ttl());
  const bool ours = job_ != nullptr && job_->name() == desired.job();
  switch (desired.action()) {
    case v1::DesiredJob::TRAIN:
    case v1::DesiredJob::RENDER:
    case v1::DesiredJob::POSE:
    case v1::DesiredJob::EXPORT:
      if (ours && desired.lease_epoch() <= job_->lease_epoch()) return;  // go on
      // The order was sent before the server stored the end of the job.
      if (desired.job() == finished_job_ && desired.lease_epoch() <= finished_epoch_) return;
      // Another job, or a new lease of this one: our lease is over.
      if (job_ != nullptr) LeaveJob();
      StartJob(desired);
      return;
    case v1::DesiredJob::CANCEL:
      if (ours && desired.lease_epoch() >= job_->lease_epoch()) {
        job_->Cancel();
      } else if (IsUnknown(desired)) {
        StartJob(desired);
      }
      return;
    case v1::DesiredJob::CHECKPOINT_AND_STOP:
      if (ours && desired.lease_epoch() >= job_->lease_epoch()) {
        job_->Release(/*in_hurry=*/false);
      } else if (IsUnknown(desired)) {
        StartJob(desired);
      }
      return;
    case v1::DesiredJob::ABANDON:
      if (ours && desired.lease_epoch() >= job_->lease_epoch()) LeaveJob();
      return;
    default:
      return;
  }
}

std::shared_ptr<LeasedRun> Agent::NewRun(const v1::DesiredJob& desired) {
  JobContext context{.worker_id = options_.worker_id,
                     .clock = context_.clock,
                     .tasks = context_.tasks,
                     .cache = context_.cache,
                     .room = job_room_,
                     .blobs = context_.blobs,
                     .server = context_.server,
                     .send_to_engine =
                         [this](const internal::WorkerRequest& request) {
                           engines_->supervisor(engines_->job_engine()).Send(request);
                         },
                     .kill_engine =
                         [this](EngineExit::Kind kind) {
                           engines_->supervisor(engines_->job_engine()).Kill(kind);
                         },
                     .new_request_id = [this] { return NewRequestId(); },
                     .report_changed = [this] { report_due_ = true; },
                     .progress_changed = [this] { progress_due_ = true; }};
  std::string folder = fmt::format("{}/{}", job_room_->jobs(), ++job_serial_);
  switch (desired.action()) {
    case v1::DesiredJob::RENDER:
      if (desired.has_movie()) {
        return std::make_shared<MovieRun>(options_.part, std::move(context), desired,
                                          std::move(folder));
      }
      return std::make_shared<FrameRun>(options_.part, std::move(context), desired,
                                        std::move(folder));
    case v1::DesiredJob::POSE:
      return std::make_shared<PoseRun>(options_.part, options_.pose, std::move(context), desired,
                                       std::move(folder));
    case v1::DesiredJob::EXPORT:
      return std::make_shared<ExportRun>(options_.part, options_.exporting, std::move(context),
                                         desired, std::move(folder));
    default:  // TRAIN, and orders to end a job that is not here, of whatever kind it is
      JobRunOptions options = options_.job;
      options.checkpoint_interval = checkpoint_interval_;
      return std::make_shared<JobRun>(options, std::move(context), desired, std::move(folder));
  }
}

void Agent::StartJob(const v1::DesiredJob& desired) {
  NoteJobOrigin("", desired.job(), desired.origin().request_id(), desired.origin().traceparent());
  job_room_ = engines_->RoomOf(ProjectOf(desired.job()));
  job_begun_ = false;
  job_ = NewRun(desired);
  report_due_ = true;
  LogInfo("job granted", {{"job", desired.job()}, {"lease_epoch", desired.lease_epoch()}});
  if (desired.action() == v1::DesiredJob::CANCEL) {
    job_->Cancel();
  } else if (desired.action() == v1::DesiredJob::CHECKPOINT_AND_STOP || !takes_work()) {
    job_->Release(/*in_hurry=*/true);
  } else {
    job_->Start();
  }
}

void Agent::LeaveJob() {
  LogInfo("job given up", {{"job", job_->name()}, {"lease_epoch", job_->lease_epoch()}});
  job_->Abandon();
  if (job_->in_engine()) leaving_.push_back(job_);
  job_.reset();
  report_due_ = true;
}

bool Agent::lease_doubtful() const {
  return job_ != nullptr && context_.clock.Now() - last_server_message_ > lease_ttl_;
}

void Agent::TickJobs() {
  if (job_ != nullptr) job_->Tick();
  for (const auto& run : leaving_) run->Tick();
  // A run abandons itself when the server rejects its epoch.
  if (job_ != nullptr && job_->abandoned()) LeaveJob();
  std::erase_if(leaving_, [](const auto& run) { return !run->in_engine(); });
  PlaceJob();
  requests_->AskWaiting();

  const absl::Duration server_silence = context_.clock.Now() - last_server_message_;
  if (lease_doubtful() && !std::exchange(told_doubtful_, true)) {
    LogWarning("no message from the server; the lease may have expired, training continues",
               {{"job", job_->name()}, {"silent_seconds", absl::ToDoubleSeconds(server_silence)}});
  }
  if (job_ != nullptr && !job_->ending() && server_silence > options_.orphan_grace) {
    LogWarning("no message from the server for too long, stopping the job",
               {{"job", job_->name()}});
    job_->Release(/*in_hurry=*/true);
  }

  for (int engine = 0; engine < EnginePool::kEngines; ++engine) CheckSilence(engine);
}

void Agent::PlaceJob() {
  engines_->ClearJobWish();
  if (!leaving_.empty()) return;
  if (job_ == nullptr) {
    job_room_.reset();
    engines_->LeaveGang();
    return;
  }
  if (!job_->waits_for_engine()) return;
  job_begun_ = false;
  if (!engines_->PrepareForJob(job_room_, job_->in_gang())) return;
  if (job_->needs_alone() && requests_->InEngine(engines_->job_engine())) return;
  job_begun_ = true;
  job_->Begin();
}

// ---- The engines.

bool Agent::EngineHasJob() const {
  if (!leaving_.empty()) return true;
  return job_ != nullptr && job_begun_ && (job_->in_engine() || !job_->ending());
}

bool Agent::StaysWithoutEngine() {
  if (ever_connected_ || options_.explain_no_engine == nullptr) return false;
  problem_ = options_.explain_no_engine();
  if (problem_.empty()) return false;
  LogError("no engine starts, so this worker takes no work", {{"why", problem_}});
  return true;
}

void Agent::CheckSilence(int engine) {
  const SteadyTime now = context_.clock.Now();
  EngineSupervisor& supervisor = engines_->supervisor(engine);
  std::optional<SteadyTime>& owes_since = engine_owes_since_[engine];
  absl::Duration allowed = absl::InfiniteDuration();
  if (job_ != nullptr && engine == engines_->job_engine()) allowed = job_->allowed_silence();
  const bool trains = allowed != absl::InfiniteDuration();
  // A check runs between two steps and may take longer than any step.
  if (requests_->InEngine(engine)) {
    allowed = trains ? std::max(allowed, options_.request_silence) : options_.request_silence;
  }
  if (allowed == absl::InfiniteDuration()) {
    owes_since.reset();
  } else if (!owes_since.has_value()) {
    owes_since = now;
  } else if (supervisor.ready() &&
             now - std::max(*owes_since, supervisor.last_message()) > allowed) {
    LogError("the engine is silent, killing it");
    owes_since.reset();
    supervisor.Kill(EngineExit::Kind::kHang);
  }
}

LeasedRun* Agent::RunOfKey(const std::string& key) {
  if (job_ != nullptr && job_->key() == key) return job_.get();
  for (const auto& run : leaving_) {
    if (run->key() == key) return run.get();
  }
  return nullptr;
}

LeasedRun* Agent::RunOfRequest(const std::string& request_id) {
  if (job_ != nullptr && job_->Owns(request_id)) return job_.get();
  for (const auto& run : leaving_) {
    if (run->Owns(request_id)) return run.get();
  }
  return nullptr;
}

std::string Agent::NewRequestId() { return fmt::format("r{}", ++request_serial_); }

void Agent::OnEngineMessage(int engine, const internal::EngineMessage& message) {
  // An engine speaks for the job only if the job is in it. An error that names a job and a request
  // belongs to the request, a render of the job.
  const bool has_job = engine == engines_->job_engine();
  const bool is_of_request =
      message.job().empty() || (message.has_refused() && !message.id().empty());
  if (has_job && message.has_progress()) meter_.Count(message.job(), message.progress());
  LeasedRun* run = nullptr;
  if (has_job) run = is_of_request ? RunOfRequest(message.id()) : RunOfKey(message.job());
  if (run != nullptr) {
    run->OnEngineMessage(message);
  } else if (is_of_request) {
    requests_->OnEngineMessage(engine, message);
  }
  TickJobs();
  SendDue();
}

void Agent::OnEngineExit(int engine, const EngineExit& exit) {
  if (engine == engines_->job_engine()) {
    const bool shared = requests_->InEngine(engine);
    for (const auto& run : leaving_) run->OnEngineExit(exit, shared);
    if (job_ != nullptr) job_->OnEngineExit(exit, shared);
  }
  requests_->OnEngineExit(engine);
  TickJobs();
  SendDue();
}

// ---- The end.

void Agent::Shutdown() {
  if (draining_) return;
  draining_ = true;
  drain_begin_ = context_.clock.Now();
  report_due_ = true;
  LogInfo("shutting down", {{"job", job_ != nullptr ? job_->name() : "none"}});
  if (job_ != nullptr) job_->Release(/*in_hurry=*/true);
  SendDue();
}

void Agent::TickShutdown() {
  if (!draining_) return;
  const absl::Duration elapsed = context_.clock.Now() - drain_begin_;
  const bool requests_done = requests_->empty() || elapsed >= options_.shutdown_request_timeout;
  const bool done = job_ == nullptr && leaving_.empty() && requests_done && !write_in_flight_;
  if (done || elapsed >= options_.shutdown_timeout) {
    if (!done)
      LogWarning("shutting down with unfinished work; the last committed checkpoint is kept");
    context_.server.Close();
    result_ = CallResult{};
  }
}

CallResult RunAgent(Agent& agent, Mailbox& mailbox, const std::function<bool()>& shutdown) {
  while (true) {
    agent.Tick();
    if (agent.result().has_value()) return *agent.result();
    mailbox.Wait(kTickInterval);
    mailbox.RunAll();
    if (shutdown()) agent.Shutdown();
  }
}

}  // namespace nerf
