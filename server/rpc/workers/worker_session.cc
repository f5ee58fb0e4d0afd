#include "server/rpc/workers/worker_session.h"

#include <cmath>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/messages/worker_limits.h"
#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/leases/gang_policy.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_export.h"
#include "server/rpc/convert/convert_job.h"
#include "server/rpc/convert/convert_report.h"
#include "server/rpc/convert/convert_worker.h"
#include "server/rpc/convert/kind_messages.h"
#include "server/rpc/workers/made_blobs.h"

namespace nerf {
namespace {

bool IsEnd(v1::JobReport::Phase phase) {
  return phase != v1::JobReport::PREPARING && phase != v1::JobReport::RUNNING;
}

// True for errors that mean that the lease is lost; others may be retried.
bool IsFenced(const absl::Status& status) {
  const auto found = GetReason(status);
  return found.has_value() &&
         (found->reason == reason::kLeaseFenced || found->reason == reason::kResourceNotFound);
}

// True for errors that repeating the report would not change.
bool IsRefusal(const absl::Status& status) {
  const auto found = GetReason(status);
  return IsFenced(status) || (found.has_value() && found->reason == reason::kStateConflict);
}

v1::DesiredJob::Action ActionOf(LeaseOrder order) {
  switch (order) {
    case LeaseOrder::kTrain:
      return v1::DesiredJob::ACTION_UNSPECIFIED;  // go on
    case LeaseOrder::kCheckpointAndStop:
      return v1::DesiredJob::CHECKPOINT_AND_STOP;
    case LeaseOrder::kCancel:
      return v1::DesiredJob::CANCEL;
  }
  return v1::DesiredJob::ACTION_UNSPECIFIED;
}

v1::DesiredJob MakeOrder(v1::DesiredJob::Action action, const LeaseRef& lease, absl::Duration ttl) {
  v1::DesiredJob order;
  order.set_action(action);
  order.set_job(JobName(lease.job));
  order.set_lease_epoch(lease.epoch);
  order.set_part(lease.part);
  *order.mutable_lease_ttl() = ToProto(ttl);
  return order;
}

}  // namespace

WorkerSession::~WorkerSession() { Close(); }

std::optional<std::string> WorkerSession::worker() const {
  MutexLock lock(mu_);
  if (connection_ == 0) return std::nullopt;
  return description_.id;
}

uint64_t WorkerSession::connection() const {
  MutexLock lock(mu_);
  return connection_;
}

bool WorkerSession::silent() const {
  MutexLock lock(mu_);
  return connection_ != 0 && services_.clock.Now() - last_heard_ > services_.times.lease_ttl;
}

void WorkerSession::Close() {
  std::unique_ptr<WorkSubscription> subscription;
  {
    MutexLock lock(mu_);
    if (std::exchange(closed_, true)) return;
    if (connection_ != 0) services_.workers.Disconnect(description_.id, connection_);
    ForgetGauges();
    subscription.swap(subscription_);
  }
}

void WorkerSession::ForgetGauges() {
  if (std::exchange(has_gauges_, false)) {
    services_.metrics.WorkerIsSilent(description_.id, description_.device);
  }
}

absl::Status WorkerSession::CheckFirst(const v1::SynchronizeRequest& message) {
  if (!message.has_hello()) {
    return InvalidFieldsError({{"hello", "must come with the first message of a stream"}});
  }
  if (message.has_job()) {
    NERF_RETURN_IF_ERROR(ParseLease("job", message.job()).status());
    if (IsEnd(message.job().phase())) NERF_RETURN_IF_ERROR(ParseEnd(message.job()).status());
  }
  return CheckDescription(FromProto(message.hello()));
}

absl::Status WorkerSession::Open(const v1::SynchronizeRequest& message,
                                 std::function<void()> on_work) {
  MutexLock lock(mu_);
  if (closed_) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(CheckFirst(message));
  description_ = FromProto(message.hello());
  std::vector<LeaseRef> held;
  if (message.has_job()) {
    NERF_ASSIGN_OR_RETURN(LeaseRef lease, ParseLease("job", message.job()));
    held.push_back(std::move(lease));
  }
  // Called before HandleWork can run: a worker that reconnects with a job must not get another one
  // before its first message is handled.
  HearOf(message, held.empty() ? std::nullopt : std::optional(held.front()));
  NERF_ASSIGN_OR_RETURN(const uint64_t connection, services_.workers.Connect(description_));
  connection_ = connection;
  last_heard_ = services_.clock.Now();
  subscription_ = services_.leases.SubscribeWork(description_.id, std::move(on_work));
  LogInfo("worker connected", {{"worker", description_.id},
                               {"session", description_.session},
                               {"device", description_.device},
                               {"held_leases", held.size()}});
  held_at_hello_ = std::move(held);
  return absl::OkStatus();
}

void WorkerSession::RunLater(std::vector<Task> tasks) {
  for (Task& task : tasks) defer_(std::move(task));
}

absl::Status WorkerSession::HandleMessage(const v1::SynchronizeRequest& message) {
  std::vector<Task> tasks;
  absl::Status status;
  {
    MutexLock lock(mu_);
    status = Handle(message, &tasks);
  }
  RunLater(std::move(tasks));
  return status;
}

absl::Status WorkerSession::Handle(const v1::SynchronizeRequest& message,
                                   std::vector<Task>* tasks) {
  if (closed_) {
    // A draining worker ends its stream right after this message.
    if (connection_ != 0 && message.draining()) {
      services_.workers.Heard(description_.id, connection_, /*draining=*/true, std::nullopt);
    }
    return absl::OkStatus();
  }
  last_heard_ = services_.clock.Now();
  if (message.has_metrics()) HandleMetrics(message);
  // The gauges of a training worker stay even without new values, so that a hanging training shows
  // as constant gauges.
  if (!message.has_job()) ForgetGauges();

  v1::SynchronizeResponse response;
  std::optional<LeaseRef> lease;
  if (message.has_job()) {
    NERF_ASSIGN_OR_RETURN(lease, ParseLease("job", message.job()));
    lease->worker = description_.id;
  }
  HearOf(message, lease);
  if (lease.has_value()) {
    NERF_RETURN_IF_ERROR(HandleRecent(*lease, message.job()));
    NERF_RETURN_IF_ERROR(IsEnd(message.job().phase())
                             ? HandleEndReport(*lease, message.job(), tasks)
                             : HandleWorkReport(*lease, message.job(), &response));
  }
  if (message.has_rank_text()) NERF_RETURN_IF_ERROR(HandleRankText(message.rank_text()));
  if (slot_.draining()) services_.leases.Withdraw(description_.id);
  std::optional<ResourceKey> job;
  bool follows = false;
  if (slot_.held().has_value()) {
    job = slot_.held()->job;
    follows = slot_.held()->part > 0 && !services_.queue.TraitsOfJob(*job).has_part_leases;
    if (follows && slot_.draining()) services_.leases.LeaveGang(*slot_.held());
  }
  if (!services_.workers.Heard(description_.id, connection_, slot_.draining(), job, follows)) {
    return absl::AbortedError("a newer stream of this worker has taken over");
  }
  if (attached_) {
    if (!message.has_job()) WantGrant(tasks);
  } else if (!std::exchange(attaching_, true)) {
    tasks->push_back([this] { Attach(); });
  }
  SendIntervals(std::move(response));
  return absl::OkStatus();
}

void WorkerSession::Attach() {
  std::string worker;
  std::vector<LeaseRef> held;
  {
    MutexLock lock(mu_);
    worker = description_.id;
    held = held_at_hello_;
  }
  const absl::Status status = services_.leases.Attach(worker, held);
  std::vector<Task> tasks;
  {
    MutexLock lock(mu_);
    attaching_ = false;
    attached_ = status.ok();
    if (attached_) WantGrant(&tasks);
  }
  // The next heartbeat tries again.
  if (!status.ok()) {
    LogWarning("the leases of a worker could not be checked",
               {{"worker", worker}, {"error", status.ToString()}});
  }
  RunLater(std::move(tasks));
}

void WorkerSession::HearOf(const v1::SynchronizeRequest& message,
                           const std::optional<LeaseRef>& lease) {
  if (lease.has_value() && IsEnd(message.job().phase())) {
    slot_.HearEnd(*lease, message.draining());
  } else {
    slot_.Hear(lease, message.draining());
  }
}

void WorkerSession::HandleMetrics(const v1::SynchronizeRequest& message) {
  const v1::WorkerMetrics& metrics = message.metrics();
  ServerMetrics::TrainReport report = FromProto(metrics, services_.clock.WallNow());
  report.commits = message.job().part() == 0;  // of a gang the first rank alone
  services_.metrics.TrainReported(description_.id, description_.device, report);
  has_gauges_ = has_gauges_ || metrics.train_steps() > 0;
  if (const auto gpu = GpuReadingsOf(metrics); gpu.has_value()) {
    services_.metrics.GpuReported(description_.id, description_.device, *gpu);
    has_gauges_ = true;
  }
}

absl::Status WorkerSession::HandleRecent(const LeaseRef& lease, const v1::JobReport& report) {
  if (report.recent().empty()) return absl::OkStatus();
  std::vector<v1::Progress> recent;
  for (const v1::Progress& proto : report.recent()) {
    NERF_ASSIGN_OR_RETURN(v1::Progress progress, ReportedProgress(proto));
    recent.push_back(std::move(progress));
  }
  const absl::Status added = services_.leases.AddRecentProgress(lease, recent);
  // A lease that is lost is answered with ABANDON by what follows.
  return IsFenced(added) ? absl::OkStatus() : added;
}

absl::Status WorkerSession::HandleEndReport(const LeaseRef& lease, const v1::JobReport& report,
                                            std::vector<Task>* tasks) {
  NERF_ASSIGN_OR_RETURN(JobEnd end, ParseEnd(report));
  // A worker repeats the report of an end until it is acknowledged.
  if (ending_ == lease) return absl::OkStatus();
  ending_ = lease;
  tasks->push_back([this, lease, end = std::move(end)] { StoreEnd(lease, end); });
  return absl::OkStatus();
}

absl::StatusOr<WorkerSession::JobEnd> WorkerSession::ParseEnd(const v1::JobReport& report) {
  JobEnd end;
  end.phase = report.phase();
  end.shared_engine = report.shared_engine();
  if (report.has_progress()) {
    NERF_ASSIGN_OR_RETURN(end.outcome.progress, ReportedProgress(report.progress()));
  }
  if (report.has_export_result()) {
    NERF_ASSIGN_OR_RETURN(end.outcome.exported, ReportedResult(report.export_result()));
  }
  if (report.has_final_psnr() && std::isfinite(report.final_psnr())) {
    end.outcome.final_psnr = report.final_psnr();
  }
  for (const v1::TestViewScore& view : report.test_views()) {
    if (end.outcome.test_views.size() == size_t{kMaxTestViewScores}) break;
    if (view.file().size() > kMaxScenePathLength || !std::isfinite(view.psnr())) continue;
    v1::TestViewScore& score = end.outcome.test_views.emplace_back();
    score.set_file(view.file());
    score.set_psnr(view.psnr());
  }
  switch (report.phase()) {
    case v1::JobReport::SUCCEEDED:
      end.outcome.kind = JobOutcome::Kind::kSucceeded;
      return end;
    case v1::JobReport::FAILED:
      end.outcome.kind = JobOutcome::Kind::kFailed;
      end.outcome.error = ToJobError(report);
      return end;
    case v1::JobReport::CANCELLED:
      end.outcome.kind = JobOutcome::Kind::kCancelled;
      return end;
    case v1::JobReport::RELEASED:
      if (report.release_reason() == v1::JobReport::NO_ROOM) {
        end.release_reason = QueueReason::kNoRoom;
        end.outcome.error = ToJobError(report);
      } else if (report.release_reason() == v1::JobReport::MEMBER_LOST) {
        end.release_reason = QueueReason::kWorkerLost;
        if (report.has_lost_rank()) end.lost_rank = report.lost_rank();
      }
      return end;
    case v1::JobReport::ENGINE_CRASHED:
      end.outcome.error = ToJobError(report);
      return end;
    default:
      return InvalidFieldsError({{"job.phase", "must be a phase known to this server"}});
  }
}

void WorkerSession::StoreEnd(const LeaseRef& lease, const JobEnd& end) {
  absl::Status stored;
  if (end.phase == v1::JobReport::RELEASED) {
    stored = services_.leases
                 .Release(lease, end.release_reason, end.lost_rank, end.outcome.error.message)
                 .status();
  } else if (end.phase == v1::JobReport::ENGINE_CRASHED) {
    stored = services_.leases.ReportEngineCrash(lease, end.outcome.error.message, end.shared_engine)
                 .status();
  } else {
    std::vector<BlobRef> made;
    if (end.outcome.exported.has_value()) {
      for (const v1::ExportFile& file : end.outcome.exported->files())
        made.push_back(ToBlobRef(file.blob()));
    }
    if (end.outcome.progress.has_value() && end.outcome.progress->has_preview_image()) {
      made.push_back(ToBlobRef(end.outcome.progress->preview_image()));
    }
    OwnMade(services_, lease.job.project, made);
    stored = services_.leases.Finish(lease, end.outcome).status();
  }
  if (!stored.ok()) {
    LogWarning("the end of a job could not be stored", {{"worker", lease.worker},
                                                        {"job", JobName(lease.job)},
                                                        {"lease_epoch", lease.epoch},
                                                        {"error", stored.ToString()}});
  }
  MutexLock lock(mu_);
  ending_.reset();
  // Without an acknowledgement the worker repeats the report.
  if (closed_ || (!stored.ok() && !IsRefusal(stored))) return;
  slot_.EndIsStored();
  v1::SynchronizeResponse response;
  response.set_finished_acknowledged(JobName(lease.job));
  SendIntervals(std::move(response));
}

absl::Status WorkerSession::HandleWorkReport(const LeaseRef& lease, const v1::JobReport& report,
                                             v1::SynchronizeResponse* response) {
  absl::StatusOr<LeaseOrder> order = LeaseOrder::kTrain;
  internal::JobProgress progress;
  if (report.phase() == v1::JobReport::RUNNING) {
    const JobKind kind = services_.queue.TraitsOfJob(lease.job).kind;
    NERF_ASSIGN_OR_RETURN(progress, MessagesOf(kind).parse_progress(report));
  }
  if (progress.kind_case() != internal::JobProgress::KIND_NOT_SET) {
    if (const v1::Progress& training = progress.training(); training.has_preview_image()) {
      OwnMade(services_, lease.job.project, {ToBlobRef(training.preview_image())});
    }
    order = services_.leases.ReportProgress(lease, progress);
  } else {
    order = services_.leases.Renew(lease, report.phase() == v1::JobReport::RUNNING
                                              ? WorkPhase::kRunning
                                              : WorkPhase::kPreparing);
  }
  if (order.ok()) {
    *response->mutable_desired_job() =
        MakeOrder(ActionOf(*order), lease, services_.times.lease_ttl);
  } else if (IsFenced(order.status())) {
    slot_.Lost();
    *response->mutable_desired_job() =
        MakeOrder(v1::DesiredJob::ABANDON, lease, absl::ZeroDuration());
  } else if (order.status().code() != absl::StatusCode::kUnavailable) {
    return order.status();
  }
  return absl::OkStatus();
}

absl::Status WorkerSession::HandleRankText(const v1::RankText& text) {
  NERF_ASSIGN_OR_RETURN(LeaseRef lease,
                        ParseLease("rank_text", text.job(), text.lease_epoch(), text.rank()));
  lease.worker = description_.id;
  const auto texts = services_.leases.TellRanks(lease, text.sequence(), text.text());
  // The report of the job is answered with ABANDON.
  if (IsFenced(texts.status())) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(texts.status());
  asked_texts_.emplace(std::move(lease), text.sequence());
  AnswerRankText(texts);
  return absl::OkStatus();
}

void WorkerSession::AnswerRankText(const absl::StatusOr<std::vector<std::string>>& texts) {
  if (!asked_texts_.has_value()) return;
  if (!texts.ok()) asked_texts_.reset();
  if (!texts.ok() || texts->empty()) return;
  const auto& [lease, sequence] = *asked_texts_;
  v1::SynchronizeResponse response;
  v1::RankTexts& answer = *response.mutable_rank_texts();
  answer.set_job(JobName(lease.job));
  answer.set_lease_epoch(lease.epoch);
  answer.set_sequence(sequence);
  for (const std::string& text : *texts) answer.add_texts(text);
  asked_texts_.reset();
  SendIntervals(std::move(response));
}

void WorkerSession::WantGrant(std::vector<Task>* tasks) {
  if (closed_ || !attached_ || !slot_.MayBeGranted(services_.clock.Now())) return;
  work_came_ = true;
  if (!std::exchange(granting_, true)) tasks->push_back([this] { Grant(); });
}

void WorkerSession::Grant() {
  while (!TryGrant()) {
  }
}

bool WorkerSession::TryGrant() {
  GrantRequest request;
  {
    MutexLock lock(mu_);
    // If work arrives during the query, query again.
    const bool wanted = std::exchange(work_came_, false);
    if (!wanted || closed_ || !slot_.MayBeGranted(services_.clock.Now())) {
      granting_ = false;
      return true;
    }
    request = {description_.id,
               description_.Capabilities(),
               description_.host,
               GangDeviceOf(description_),
               description_.Has(kRanksNetworkFeature),
               GangHardwareOf(description_)};
  }
  const auto grant = services_.leases.Acquire(request);
  if (!grant.ok() || !grant->has_value()) {
    if (grant.ok()) return false;
    // Keep the stream when the store fails: the next heartbeat tries again.
    LogWarning("a grant failed",
               {{"worker", request.worker}, {"error", grant.status().ToString()}});
    MutexLock lock(mu_);
    granting_ = false;
    return true;
  }
  const LeaseRef lease = (*grant)->lease;
  {
    MutexLock lock(mu_);
    granting_ = false;
    if (!closed_ && slot_.MayBeGranted(services_.clock.Now())) {
      slot_.Grant(lease, services_.clock.Now());
      v1::SynchronizeResponse response;
      *response.mutable_desired_job() = ToProto(**grant);
      *response.mutable_desired_job()->mutable_origin() = (**grant).job.origin;
      SendIntervals(std::move(response));
      return true;
    }
  }
  // While the grant was stored, the worker left or reported an earlier job.
  if (const auto released = services_.leases.Release(lease); !released.ok()) {
    LogWarning("an unused grant could not be released; it ends with its lease",
               {{"worker", request.worker}, {"error", released.status().ToString()}});
  }
  return true;
}

void WorkerSession::HandleWork() {
  std::vector<Task> tasks;
  {
    MutexLock lock(mu_);
    if (closed_ || connection_ == 0) return;
    if (asked_texts_.has_value()) {
      AnswerRankText(services_.leases.RankTexts(asked_texts_->first, asked_texts_->second));
    }
    const std::optional<LeaseRef> lease = slot_.lease();
    if (!lease.has_value()) {
      WantGrant(&tasks);
    } else {
      v1::SynchronizeResponse response;
      const std::optional<LeaseOrder> order = services_.leases.OrderOf(*lease);
      const bool takes_orders =
          lease->part == 0 || services_.queue.TraitsOfJob(lease->job).has_part_leases;
      if (!order.has_value()) {
        *response.mutable_desired_job() =
            MakeOrder(v1::DesiredJob::ABANDON, *lease, absl::ZeroDuration());
      } else if (*order != LeaseOrder::kTrain && takes_orders) {
        *response.mutable_desired_job() =
            MakeOrder(ActionOf(*order), *lease, services_.times.lease_ttl);
      }
      if (response.has_desired_job()) SendIntervals(std::move(response));
    }
  }
  RunLater(std::move(tasks));
}

void WorkerSession::SendIntervals(v1::SynchronizeResponse response) {
  *response.mutable_heartbeat_interval() = ToProto(services_.times.heartbeat_interval);
  *response.mutable_checkpoint_interval() = ToProto(services_.times.checkpoint_interval);
  send_(std::move(response));
}

}  // namespace nerf
