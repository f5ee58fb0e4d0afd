#include "server/rpc/services/job_admission.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "nerf/v1/worker_service.pb.h"
#include "server/queue/kinds/render_work.h"
#include "server/rpc/convert/convert_scene.h"
#include "server/rpc/convert/convert_training.h"
#include "server/rpc/convert/export_bytes.h"
#include "server/rpc/services/owned_blobs.h"
#include "server/rpc/services/start_choice.h"

namespace nerf {
namespace {

// OK if a job of this config can be initialized from a file with these tensors.
absl::Status CheckInit(const TrainConfig& config, const std::vector<TensorRecord>& tensors) {
  std::vector<TensorShape> held;
  for (const TensorRecord& tensor : tensors) {
    held.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const absl::Status fits = CheckInitFits(config, held);
  if (fits.ok()) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(fits.message()), reason::kInitMismatch);
}

// Without a worker nothing is known: one that makes movies may come.
absl::Status RequireMovieMaker(const ServiceContext& services) {
  const WorkerList workers = services.workers.List();
  const auto is_connected = [](const WorkerRecord& worker) { return worker.connected; };
  const auto makes_movies = [](const WorkerRecord& worker) {
    return worker.connected && worker.description.Has(kMovieCapability);
  };
  if (std::ranges::none_of(*workers, is_connected) || std::ranges::any_of(*workers, makes_movies)) {
    return absl::OkStatus();
  }
  return WithReason(absl::UnimplementedError("no connected worker has ffmpeg, which makes movies"),
                    reason::kFeatureNotBuilt);
}

// A worker gets the files of both in one message. Errors: ResourceExhausted SIZE_LIMIT.
absl::Status CheckOrderSize(SceneCatalog& scenes, const JobSpec& spec,
                            const v1::CreateJobRequest& request) {
  if (spec.pose.into.empty()) return absl::OkStatus();
  const auto scene = scenes.Get({spec.project, spec.pose.into});
  if (!scene.ok()) return absl::OkStatus();  // Create says so, unless it was asked before
  v1::PoseTask task;
  AddManifest(scene->files, task.mutable_into_files());
  return CheckManifestSize(task.ByteSizeLong() + request.job().pose().ByteSizeLong());
}

}  // namespace

absl::Status AdmitJob(const ServiceContext& services, const v1::CreateJobRequest& request,
                      JobSpec* spec) {
  switch (request.job().spec_case()) {
    case v1::Job::kTraining:
      spec->check_init = [&request](const std::vector<TensorRecord>& tensors) {
        return CheckInit(EffectiveConfig(request), tensors);
      };
      spec->choose_start = [&request](const StartQuestion& question) {
        return ChooseStart(EffectiveConfig(request), question);
      };
      return absl::OkStatus();
    case v1::Job::kRender:
      return spec->render.movie() ? RequireMovieMaker(services) : absl::OkStatus();
    case v1::Job::kPose:
      NERF_RETURN_IF_ERROR(RequireOwned(services.blob_owners, spec->project, spec->pose.files));
      return CheckOrderSize(services.scenes, *spec, request);
    case v1::Job::kExport:
      spec->expected_bytes = BytesOfModel(services, spec->model, request.job().export_());
      return absl::OkStatus();
    case v1::Job::SPEC_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

}  // namespace nerf
