#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/messages/training_config.h"
#include "server/queue/jobs/job.h"
#include "server/queue/jobs/start_choice.h"
#include "server/queue/resources/request_check.h"

namespace nerf {

// A training that goes on from the last checkpoint of one that has ended, to a larger budget.
struct Extension {
  std::string of;     // id of that job; empty: no extension
  BudgetWords total;  // what `of` trained counts
};

// A part of a training that is shared out among jobs (part_jobs.h).
struct PartSpec {
  v1::TrainingConfig config;
  std::string retry_of;                    // id of the part that this one retries; or empty
  std::optional<CheckpointRecord> resume;  // that it goes on from
};

// A job that a client requests. The caller has checked the config of a training
// (engine/base/config); the queue checks names and other resources (scene, init).
struct JobSpec {
  std::string project;
  std::string id;          // empty: the queue draws one ("j-7f3k2c81")
  std::string request_id;  // empty, or a UUID4
  v1::CallOrigin origin = {};
  std::string display_name;
  int priority = 0;
  JobLabels labels;
  // Deadlines of its first placement and of its end, by the wall clock.
  absl::Time start_by = absl::InfiniteFuture();
  absl::Time end_by = absl::InfiniteFuture();
  // Id of a job that failed or was cancelled. The new job takes display name, priority, labels,
  // crop and training from it, and starts from its last checkpoint. Empty: no retry.
  std::string retry_of;
  // Takes the same from a job that it extends, and gives the training the new budget.
  Extension extension = {};
  // The job that it retries or extends; empty without one.
  const std::string& EarlierJob() const { return retry_of.empty() ? extension.of : retry_of; }
  v1::CropBox crop = {};  // Create sets it
  JobKind kind = kDefaultJobKind;
  ModelSource model;          // of kinds kRender and kExport
  v1::RenderSpec render;      // of kind kRender, with defaults filled in
  PoseSpec pose;              // of kind kPose
  v1::ExportSpec exporting;   // of kind kExport, with defaults filled in
  double expected_bytes = 0;  // of its file, by the model; 0: not known
  TrainingSpec training;      // the blob of `init` is filled in by the queue
  // Parts that jobs of their own train, at most training.workers.max at a time; the job merges
  // them. Empty: it is not shared out.
  std::vector<PartSpec> parts = {};
  // OK if the tensors of the file that `init` names fit the config. Unset: always OK. Called with
  // the queue's lock held.
  std::function<absl::Status(const std::vector<TensorRecord>& tensors)> check_init;
  // Chooses what `init` of kind kAuto stands for; required with it. Without `init`, chooses among
  // the models of the scene that the job's continues. Called with the queue's lock held.
  StartChooser choose_start;
};

// Checks what the requests for all kinds of jobs have: id, request id, display name, priority and
// labels.
void CheckJobNames(const JobSpec& spec, RequestCheck& check);

// Begins the fingerprint of a request for a job with what all kinds have.
Fingerprint FingerprintOfNames(std::string_view kind, const JobSpec& spec);

}  // namespace nerf
