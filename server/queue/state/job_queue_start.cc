#include "server/queue/state/job_queue.h"

#include <algorithm>
#include <deque>

#include "common/status_macros.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/resources/resource_error.h"

// Where a new training starts from.
namespace nerf {
namespace {

// Whether the model was made of a checkpoint of this job, not of an earlier one with the same id.
bool IsOfJob(const ModelRecord& model, const Job& job) {
  return std::any_of(job.checkpoints.begin(), job.checkpoints.end(),
                     [&](const CheckpointRecord& checkpoint) {
                       return checkpoint.step == model.step && checkpoint.model_blob == model.blob;
                     });
}

}  // namespace

void JobQueue::ChooseInit(const JobSpec& spec, TrainingSpec& training) {
  StartQuestion question;
  question.must_continue = !training.init.has_value();
  const auto scene_of = [&](const std::string& id) {
    state_.mu.AssertHeld();
    return state_.FindScene({spec.project, id});
  };
  question.scene = scene_of(training.scene);
  const JobEntry* const poses = state_.FindEntry({spec.project, training.pose_job});
  if (question.scene == nullptr && poses != nullptr) {
    question.scene = scene_of(poses->job.pose.into);
    question.scene_grows = true;
  }
  if (question.must_continue && !MayContinue(question)) return;
  for (auto it = state_.model_order().rbegin();
       it != state_.model_order().rend() && question.candidates.size() < kMaxStartCandidates;
       ++it) {
    const ResourceKey& key = it->second;
    // One that is being deleted may be gone when this job is stored.
    if (key.project != spec.project || state_.IsClaimed({ClaimKey::Kind::kModel, key})) continue;
    StartCandidate candidate{.model = &state_.models().at(key)};
    const JobEntry* const job = state_.FindEntry({spec.project, candidate.model->job});
    if (job != nullptr && IsOfJob(*candidate.model, job->job)) {
      candidate.job = &job->job;
      candidate.scene = scene_of(candidate.job->training.scene);
    }
    question.candidates.push_back(candidate);
  }
  // To continue a scene, what nobody has made a model of will do, too: it names no job.
  std::deque<ModelRecord> unnamed;
  size_t n_seen = 0;
  for (auto it = state_.job_order().rbegin(); it != state_.job_order().rend(); ++it) {
    if (!question.must_continue || question.candidates.size() >= kMaxStartCandidates) break;
    if (++n_seen > kMaxStartJobsSeen) break;
    if (it->second.project != spec.project) continue;
    const Job& job = state_.EntryOf(it->second).job;
    const bool is_trained =
        TraitsOf(job).has_checkpoints && job.part_of.empty() && job.state == JobState::kSucceeded;
    if (!is_trained || job.checkpoints.empty()) continue;
    if (state_.IsClaimed({ClaimKey::Kind::kJob, job.key})) continue;
    ModelRecord& model = unnamed.emplace_back();
    model.key = job.key;
    model.step = job.checkpoints.back().step;
    model.blob = job.checkpoints.back().model_blob;
    model.tensors = job.checkpoints.back().tensors;
    question.candidates.push_back({&model, &job, scene_of(job.training.scene)});
  }
  const StartAnswer answer = spec.choose_start(question);
  training.init_reason = answer.reason;
  if (answer.model == nullptr) {
    training.init.reset();
    return;
  }
  if (!training.init.has_value()) training.init.emplace();
  const bool is_unnamed = answer.model->job.empty();
  training.init->kind = is_unnamed ? InitReference::Kind::kCheckpoint : InitReference::Kind::kModel;
  if (is_unnamed) training.init->step = answer.model->step;
  training.init->source = answer.model->key;
  training.init->blob = answer.model->blob;
}

absl::Status JobQueue::ResolveInit(const JobSpec& spec, TrainingSpec& training) {
  if (!training.init.has_value()) {
    if (spec.choose_start != nullptr && spec.parts.empty()) ChooseInit(spec, training);
    return absl::OkStatus();
  }
  InitReference& init = *training.init;
  if (init.kind == InitReference::Kind::kNone) {
    training.init.reset();
    return absl::OkStatus();
  }
  if (init.kind == InitReference::Kind::kAuto) {
    if (spec.choose_start == nullptr) return absl::InternalError("nobody chooses the start");
    ChooseInit(spec, training);
    return absl::OkStatus();
  }
  const auto use = [&](const BlobRef& blob, const std::vector<TensorRecord>& tensors) {
    init.blob = blob;
    return spec.check_init ? spec.check_init(tensors) : absl::OkStatus();
  };
  if (init.kind == InitReference::Kind::kModel) {
    const ModelRecord* const model = state_.FindModel(init.source);
    if (model == nullptr) return ResourceNotFound(ModelName(init.source));
    return use(model->blob, model->tensors);
  }
  const JobEntry* const job = state_.FindEntry(init.source);
  if (job != nullptr) {
    for (const CheckpointRecord& checkpoint : job->job.checkpoints) {
      if (checkpoint.step == init.step) return use(checkpoint.model_blob, checkpoint.tensors);
    }
  }
  return ResourceNotFound(CheckpointName(init.source, init.step));
}

}  // namespace nerf
