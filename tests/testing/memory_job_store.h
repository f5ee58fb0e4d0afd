#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/mutex.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/state/job_store.h"

namespace nerf {

// An in-memory store with the contract of job_store.h. Passing the same object to a second
// QueueState simulates a restart. `before_commit` injects faults. Thread-safe.
class MemoryJobStore final : public JobStore {
 public:
  // Called before every commit with its number, from 1. If it returns an error, so does the commit,
  // and nothing is stored.
  std::function<absl::Status(int)> before_commit;

  absl::StatusOr<StoredState> Load() override {
    MutexLock lock(mu_);
    StoredState stored;
    stored.store_epoch = store_epoch_;
    stored.token_secret = "secret of " + store_epoch_;
    stored.age = age_;
    for (const auto& [key, job] : jobs_) LeaveFilesInStore(&stored.jobs.emplace_back(job));
    for (const auto& [key, event] : events_) stored.events.emplace_back(key.first, event);
    for (const auto& [key, scene] : scenes_) stored.scenes.push_back(scene);
    for (const auto& [key, model] : models_) stored.models.push_back(model);
    for (const auto& [key, request] : requests_) stored.requests.push_back(request);
    for (const auto& [name, project] : projects_) stored.projects.push_back(project);
    stored.drained_workers.assign(drained_workers_.begin(), drained_workers_.end());
    for (const auto& [key, upload] : uploads_) stored.uploads.push_back(upload);
    return stored;
  }

  absl::StatusOr<std::optional<Job>> LoadJob(const ResourceKey& job) override {
    MutexLock lock(mu_);
    const auto found = jobs_.find(job);
    return found == jobs_.end() ? std::nullopt : std::optional(found->second);
  }

  absl::StatusOr<TrainingCurve> LoadCurve(const ResourceKey& job) override {
    MutexLock lock(mu_);
    const auto found = curves_.find(job);
    return found == curves_.end() ? TrainingCurve() : found->second;
  }

  absl::Status Commit(const StoreWrite& write) override {
    MutexLock lock(mu_);
    ++n_commits_;
    if (before_commit) {
      if (absl::Status status = before_commit(n_commits_); !status.ok()) return status;
    }
    for (const JobWrite& job : write.jobs) {
      const auto found = jobs_.find(job.job.key);
      if (!job.expected_epoch.has_value()) {
        if (found != jobs_.end()) return absl::AlreadyExistsError("job");
      } else if (found == jobs_.end() || found->second.lease.epoch != *job.expected_epoch) {
        return StaleEpochError(
            job, found == jobs_.end() ? "none" : std::to_string(found->second.lease.epoch));
      }
    }
    for (const JobWrite& job : write.jobs) jobs_[job.job.key] = job.job;
    for (const auto& [key, event] : write.events) events_[{key, event.sequence}] = event;
    for (const auto& [key, sequence] : write.trimmed_events) {
      std::erase_if(events_, [&, &key = key, sequence = sequence](const auto& item) {
        return item.first.first == key && item.first.second <= sequence;
      });
    }
    for (const auto& [key, curve] : write.curves) curves_[key] = curve;
    for (const ResourceKey& key : write.deleted_jobs) {
      jobs_.erase(key);
      curves_.erase(key);
    }
    for (const SceneRecord& scene : write.new_scenes) scenes_[scene.key] = scene;
    for (const ResourceKey& key : write.deleted_scenes) scenes_.erase(key);
    for (const ModelRecord& model : write.models) models_[model.key] = model;
    for (const ResourceKey& key : write.deleted_models) models_.erase(key);
    for (const RequestRecord& request : write.new_requests) {
      requests_[{request.project, request.request_id}] = request;
    }
    if (write.age.has_value()) age_ = write.age;
    if (write.forget_requests_before.has_value()) {
      std::erase_if(requests_, [&](const auto& item) {
        return item.second.create_time < *write.forget_requests_before;
      });
    }
    for (const auto& [project, before] : write.forget_requests_of) {
      std::erase_if(requests_, [&, &project = project, before = before](const auto& item) {
        return item.first.first == project && item.second.create_time < before;
      });
    }
    for (const ProjectRecord& project : write.projects) projects_[project.project] = project;
    for (const auto& [worker, drained] : write.drained_workers) {
      if (drained) {
        drained_workers_.insert(worker);
      } else {
        drained_workers_.erase(worker);
      }
    }
    for (const UploadRecord& upload : write.uploads) {
      uploads_[{upload.project, upload.blob.sha256}] = upload;
    }
    for (const auto& key : write.deleted_uploads) uploads_.erase(key);
    return absl::OkStatus();
  }

  int n_commits() const {
    MutexLock lock(mu_);
    return n_commits_;
  }
  void set_store_epoch(std::string epoch) {
    MutexLock lock(mu_);
    store_epoch_ = std::move(epoch);
  }

 private:
  mutable Mutex mu_;
  int n_commits_ ABSL_GUARDED_BY(mu_) = 0;
  std::string store_epoch_ ABSL_GUARDED_BY(mu_) = "epoch-1";
  std::optional<absl::Time> age_ ABSL_GUARDED_BY(mu_);
  std::map<ResourceKey, Job> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<ResourceKey, uint64_t>, JobEvent> events_ ABSL_GUARDED_BY(mu_);
  std::map<ResourceKey, TrainingCurve> curves_ ABSL_GUARDED_BY(mu_);
  std::map<ResourceKey, SceneRecord> scenes_ ABSL_GUARDED_BY(mu_);
  std::map<ResourceKey, ModelRecord> models_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<std::string, std::string>, RequestRecord> requests_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, ProjectRecord> projects_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> drained_workers_ ABSL_GUARDED_BY(mu_);
  std::map<std::pair<std::string, std::string>, UploadRecord> uploads_ ABSL_GUARDED_BY(mu_);
};

// Has every blob except those that a test lists as missing.
class FakeBlobIndex final : public BlobIndex {
 public:
  std::set<std::string> missing;   // sha256
  std::set<std::string> released;  // sha256

  std::vector<BlobRef> FindMissing(std::span<const BlobRef> blobs) override {
    std::vector<BlobRef> result;
    for (const BlobRef& blob : blobs) {
      if (missing.contains(blob.sha256)) result.push_back(blob);
    }
    return result;
  }
  void Release(const BlobRef& blob) override { released.insert(blob.sha256); }
};

}  // namespace nerf
