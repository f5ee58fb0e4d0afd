#include "server/metrics/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <vector>

#include "common/mutex.h"
#include "server/metrics/label_cap.h"

namespace nerf {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

// There is one queue and one priority so far; dashboards already use the labels.
const prometheus::Labels kQueueOnly = {{"queue", "default"}};
const prometheus::Labels kQueueLabels = {{"queue", "default"}, {"priority_class", "normal"}};
constexpr const char* kJobStates[] = {"QUEUED",     "PREPARING", "RUNNING", "PAUSING",  "PAUSED",
                                      "CANCELLING", "SUCCEEDED", "FAILED",  "CANCELLED"};
constexpr const char* kPoseJobStates[] = {"QUEUED",    "PREPARING", "RUNNING",  "CANCELLING",
                                          "SUCCEEDED", "FAILED",    "CANCELLED"};
constexpr const char* kAttemptResults[] = {
    "completed", "lease_expired", "drained", "preempted",          "engine_crash",
    "failed",    "cancelled",     "no_room", "checkpoint_corrupt", "blobs_missing"};
// Counters that alerts read start at 0: rate() does not see the event with which a series appears.
constexpr const char* kFailureReasons[] = {"DATASET_INVALID", "ENGINE_CRASHED", "INIT_INVALID",
                                           "OUT_OF_MEMORY", "TRAINING_DIVERGED"};
constexpr const char* kAuthReasons[] = {"TOKEN_MISSING", "TOKEN_INVALID", "TOKEN_EXPIRED",
                                        "ACCESS_DENIED", "WORKER_KEY_MISMATCH"};
constexpr const char* kWorkerStates[] = {"idle", "busy", "draining", "lost", "unhealthy"};

const Histogram::BucketBoundaries kCommitSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                    0.05,   0.1,   0.25,   0.5,   1,    2.5};
const Histogram::BucketBoundaries kStepSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                  0.1,    0.25,  0.5,    1,     2.5,  5,     10};
const Histogram::BucketBoundaries kQueueSeconds = {
    1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400};
const Histogram::BucketBoundaries kMatchesPerSecond = {1e3, 3e3, 1e4, 3e4, 1e5, 3e5,
                                                       1e6, 3e6, 1e7, 3e7, 1e8};
const Histogram::BucketBoundaries kWatchSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                   0.25,  0.5,    1,     2.5,  5,     10};
const Histogram::BucketBoundaries kRenderSeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

