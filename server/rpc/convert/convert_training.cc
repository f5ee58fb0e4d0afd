#include "server/rpc/convert/convert_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/messages/training_config.h"
#include "common/status_macros.h"
#include "engine/base/messages/config_message.h"
#include "engine/base/method_list/method_descriptions.h"
#include "server/queue/records/job_message.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"
#include "server/rpc/convert/convert_config.h"
#include "server/rpc/convert/convert_report.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/kind_messages.h"

namespace nerf {
namespace {

constexpr char kConfigField[] = "job.training.config";

WorkerCount ParseWorkers(const v1::WorkerCount& proto, const TrainConfig& config,
                         RequestCheck& check) {
  WorkerCount workers;
  workers.min = std::max(1u, proto.min());
  workers.max = proto.max() == 0 ? workers.min : proto.max();
  check.Require(workers.min <= kMaxGangSize, "job.training.workers.min",
                fmt::format("must be at most {}", kMaxGangSize));
  check.Require(workers.max >= workers.min && workers.max <= kMaxGangSize,
                "job.training.workers.max",
                fmt::format("must be at least `min` and at most {}", kMaxGangSize));
  // An unknown method is refused with the config.
  const MethodDescription* const method = FindMethodDescription(config.method);
  if (workers.max > 1 && method != nullptr && method->Parts(config).empty()) {
    const absl::Status shared = CheckGang(config, static_cast<int>(workers.max));
    check.Require(shared.ok(), "job.training.workers", std::string(shared.message()));
  }
  return workers;
}

// Sets the scene or the pose job that makes it.
void TakeScene(const v1::CreateJobRequest& request, JobSpec* spec, RequestCheck& check) {
  const v1::TrainingSpec& job = request.job().training();
  const auto require_project = [&](const ResourceKey& key, std::string_view field) {
    check.Require(spec->project.empty() || key.project.empty() || key.project == spec->project,
                  field, "must be of the project in parent");
  };
  if (!job.pose_job().empty()) {
    const ResourceKey poses = TakeOr(ParseJobName("job.training.pose_job", job.pose_job()), check);
    spec->training.pose_job = poses.id;
    require_project(poses, "job.training.pose_job");
    check.Require(job.scene().empty(), "job.training.scene",
                  "must be empty where job.training.pose_job makes the scene");
  } else if (!job.scene().empty() || !request.validate_only()) {
    const ResourceKey scene = TakeOr(ParseSceneName("job.training.scene", job.scene()), check);
    spec->training.scene = scene.id;
    require_project(scene, "job.training.scene");
  }
}

absl::Status ParseTraining(const v1::CreateJobRequest& request, RequestCheck& check,
                           JobSpec* spec) {
  const v1::TrainingSpec& proto = request.job().training();
  TrainingSpec& training = spec->training;
  TakeScene(request, spec, check);
  const TrainConfig config = ReadConfig(kConfigField, proto.config(), &check);
  training.config = ToMessage(config);
  training.workers = ParseWorkers(proto.workers(), config, check);
  if (GangDevices(config) == kOnCuda) training.gang_device = GangDevice::kCuda;
  if (const MethodDescription* method = FindMethodDescription(config.method);
      method != nullptr && training.workers.max > 1) {
    for (const TrainConfig& part : method->Parts(config))
      spec->parts.emplace_back().config = ToMessage(part);
  }
  training.requested_config = proto.config();
  // They would be stored and sent in every response.
  training.requested_config.DiscardUnknownFields();
  training.init = ParseInit(kConfigField, proto.config(), check);
  if (training.init.has_value() && !training.init->source.project.empty()) {
    check.Require(spec->project.empty() || training.init->source.project == spec->project,
                  "job.training.config.init", "must be of the project in parent");
  }
  return check.Result();
}

void FillTrainingOrder(const LeaseGrant& grant, v1::DesiredJob* order) {
  order->set_action(v1::DesiredJob::TRAIN);
  AddManifest(grant.scene.files, order->mutable_files());
  *order->mutable_config() = EffectiveConfigOf(grant.job.training);
  if (grant.resume.has_value()) *order->mutable_resume() = ToProto(grant.lease.job, *grant.resume);
  order->set_extend(!grant.job.training.extend_capability.empty());
  if (grant.job.training.init.has_value())
    *order->mutable_init_blob() = ToProto(grant.job.training.init->blob);
  if (WantsMerge(grant.job)) {
    for (const BlobRef& model : grant.job.part_models) *order->add_merge() = ToProto(model);
    order->set_merge_seconds(grant.job.part_seconds);
  }
  order->set_alone(grant.alone);
  if (grant.n_ranks > 1) {
    order->mutable_gang()->set_rank(grant.lease.part);
    order->mutable_gang()->set_n_ranks(grant.n_ranks);
    order->mutable_gang()->set_one_host(grant.one_host);
  }
}

absl::StatusOr<internal::JobProgress> TrainingProgressOf(const v1::JobReport& report) {
  internal::JobProgress progress;
  if (!report.has_progress()) return progress;
  NERF_ASSIGN_OR_RETURN(*progress.mutable_training(), ReportedProgress(report.progress()));
  return progress;
}

}  // namespace

const KindMessages kTrainingMessages = {ParseTraining, FillTrainingOrder, TrainingProgressOf};

TrainConfig EffectiveConfig(const v1::CreateJobRequest& request) {
  Problems ignored;
  return ReadConfig(kConfigField, request.job().training().config(), &ignored);
}

}  // namespace nerf
