#include "server/queue/model_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "server/queue/request_check.h"
#include "server/queue/resource_error.h"

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

}  // namespace

absl::StatusOr<ModelRecord> ModelCatalog::Promote(const ModelSpec& spec) {
  NERF_RETURN_IF_ERROR(CheckSpec(spec));
  MutexLock lock(state_.mu);
  ModelRecord model;
  model.create_time = state_.clock.WallNow();
  RequestRecord request{RequestRecord::Kind::kModel, spec.project,     spec.request_id, "",
                        FingerprintOf(spec),         model.create_time};
  NERF_ASSIGN_OR_RETURN(const auto earlier, state_.FindRequest(request));
  if (earlier.has_value()) {
    const auto found = state_.models.find({spec.project, *earlier});
    if (found == state_.models.end()) return ResourceNotFound(ModelName({spec.project, *earlier}));
    return found->second;
  }

  const ResourceKey& job_key = spec.checkpoint.job;
  const auto job_entry = state_.jobs.find(job_key);
  if (job_entry == state_.jobs.end()) return ResourceNotFound(JobName(job_key));
  Job changed = job_entry->second.job;
  auto checkpoint = changed.checkpoints.end();
  if (spec.checkpoint.step.has_value()) {
    checkpoint = std::find_if(changed.checkpoints.begin(), changed.checkpoints.end(),
                              [&](const auto& c) { return c.step == *spec.checkpoint.step; });
  } else if (!changed.checkpoints.empty()) {
    checkpoint = std::prev(changed.checkpoints.end());
  }
  if (checkpoint == changed.checkpoints.end()) {
    if (!spec.checkpoint.step.has_value()) return NoCheckpoint(JobName(job_key));
    return ResourceNotFound(CheckpointName(job_key, *spec.checkpoint.step));
  }

  model.key = {spec.project, spec.id};
  if (!spec.id.empty() && state_.models.contains(model.key)) {
    return ResourceExists(ModelName(model.key));
  }
  while (model.key.id.empty() || (spec.id.empty() && state_.models.contains(model.key))) {
    model.key.id = NewShortId("m", state_.random);
  }
  model.create_sequence = state_.next_sequence;
  model.display_name = spec.display_name;
  model.request_id = spec.request_id;
  model.job = job_key.id;
  model.step = checkpoint->step;
  model.method = changed.config.method;
  model.blob = checkpoint->model_blob;
  model.preview_psnr = checkpoint->preview_psnr;
  model.tensors = checkpoint->tensors;
  checkpoint->promoted = true;
  request.resource_id = model.key.id;

  StoreWrite write;
  write.new_models.push_back(model);
  write.jobs.push_back({changed, changed.lease.epoch});
  if (!request.request_id.empty()) write.new_requests.push_back(request);
  NERF_RETURN_IF_ERROR(state_.Commit(write));

  ++state_.next_sequence;
  job_entry->second.job = std::move(changed);
  state_.model_order.emplace(model.create_sequence, model.key);
  state_.models.emplace(model.key, model);
  state_.RememberRequest(request);
  LogInfo("checkpoint promoted", {{"project", model.key.project},
                                  {"model", model.key.id},
                                  {"job", model.job},
                                  {"step", model.step}});
  return model;
}

absl::StatusOr<ModelRecord> ModelCatalog::Get(const ResourceKey& key) {
  MutexLock lock(state_.mu);
  const auto found = state_.models.find(key);
  if (found == state_.models.end()) return ResourceNotFound(ModelName(key));
  return found->second;
}

absl::StatusOr<Page<ModelRecord>> ModelCatalog::List(const PageRequest& request) {
  MutexLock lock(state_.mu);
  return ListPage<ModelRecord>("models", request, state_.model_order, state_.models,
                               [](const ModelRecord& model) { return model; });
}

absl::Status ModelCatalog::Delete(const ResourceKey& key) {
  MutexLock lock(state_.mu);
  const auto found = state_.models.find(key);
  if (found == state_.models.end()) return ResourceNotFound(ModelName(key));
  const ModelRecord& model = found->second;
  for (const auto& [job_key, entry] : state_.jobs) {
    const auto& init = entry.job.init;
    if (!IsFinal(entry.job.state) && init.has_value() &&
        init->kind == InitReference::Kind::kModel && init->source == key) {
      return StateConflict(fmt::format("{} is used by {}", ModelName(key), JobName(job_key)));
    }
  }
  // The blob tells a checkpoint from one of a later job that was given the same id.
  const bool is_last_of_checkpoint =
      std::none_of(state_.models.begin(), state_.models.end(), [&](const auto& item) {
        const ModelRecord& other = item.second;
        return other.key != key && other.key.project == key.project && other.job == model.job &&
               other.step == model.step && other.blob == model.blob;
      });
  StoreWrite write;
  write.deleted_models.push_back(key);
  const auto job_entry = state_.jobs.find({key.project, model.job});
  std::optional<Job> changed;
  if (is_last_of_checkpoint && job_entry != state_.jobs.end()) {
    changed = job_entry->second.job;
    for (CheckpointRecord& checkpoint : changed->checkpoints) {
      if (checkpoint.step == model.step && checkpoint.model_blob == model.blob) {
        checkpoint.promoted = false;
      }
    }
    write.jobs.push_back({*changed, changed->lease.epoch});
  }
  NERF_RETURN_IF_ERROR(state_.Commit(write));
  if (changed.has_value()) job_entry->second.job = *std::move(changed);
  state_.blobs.Release(model.blob);
  state_.model_order.erase(model.create_sequence);
  state_.models.erase(found);
  LogInfo("model deleted", {{"project", key.project}, {"model", key.id}});
  return absl::OkStatus();
}

}  // namespace nerf