Family<Counter>& NewCounter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& NewGauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
Family<Histogram>& NewHistogram(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// Counters accept only finite amounts above 0.
double Amount(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

}  // namespace

struct ServerMetrics::Families {
  // Over 80 lines because each family has its line here and below.
  explicit Families(Registry& r)
      : build_info(NewGauge(r, "nerfd_build_info", "Always 1; the labels say what was built.")),
        jobs(NewGauge(r, "nerfd_jobs", "Jobs of all kinds in the store, by state.")),
        jobs_created(NewCounter(r, "nerfd_jobs_created_total", "Jobs accepted.")),
        jobs_finished(
            NewCounter(r, "nerfd_jobs_finished_total", "Jobs that reached a final state.")),
        pose_jobs(NewGauge(r, "nerfd_pose_jobs", "Pose jobs in the store, by state.")),
        job_seconds(NewHistogram(r, "nerfd_job_duration_seconds",
                                 "Time from a job's start on a worker to its end.")),
        pose_matches(NewHistogram(r, "nerfd_pose_matches_per_second",
                                  "Features that an ended pose job looked up per second.")),
        queue_jobs(NewGauge(r, "nerfd_queue_jobs", "Jobs that wait for a worker.")),
        queue_oldest_age(NewGauge(r, "nerfd_queue_oldest_job_age_seconds",
                                  "Time since the job that waits longest was queued.")),
        queue_seconds(NewHistogram(r, "nerfd_job_queue_duration_seconds",
                                   "Time that jobs waited before a worker took them.")),
        attempts(NewCounter(r, "nerfd_job_attempts_total",
                            "Ended placements of jobs on workers, by result.")),
        leases(NewGauge(r, "nerfd_leases", "Leases that workers hold.")),
        lease_expirations(NewCounter(r, "nerfd_lease_expirations_total",
                                     "Leases that expired without a renewal.")),
        fenced_writes(NewCounter(r, "nerfd_lease_fenced_writes_total",
                                 "Writes of workers refused because their lease was stale.")),
        workers(NewGauge(r, "nerfd_workers", "Workers that this server knows, by state.")),
        watchers(NewGauge(r, "nerfd_watchers", "Open watch streams.")),
        watchers_evicted(NewCounter(r, "nerfd_watchers_evicted_total",
                                    "Watches ended because their readers stood still.")),
        watch_delay(NewHistogram(r, "nerfd_watch_event_delay_seconds",
                                 "Time from a job's event to a reader that waited for it.")),
        watch_gaps(
            NewCounter(r, "nerfd_watch_gaps_total", "Watches that could not be told every event.")),
        auth_failures(NewCounter(r, "nerfd_auth_failures_total",
                                 "Calls refused for their token or rights, by reason.")),
        certificate_expiry(NewGauge(r, "nerfd_tls_certificate_expiry_timestamp_seconds",
                                    "Unix time at which the server's certificate expires.")),
        store_read_only(NewGauge(r, "nerfd_store_read_only",
                                 "1 while the store refuses writes: the disk is full or failed.")),
        leads(NewGauge(r, "nerfd_leader", "1 while this replica, or the only nerfd, leads.")),
        leader_term(NewGauge(r, "nerfd_leader_term", "Last term that this replica knows of.")),
        commit_seconds(NewHistogram(r, "nerfd_store_commit_duration_seconds",
                                    "Time of a transaction of the store, sync included.")),
        store_errors(NewCounter(r, "nerfd_store_errors_total",
                                "Operations of the store that failed, by operation.")),
        blob_size(NewGauge(r, "nerfd_blob_store_size_bytes", "Size of all blobs.")),
        blob_free(NewGauge(r, "nerfd_blob_store_free_bytes", "Space left for blobs.")),
        blob_received(NewCounter(r, "nerfd_blob_received_bytes_total", "Bytes of blobs received.")),
        blob_sent(NewCounter(r, "nerfd_blob_sent_bytes_total", "Bytes of blobs sent.")),
        upload_failures(
            NewCounter(r, "nerfd_blob_upload_failures_total", "Uploads that ended in an error.")),
        blobs_damaged(NewCounter(r, "nerfd_blob_damaged_total", "Stored blobs found damaged.")),
        train_steps(NewCounter(r, "nerfd_train_steps_total", "Training steps done by workers.")),
        train_rays(NewCounter(r, "nerfd_train_rays_total", "Rays trained on by workers.")),
        step_seconds(NewHistogram(r, "nerfd_train_step_duration_seconds",
                                  "Time of a training step, averaged over a second.")),
        train_loss(NewGauge(r, "nerfd_train_loss", "Training loss in the last report.")),
        train_psnr(
            NewGauge(r, "nerfd_train_psnr_decibels", "PSNR of training rays in the last report.")),
        train_last_step(NewGauge(r, "nerfd_train_last_step_timestamp_seconds",
                                 "Unix time of the last report of training steps.")),
        checkpoint_time(NewGauge(r, "nerfd_checkpoint_last_success_timestamp_seconds",
                                 "Unix time of the last checkpoint, else of the first step.")),
        train_stall(NewGauge(r, "nerfd_train_stall_ratio",
                             "Share of training time in which steps waited for their rays.")),
        gpu_utilization(NewGauge(r, "nerfd_gpu_utilization_ratio",
                                 "Share of the time in which the GPU was busy.")),
        gpu_memory_used(NewGauge(r, "nerfd_gpu_memory_used_bytes",
                                 "Memory of the GPU in use, by all processes.")),
        gpu_memory_size(NewGauge(r, "nerfd_gpu_memory_size_bytes", "Memory of the GPU.")),
        gpu_temperature(NewGauge(r, "nerfd_gpu_temperature_celsius", "Temperature of the GPU.")),
        gpu_power(NewGauge(r, "nerfd_gpu_power_watts", "Power that the GPU draws.")),
        render_requests(NewCounter(r, "nerfd_render_requests_total", "Renders, by result.")),
        render_seconds(NewHistogram(r, "nerfd_render_duration_seconds",
                                    "Time from a render's request to its reply.")) {
    projects.Cap("default");  // keeps a place under the cap
    queue_jobs.Add(kQueueLabels);
    queue_oldest_age.Add(kQueueLabels);
    for (const char* result : kAttemptResults) attempts.Add({{"result", result}});
    for (const char* state : kWorkerStates) workers.Add({{"state", state}});
    for (const char* state : kJobStates) jobs.Add({{"state", state}, {"project", "default"}});
    jobs_created.Add({{"project", "default"}});
    for (const char* result : {"succeeded", "failed", "cancelled"}) {
      jobs_finished.Add({{"project", "default"}, {"result", result}, {"reason", ""}});
    }
    for (const char* state : kPoseJobStates) pose_jobs.Add({{"state", state}});
    for (const char* result : {"succeeded", "failed", "cancelled"}) {
      for (const char* kind : {"training", "render", "pose", "export"}) {
        job_seconds.Add({{"kind", kind}, {"result", result}}, kQueueSeconds);
      }
    }
    pose_matches.Add({}, kMatchesPerSecond);
    for (const char* reason : kFailureReasons) {
      jobs_finished.Add(
          {{"project", "default"}, {"result", "failed"}, {"reason", reasons.Cap(reason)}});
    }
    queue_seconds.Add(kQueueOnly, kQueueSeconds);
    watch_delay.Add({}, kWatchSeconds);
    for (const char* kind : {"live", "resumed"}) watch_gaps.Add({{"kind", kind}});
    for (const char* reason : kAuthReasons) auth_failures.Add({{"reason", reasons.Cap(reason)}});
    leases.Add({});
    lease_expirations.Add({});
    fenced_writes.Add({{"rpc", "Synchronize"}});
    fenced_writes.Add({{"rpc", "CommitCheckpoint"}});
    watchers.Add({{"kind", "job"}});
    watchers_evicted.Add({});
    store_read_only.Add({});
    leads.Add({});
    leader_term.Add({});
    commit = &commit_seconds.Add({}, kCommitSeconds);
    commit_errors = &store_errors.Add({{"op", "commit"}});
    blob_size.Add({});
    blob_free.Add({});
    received = &blob_received.Add({});
    sent = &blob_sent.Add({});
    upload_failures.Add({{"reason", "FIELD_INVALID"}});
    blobs_damaged.Add({});
    train_steps.Add({{"device", "cpu"}});
    train_rays.Add({{"device", "cpu"}});
    step_seconds.Add({{"device", "cpu"}}, kStepSeconds);
    for (const char* result : {"ok", "NO_WORKER", "WORKER_LOST", "OUT_OF_MEMORY"}) {
      render_requests.Add({{"kind", "image"}, {"result", result}});
    }
    render_seconds.Add({{"kind", "image"}}, kRenderSeconds);
  }

  Family<Gauge>& build_info;
  Family<Gauge>& jobs;
  Family<Counter>& jobs_created;
  Family<Counter>& jobs_finished;
  Family<Gauge>& pose_jobs;
  Family<Histogram>& job_seconds;
  Family<Histogram>& pose_matches;
  Family<Gauge>& queue_jobs;
  Family<Gauge>& queue_oldest_age;
  Family<Histogram>& queue_seconds;
  Family<Counter>& attempts;
  Family<Gauge>& leases;
  Family<Counter>& lease_expirations;
  Family<Counter>& fenced_writes;
  Family<Gauge>& workers;
  Family<Gauge>& watchers;
  Family<Counter>& watchers_evicted;
  Family<Histogram>& watch_delay;
  Family<Counter>& watch_gaps;
  Family<Counter>& auth_failures;
  Family<Gauge>& certificate_expiry;
  Family<Gauge>& store_read_only;
  Family<Gauge>& leads;
  Family<Gauge>& leader_term;
  Family<Histogram>& commit_seconds;
  Family<Counter>& store_errors;
  Family<Gauge>& blob_size;
  Family<Gauge>& blob_free;
  Family<Counter>& blob_received;
  Family<Counter>& blob_sent;
  Family<Counter>& upload_failures;
  Family<Counter>& blobs_damaged;
  Family<Counter>& train_steps;
  Family<Counter>& train_rays;
  Family<Histogram>& step_seconds;
  Family<Gauge>& train_loss;
  Family<Gauge>& train_psnr;
  Family<Gauge>& train_last_step;
  Family<Gauge>& checkpoint_time;
  Family<Gauge>& train_stall;
  Family<Gauge>& gpu_utilization;
  Family<Gauge>& gpu_memory_used;
  Family<Gauge>& gpu_memory_size;
  Family<Gauge>& gpu_temperature;
  Family<Gauge>& gpu_power;
  Family<Counter>& render_requests;
  Family<Histogram>& render_seconds;

  Histogram* commit = nullptr;
  Counter* commit_errors = nullptr;
  Counter* received = nullptr;
  Counter* sent = nullptr;

  prometheus::Labels WorkerLabels(std::string_view worker, const char* device_label,
                                  std::string_view device) {
    return {{"worker", worker_names.Cap(worker)}, {device_label, devices.Cap(device)}};
  }

  LabelCap projects, reasons, devices, worker_names;
  Mutex worker_mu;  // setting and removing a worker's gauges exclude each other
  Mutex mu;
  std::set<std::string> projects_seen ABSL_GUARDED_BY(mu) = {"default"};
};

ServerMetrics::ServerMetrics(const BuildInfo& build)
    : registry_(std::make_shared<Registry>()), families_(std::make_unique<Families>(*registry_)) {
  families_->build_info
      .Add({{"version", build.version},
            {"revision", build.revision},
            {"cuda", build.cuda},
            {"grpc", build.grpc}})
      .Set(1);
}

ServerMetrics::~ServerMetrics() = default;

std::shared_ptr<prometheus::Collectable> ServerMetrics::collectable() const { return registry_; }

void ServerMetrics::JobCreated(std::string_view project) {
  families_->jobs_created.Add({{"project", families_->projects.Cap(project)}}).Increment();
}

void ServerMetrics::JobFinished(std::string_view project, std::string_view result,
                                std::string_view reason) {
  families_->jobs_finished
      .Add({{"project", families_->projects.Cap(project)},
            {"result", std::string(result)},
            {"reason", families_->reasons.Cap(reason)}})
      .Increment();
}

void ServerMetrics::JobRan(std::string_view kind, std::string_view result, double seconds) {
  families_->job_seconds
      .Add({{"kind", std::string(kind)}, {"result", std::string(result)}}, kQueueSeconds)
      .Observe(Amount(seconds));
}

void ServerMetrics::PosesMatched(double matches_per_second) {
  if (Amount(matches_per_second) > 0) {
    families_->pose_matches.Add({}, kMatchesPerSecond).Observe(matches_per_second);
  }
}

void ServerMetrics::AttemptEnded(std::string_view result) {
  families_->attempts.Add({{"result", std::string(result)}}).Increment();
}

void ServerMetrics::JobLeftQueue(double seconds) {
  families_->queue_seconds.Add(kQueueOnly, kQueueSeconds).Observe(Amount(seconds));
}

void ServerMetrics::WatchEventTaken(double delay_seconds) {
  families_->watch_delay.Add({}, kWatchSeconds).Observe(Amount(delay_seconds));
}

void ServerMetrics::WatchGap(std::string_view kind) {
  families_->watch_gaps.Add({{"kind", std::string(kind)}}).Increment();
}

void ServerMetrics::AuthFailed(std::string_view reason) {
  families_->auth_failures.Add({{"reason", families_->reasons.Cap(reason)}}).Increment();
}

void ServerMetrics::SetCertificateExpiry(double unix_seconds) {
  families_->certificate_expiry.Add({}).Set(unix_seconds);
}

void ServerMetrics::LeaseExpired() { families_->lease_expirations.Add({}).Increment(); }

void ServerMetrics::WriteFenced(std::string_view rpc) {
  families_->fenced_writes.Add({{"rpc", std::string(rpc)}}).Increment();
}

void ServerMetrics::StoreCommitted(double seconds) { families_->commit->Observe(Amount(seconds)); }
void ServerMetrics::StoreCommitFailed() { families_->commit_errors->Increment(); }

void ServerMetrics::SetJobs(const std::map<std::pair<std::string, std::string>, size_t>& jobs) {
  // Projects beyond the cap share a series, so sum up before setting.
  std::map<std::pair<std::string, std::string>, size_t> sums;
  MutexLock lock(families_->mu);
  for (const auto& [key, count] : jobs) {
    const std::string project = families_->projects.Cap(key.first);
    families_->projects_seen.insert(project);
    sums[{project, key.second}] += count;
  }
  for (const std::string& project : families_->projects_seen) {
    for (const char* state : kJobStates) {
      const auto found = sums.find({project, state});
      families_->jobs.Add({{"state", state}, {"project", project}})
          .Set(found == sums.end() ? 0 : static_cast<double>(found->second));
    }
  }
}

void ServerMetrics::SetPoseJobs(const std::map<std::string, size_t>& by_state) {
  for (const char* state : kPoseJobStates) {
    const auto found = by_state.find(state);
    families_->pose_jobs.Add({{"state", state}})
        .Set(found == by_state.end() ? 0 : static_cast<double>(found->second));
  }
}

void ServerMetrics::SetQueue(size_t n_queued, double oldest_age_seconds) {
  families_->queue_jobs.Add(kQueueLabels).Set(static_cast<double>(n_queued));
  families_->queue_oldest_age.Add(kQueueLabels).Set(oldest_age_seconds);
}

void ServerMetrics::SetLeases(size_t n_leases) {
  families_->leases.Add({}).Set(static_cast<double>(n_leases));
}

void ServerMetrics::SetWorkers(const std::map<std::string, size_t>& by_state) {
  for (const char* state : kWorkerStates) {
    const auto found = by_state.find(state);
    families_->workers.Add({{"state", state}})
        .Set(found == by_state.end() ? 0 : static_cast<double>(found->second));
  }
}

void ServerMetrics::SetStoreReadOnly(bool read_only) {
  families_->store_read_only.Add({}).Set(read_only ? 1 : 0);
}

void ServerMetrics::SetLeader(bool leads, uint64_t term) {
  families_->leads.Add({}).Set(leads ? 1 : 0);
  families_->leader_term.Add({}).Set(static_cast<double>(term));
}

void ServerMetrics::WatcherEvicted() { families_->watchers_evicted.Add({}).Increment(); }

void ServerMetrics::SetWatchers(size_t n_watchers) {
  families_->watchers.Add({{"kind", "job"}}).Set(static_cast<double>(n_watchers));
}

void ServerMetrics::SetBlobStore(uint64_t byte_size, uint64_t free_bytes) {
  families_->blob_size.Add({}).Set(static_cast<double>(byte_size));
  families_->blob_free.Add({}).Set(static_cast<double>(free_bytes));
}

void ServerMetrics::BlobReceived(size_t bytes) {
  families_->received->Increment(static_cast<double>(bytes));
}
void ServerMetrics::BlobSent(size_t bytes) {
  families_->sent->Increment(static_cast<double>(bytes));
}
void ServerMetrics::BlobUploadFailed(std::string_view reason) {
  families_->upload_failures.Add({{"reason", families_->reasons.Cap(reason)}}).Increment();
}

void ServerMetrics::BlobDamaged() { families_->blobs_damaged.Add({}).Increment(); }

void ServerMetrics::TrainReported(std::string_view worker, std::string_view device,
                                  const TrainReport& report) {
  const prometheus::Labels labels = {{"device", families_->devices.Cap(device)}};
  families_->train_rays.Add(labels).Increment(Amount(report.rays));
  if (!(Amount(report.steps) > 0)) return;
  families_->train_steps.Add(labels).Increment(report.steps);
  if (Amount(report.step_seconds) > 0) {
    // A worker sends the mean of many steps; all of these steps count in the mean's bucket.
    std::vector<double> increments(kStepSeconds.size() + 1, 0);
    const auto bucket =
        std::lower_bound(kStepSeconds.begin(), kStepSeconds.end(), report.step_seconds);
    increments[static_cast<size_t>(bucket - kStepSeconds.begin())] = report.steps;
    families_->step_seconds.Add(labels, kStepSeconds)
        .ObserveMultiple(increments, report.steps * report.step_seconds);
  }
  // Counters are summed over workers. Gauges are per worker: a shared one would show the last
  // report.
  MutexLock lock(families_->worker_mu);
  const prometheus::Labels own = families_->WorkerLabels(worker, "device", device);
  families_->train_loss.Add(own).Set(report.loss);
  families_->train_psnr.Add(own).Set(report.psnr);
  families_->train_last_step.Add(own).Set(report.unix_now);
  if (report.commits && !families_->checkpoint_time.Has(own)) {
    families_->checkpoint_time.Add(own).Set(report.unix_now);
  }
  if (report.stall_fraction.has_value())
    families_->train_stall.Add(own).Set(*report.stall_fraction);
}

void ServerMetrics::CheckpointCommitted(std::string_view worker, std::string_view device,
                                        double unix_now) {
  MutexLock lock(families_->worker_mu);
  const prometheus::Labels own = families_->WorkerLabels(worker, "device", device);
  if (families_->checkpoint_time.Has(own)) families_->checkpoint_time.Add(own).Set(unix_now);
}

void ServerMetrics::GpuReported(std::string_view worker, std::string_view device,
                                const GpuReadings& readings) {
  MutexLock lock(families_->worker_mu);
  const prometheus::Labels labels = families_->WorkerLabels(worker, "gpu", device);
  const auto set = [&](Family<Gauge>& family, std::optional<double> value) {
    if (value.has_value()) family.Add(labels).Set(*value);
  };
  set(families_->gpu_utilization, readings.utilization);
  set(families_->gpu_memory_used, readings.memory_used_bytes);
  set(families_->gpu_memory_size, readings.memory_size_bytes);
  set(families_->gpu_temperature, readings.temperature_celsius);
  set(families_->gpu_power, readings.power_watts);
}

void ServerMetrics::WorkerIsSilent(std::string_view worker, std::string_view device) {
  MutexLock lock(families_->worker_mu);
  const auto remove = [](const prometheus::Labels& labels,
                         std::initializer_list<Family<Gauge>*> gauges) {
    for (Family<Gauge>* family : gauges) {
      if (family->Has(labels)) family->Remove(&family->Add(labels));
    }
  };
  const prometheus::Labels training = families_->WorkerLabels(worker, "device", device);
  if (training.at("worker") != worker) return;  // shares "other", whose workers may still train
  remove(training, {&families_->train_loss, &families_->train_psnr, &families_->train_last_step,
                    &families_->train_stall, &families_->checkpoint_time});
  remove(families_->WorkerLabels(worker, "gpu", device),
         {&families_->gpu_utilization, &families_->gpu_memory_used, &families_->gpu_memory_size,
          &families_->gpu_temperature, &families_->gpu_power});
  families_->worker_names.Release(worker);
}

void ServerMetrics::RenderFinished(std::string_view kind, std::string_view result, double seconds) {
  families_->render_requests
      .Add({{"kind", std::string(kind)}, {"result", families_->reasons.Cap(result)}})
      .Increment();
  families_->render_seconds.Add({{"kind", std::string(kind)}}, kRenderSeconds)
      .Observe(Amount(seconds));
}

}  // namespace nerf
