#include "server/queue/catalogs/model_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/logging.h"
#include "common/messages/deterministic_bytes.h"
#include "common/status_macros.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_error.h"
#include "server/queue/state/quota.h"

namespace nerf {
namespace {

std::string FingerprintOf(const ModelSpec& spec) {
  const CheckpointKey& checkpoint = spec.checkpoint;
  Fingerprint fingerprint;
  fingerprint.Add("model").Add(spec.id).Add(spec.display_name).Add(checkpoint.job.id);
  fingerprint.Add(checkpoint.step.has_value() ? std::to_string(*checkpoint.step) : "-");
  return fingerprint.Hex();
}

absl::Status CheckSpec(const ModelSpec& spec) {
  RequestCheck check;
  check.RequireId("name", spec.project);
  check.RequireId("model_id", spec.id, /*may_be_empty=*/true);
  check.RequireRequestId("request_id", spec.request_id);
  check.RequireDisplayName("display_name", spec.display_name);
  check.Require(spec.checkpoint.job.project == spec.project, "name",
                "must be a checkpoint of the same project");
  return check.Result();
}

absl::StatusOr<CheckpointRecord*> FindCheckpoint(Job& job, const CheckpointKey& key) {
  if (!key.step.has_value()) {
    if (job.checkpoints.empty()) return NoCheckpoint(JobName(key.job));
    return &job.checkpoints.back();
  }
  for (CheckpointRecord& checkpoint : job.checkpoints) {
    if (checkpoint.step == *key.step) return &checkpoint;
  }
  return ResourceNotFound(CheckpointName(key.job, *key.step));
}

}  // namespace

absl::StatusOr<ModelRecord> ModelCatalog::Promote(const ModelSpec& spec) {
  NERF_RETURN_IF_ERROR(CheckSpec(spec));
  QueueLock lock(state_);
  const ResourceKey& job_key = spec.checkpoint.job;
  const ClaimKey request_key{ClaimKey::Kind::kRequest, {spec.project, spec.request_id}};
  state_.AwaitUnclaimed({request_key,
                         {ClaimKey::Kind::kModel, {spec.project, spec.id}},
                         {ClaimKey::Kind::kJob, job_key}});
  ModelRecord model;
  model.create_time = state_.clock.WallNow();
  RequestRecord request{RequestRecord::Kind::kModel, spec.project, spec.request_id, "",
                        FingerprintOf(spec),         state_.Age()};
  NERF_ASSIGN_OR_RETURN(const auto earlier, state_.requests().Find(request));
  if (earlier.has_value()) {
    const ModelRecord* const found = state_.FindModel({spec.project, *earlier});
    if (found == nullptr) return ResourceNotFound(ModelName({spec.project, *earlier}));
    return *found;
  }
  NERF_ASSIGN_OR_RETURN(JobEntry * entry, state_.FindJob(job_key));
  Job changed = entry->job;
  NERF_ASSIGN_OR_RETURN(CheckpointRecord * checkpoint, FindCheckpoint(changed, spec.checkpoint));

  model.key = {spec.project, spec.id};
  const auto is_taken = [&] {
    state_.mu.AssertHeld();
    return state_.FindModel(model.key) != nullptr ||
           state_.IsClaimed({ClaimKey::Kind::kModel, model.key});
  };
  if (!spec.id.empty() && is_taken()) return ResourceExists(ModelName(model.key));
  while (model.key.id.empty() || (spec.id.empty() && is_taken())) {
    model.key.id = NewShortId("m", state_.random);
  }
  model.display_name = spec.display_name;
  model.request_id = spec.request_id;
  model.job = job_key.id;
  model.step = checkpoint->step;
  model.method = changed.training.config.method();
  model.blob = checkpoint->model_blob;
  model.preview_psnr = checkpoint->preview_psnr;
  model.tensors = checkpoint->tensors;
  model.crop = changed.crop;
  model.create_age = state_.Age();
  NERF_RETURN_IF_ERROR(CheckNewRecord(state_, spec.project, BytesOf(model)));
  model.create_sequence = state_.TakeSequences();
  checkpoint->promoted = true;
  request.resource_id = model.key.id;

  StoreWrite write;
  write.models.push_back(model);
  write.jobs.push_back({changed, changed.lease.epoch});
  std::vector<ClaimKey> claimed = {{ClaimKey::Kind::kModel, model.key},
                                   {ClaimKey::Kind::kJob, job_key}};
  if (!request.request_id.empty()) {
    write.new_requests.push_back(request);
    claimed.push_back(request_key);
  }
  Claim claim(state_, std::move(claimed));
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));

  // Take only the checkpoints: newer progress than that of `changed` may have been reported
  // meanwhile.
  state_.TakeCheckpoints(*entry, std::move(changed.checkpoints));
  state_.AddModel(model);
  state_.requests().Remember(request);
  LogInfo("checkpoint promoted", {{"project", model.key.project},
                                  {"model", model.key.id},
                                  {"job", model.job},
                                  {"step", model.step}});
  return model;
}

