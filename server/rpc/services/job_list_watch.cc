#include "server/rpc/services/job_list_watch.h"

#include <cstddef>
#include <utility>

#include "common/status_macros.h"
#include "server/queue/leases/queue_wait.h"
#include "server/queue/resources/page.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/job_converter.h"

namespace nerf {
namespace {

constexpr char kWatchJobsMethod[] = "nerf.v1.JobService/WatchJobs";
constexpr size_t kMaxWaits = 100;

absl::StatusOr<JobListRequest> ToListRequest(const v1::WatchJobsRequest& request) {
  RequestCheck check;
  JobListRequest list;
  list.project = TakeOr(ParseProjectName("parent", request.parent()), check);
  list.filter = TakeOr(JobFilter::Parse(request.filter()), check);
  check.Require(request.max_jobs() >= 0, "max_jobs", "must not be negative");
  NERF_RETURN_IF_ERROR(check.Result());
  NERF_ASSIGN_OR_RETURN(list.max_jobs, EffectivePageSize(request.max_jobs()));
  list.token = request.resume_token();
  return list;
}

}  // namespace

JobListWatch* JobListWatch::Begin(const ServiceContext& services, CallContext* context,
                                  const v1::WatchJobsRequest& request) {
  const std::shared_ptr<JobListWatch> watch(
      new JobListWatch(services, context, Lane::kLists, services.times.list_interval));
  watch->Start(kWatchJobsMethod, context, request,
               [watch = watch.get(), request] { return watch->Open(request); });
  return watch.get();
}

absl::Status JobListWatch::Open(const v1::WatchJobsRequest& request) {
  NERF_ASSIGN_OR_RETURN(JobListRequest list, ToListRequest(request));
  NERF_ASSIGN_OR_RETURN(auto watcher, services_.queue.WatchList(std::move(list), OnNews()));
  MutexLock lock(mu_);
  watcher_ = std::move(watcher);
  return absl::OkStatus();
}

JobListWatch::Next JobListWatch::Fill(bool* bookmark_due, v1::WatchJobsResponse* response) {
  if (watcher_ == nullptr) return Next::kNothing;
  std::optional<JobListBatch> batch = std::exchange(rest_, std::nullopt);
  if (!batch.has_value()) batch = watcher_->TryNext();
  if (batch.has_value()) {
    AddRows(*std::move(batch), response);
    // The rows that are there follow one another at once, changes do not.
    return token_.empty() || rest_.has_value() ? Next::kWrite : Next::kWriteThenPause;
  }
  if (!std::exchange(*bookmark_due, false)) return Next::kNothing;
  response->Clear();
  response->set_resume_token(watcher_->Token());
  response->set_is_current(true);
  AddNewWaits(response);
  return Next::kWrite;
}

void JobListWatch::AddRows(JobListBatch batch, v1::WatchJobsResponse* response) {
  if (batch.reset) waits_.clear();
  response->Clear();
  response->set_reset(batch.reset);
  for (const ResourceKey& key : batch.removed) {
    response->add_removed(JobName(key));
    waits_.erase(key);
  }
  JobConverter converter(services_);
  size_t n_rows = 0;
  for (size_t byte_size = response->ByteSizeLong(); n_rows < batch.jobs.size(); ++n_rows) {
    const auto& [row, place] = batch.jobs[n_rows];
    const Job& job = row->job();
    std::optional<QueueWait> wait = converter.WaitOf(job, place);
    std::string bytes = converter.ToBytes(*row, wait);
    byte_size += bytes.size();
    if (n_rows > 0 && byte_size > kMaxListBytes) break;
    waits_.erase(job.key);
    if (job.state == JobState::kQueued && waits_.size() < kMaxWaits) {
      waits_[job.key] = {row, wait.has_value() ? std::move(wait->message) : ""};
    }
    AddBytes(response->kJobsFieldNumber, std::move(bytes), response);
  }
  if (n_rows == batch.jobs.size()) {
    token_ = batch.token;
    response->set_is_current(batch.is_current);
  } else {
    batch.reset = false;
    batch.removed.clear();
    batch.jobs.erase(batch.jobs.begin(), batch.jobs.begin() + static_cast<std::ptrdiff_t>(n_rows));
    rest_ = std::move(batch);
  }
  response->set_resume_token(token_);
}

void JobListWatch::AddNewWaits(v1::WatchJobsResponse* response) {
  JobConverter converter(services_);
  for (auto& [key, sent] : waits_) {
    const Job& job = sent.row->job();
    if (!converter.IsQueued(job)) continue;  // its change follows
    const std::optional<QueueWait> wait = converter.WaitOf(job, services_.queue.PlaceOf(job));
    const std::string message = wait.has_value() ? wait->message : std::string();
    if (message == sent.message) continue;
    sent.message = message;
    AddBytes(response->kJobsFieldNumber, converter.ToBytes(*sent.row, wait), response);
  }
}

}  // namespace nerf