absl::StatusOr<ModelRecord> ModelCatalog::Get(const ResourceKey& key) {
  MutexLock lock(state_.mu);
  const ModelRecord* const found = state_.FindModel(key);
  if (found == nullptr) return ResourceNotFound(ModelName(key));
  return *found;
}

absl::StatusOr<ModelRecord> ModelCatalog::SetCrop(const ResourceKey& key, const v1::CropBox& crop) {
  QueueLock lock(state_);
  state_.AwaitUnclaimed({{ClaimKey::Kind::kModel, key}});
  const ModelRecord* const found = state_.FindModel(key);
  if (found == nullptr) return ResourceNotFound(ModelName(key));
  ModelRecord changed = *found;
  if (AreEqual(changed.crop, crop)) return changed;
  changed.crop = crop;
  StoreWrite write;
  write.models.push_back(changed);
  Claim claim(state_, {{ClaimKey::Kind::kModel, key}});
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  state_.ReplaceModel(changed);
  return changed;
}

absl::StatusOr<Page<ModelRecord>> ModelCatalog::List(const PageRequest& request) {
  MutexLock lock(state_.mu);
  return ListPage<ModelRecord>(*state_.token_sealer, "models", request, state_.model_order(),
                               state_.models(), [](const ModelRecord& model) { return model; });
}

absl::Status ModelCatalog::CheckUnused(const ResourceKey& key) const {
  const auto uses = [&](const Job& job) {
    const auto& init = job.training.init;
    return !IsFinal(job.state) && init.has_value() && init->kind == InitReference::Kind::kModel &&
           init->source == key;
  };
  if (const Job* const job = state_.AnyJobThat(uses)) {
    return StateConflict(fmt::format("{} is used by {}", ModelName(key), JobName(job->key)));
  }
  return absl::OkStatus();
}

absl::Status ModelCatalog::Delete(const ResourceKey& key) {
  QueueLock lock(state_);
  const ClaimKey model_key{ClaimKey::Kind::kModel, key};
  state_.AwaitUnclaimed({model_key});
  const ModelRecord* found = state_.FindModel(key);
  if (found == nullptr) return ResourceNotFound(ModelName(key));
  // The model's checkpoint is changed, too.
  const ClaimKey job_key{ClaimKey::Kind::kJob, {key.project, found->job}};
  state_.AwaitUnclaimed({model_key, job_key});
  found = state_.FindModel(key);
  if (found == nullptr) return ResourceNotFound(ModelName(key));
  NERF_RETURN_IF_ERROR(CheckUnused(key));
  const ModelRecord& model = *found;
  // The blob distinguishes a checkpoint from one of a later job with the same id.
  const bool is_last_of_checkpoint =
      std::none_of(state_.models().begin(), state_.models().end(), [&](const auto& item) {
        const ModelRecord& other = item.second;
        return other.key != key && other.key.project == key.project && other.job == model.job &&
               other.step == model.step && other.blob == model.blob;
      });
  StoreWrite write;
  write.deleted_models.push_back(key);
  JobEntry* const job_entry = state_.FindEntry({key.project, model.job});
  std::optional<Job> changed;
  if (is_last_of_checkpoint && job_entry != nullptr) {
    changed = job_entry->job;
    for (CheckpointRecord& checkpoint : changed->checkpoints) {
      if (checkpoint.step == model.step && checkpoint.model_blob == model.blob) {
        checkpoint.promoted = false;
      }
    }
    write.jobs.push_back({*changed, changed->lease.epoch});
  }
  Claim claim(state_, {model_key, job_key});
  NERF_RETURN_IF_ERROR(state_.Commit(std::move(write)));
  if (changed.has_value()) {
    state_.TakeCheckpoints(*job_entry, std::move(changed->checkpoints));
  }
  state_.blobs.Release(model.blob);
  state_.RemoveModel(key);
  LogInfo("model deleted", {{"project", key.project}, {"model", key.id}});
  return absl::OkStatus();
}

}  // namespace nerf
