#include "engine/program/serve/engine_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error_reason.h"
#include "common/messages/camera_path_text.h"
#include "common/messages/proto_figures.h"
#include "common/messages/rpc_status.h"
#include "common/messages/worker_limits.h"
#include "common/status_macros.h"
#include "engine/base/messages/config_message.h"
#include "engine/base/messages/pose_message.h"
#include "engine/base/protocol/failed_line.h"
#include "engine/program/serve/serve_gang.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/read/check_report.h"

namespace nerf {
namespace {

using internal::EngineMessage;

// Bytes of the problems, warnings or scores of a message, and of a text.
constexpr size_t kMaxListBytes = size_t{1} << 16;
constexpr size_t kMaxTextBytes = size_t{1} << 14;
constexpr size_t kProblemOverhead = 40;

std::string Cut(std::string_view text) { return ToUtf8(text.substr(0, kMaxTextBytes)); }

template <typename Messages>
void AddProblems(const std::vector<Problem>& problems, Messages* added) {
  size_t bytes = 0;
  for (const Problem& problem : problems) {
    bytes += problem.file.size() + problem.field.size() + problem.message.size() + kProblemOverhead;
    v1::SceneProblem* message = added->Add();
    if (bytes > kMaxListBytes) {
      message->set_message(
          fmt::format("and {} more problems", problems.size() - added->size() + 1));
      return;
    }
    message->set_file(ToUtf8(problem.file));
    message->set_field(ToUtf8(problem.field));
    message->set_message(ToUtf8(problem.message));
  }
}

template <typename Texts>
void AddTexts(const std::vector<std::string>& texts, Texts* added) {
  size_t bytes = 0;
  for (const std::string& text : texts) {
    bytes += text.size() + 4;
    if (bytes > kMaxListBytes) return;
    *added->Add() = ToUtf8(text);
  }
}

// camera: relative to the origin.
v1::Camera ToMessage(const Camera& camera, const Vec3d& origin) {
  v1::Camera message;
  message.set_width(static_cast<uint32_t>(camera.width));
  message.set_height(static_cast<uint32_t>(camera.height));
  message.set_fl_x(camera.fl_x);
  message.set_fl_y(camera.fl_y);
  message.set_cx(camera.cx);
  message.set_cy(camera.cy);
  message.set_lens(camera.lens == LensModel::kOpenCv ? v1::LENS_MODEL_OPENCV
                                                     : v1::LENS_MODEL_PINHOLE);
  if (camera.lens == LensModel::kOpenCv) {
    message.set_k1(camera.k1);
    message.set_k2(camera.k2);
    message.set_k3(camera.k3);
    message.set_p1(camera.p1);
    message.set_p2(camera.p2);
  }
  message.set_time(camera.time);
  WritePose(camera.camera_to_world, origin, message.mutable_transform_matrix());
  return message;
}

EngineMessage AboutJob(const std::string& job) {
  EngineMessage message;
  message.set_job(job);
  return message;
}

}  // namespace

absl::StatusOr<TrainRequest> ToTrainRequest(const internal::Train& train) {
  Problems problems;
  TrainRequest request;
  request.dataset = train.dataset();
  request.resume = train.resume();
  if (train.resume().empty()) request.init = train.init();
  request.merge = {train.merge().begin(), train.merge().end()};
  request.config = ReadConfig("train.config", train.config(), &problems);
  NERF_RETURN_IF_ERROR(problems.Result());
  const bool has_budget = train.config().budget_case() != v1::TrainingConfig::BUDGET_NOT_SET;
  if (train.extend() && !train.resume().empty() && has_budget)
    request.new_total = request.config.budget;
  return request;
}

std::string CameraText(const v1::Camera& camera) {
  v1::CameraPath path;
  *path.mutable_cameras()->add_cameras() = camera;
  return CameraPathText(path);
}

google::rpc::Status ErrorMessage(const absl::Status& status) {
  const auto stated = GetReason(status);
  const ErrorReason reason = stated.value_or(ErrorReason{protocol::ReasonOf(status), {}});
  return ToRpcStatus(WithReason(absl::Status(status.code(), Cut(std::string(status.message()))),
                                reason.reason, reason.metadata));
}

EngineMessage StartedMessage(const std::string& job, const TrainingSession& session) {
  EngineMessage message = AboutJob(job);
  internal::Started& started = *message.mutable_started();
  *started.mutable_config() = ToMessage(session.state.config);
  started.set_flavor(std::string(SceneFlavorName(session.scene.geometry.flavor)));
  started.set_train_views(static_cast<uint32_t>(session.scene.train.size()));
  started.set_test_views(static_cast<uint32_t>(session.scene.test.size()));
  AddTexts(session.scene.warnings, started.mutable_warnings());
  started.set_step(session.state.step);
  return message;
}

EngineMessage ProgressMessage(const std::string& job, const TrainProgress& progress) {
  EngineMessage message = AboutJob(job);
  v1::Progress* figures = message.mutable_progress()->mutable_progress();
  v1::WorkerMetrics* device = message.mutable_progress()->mutable_device();
  figures->set_step(progress.step);
  for (const ProgressFigure& figure : ProgressFigures()) {
    const double value = progress.*figure.value;
    if (!std::isfinite(value)) continue;
    if (figure.owner == ProgressFigure::Owner::kWorker) {
      SetFigure(figure.name, value, device);
    } else if (!SetFigure(figure.name, value, figures)) {
      (*figures->mutable_figures())[figure.name] = value;
    }
  }
  return message;
}

EngineMessage DoneMessage(const std::string& job, const TrainSummary& summary,
                          const std::vector<ImageScore>& test_views) {
  EngineMessage message = AboutJob(job);
  internal::Done& done = *message.mutable_done();
  v1::Progress& progress = *done.mutable_progress();
  progress.set_step(summary.step);
  progress.set_samples(summary.samples);
  progress.set_marched(summary.marched);
  progress.set_rays(summary.rays);
  progress.set_samples_per_second(summary.samples_per_second);
  progress.set_seconds(summary.seconds);
  progress.set_fraction(1);
  if (summary.psnr.has_value() && std::isfinite(*summary.psnr)) done.set_psnr(*summary.psnr);
  size_t bytes = 0;
  for (const ImageScore& view : test_views) {
    if (!std::isfinite(view.psnr)) continue;
    bytes += view.file.size();
    if (done.test_views_size() == kMaxTestViewScores || bytes > kMaxListBytes) break;
    v1::TestViewScore* score = done.add_test_views();
    score->set_file(ToUtf8(view.file));
    score->set_psnr(view.psnr);
  }
  return message;
}

EngineMessage FailedMessage(const std::string& job, const absl::Status& status,
                            const std::vector<Problem>& problems) {
  EngineMessage message = AboutJob(job);
  internal::Failed& failed = *message.mutable_failed();
  *failed.mutable_error() = ErrorMessage(status);
  AddProblems(problems, failed.mutable_problems());
  if (const auto rank = LostRank(status)) failed.set_lost_rank(*rank);
  return message;
}

EngineMessage CheckedMessage(const std::string& id, const SceneDescription& description) {
  EngineMessage message;
  message.set_id(id);
  v1::ValidateSceneResponse& response = *message.mutable_checked()->mutable_response();
  const std::string report = CheckReportText(description);
  response.set_ok(description.ok());
  response.set_summary(Cut(report.substr(0, report.find('\n'))));
  AddProblems(description.problems.list(), response.mutable_problems());
  AddTexts(description.warnings, response.mutable_warnings());
  return message;
}

EngineMessage RefusedMessage(const std::string& job, const std::string& id,
                             const absl::Status& status) {
  EngineMessage message = AboutJob(job);
  message.set_id(id);
  *message.mutable_refused() = ErrorMessage(status);
  return message;
}

void AddTensors(const TensorFile& file, internal::SavedState* state) {
  for (const auto& [name, tensor] : file.tensors) {
    v1::TensorSpec* spec = state->add_tensors();
    spec->set_name(name);
    spec->set_dtype(std::string(DTypeName(tensor.dtype)));
    spec->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  }
}

v1::DescribeSceneResponse ViewsOf(const SceneDescription& description) {
  v1::DescribeSceneResponse response;
  const auto add = [&](const std::vector<ViewDescription>& views, v1::SceneView::Split split) {
    for (const ViewDescription& view : views) {
      v1::SceneView* added = response.add_views();
      added->set_file(ToUtf8(view.file));
      added->set_split(split);
      const SceneFrame& frame = description.geometry.frame;
      *added->mutable_camera() = ToMessage(ToOwnFrame(view.camera, frame), frame.origin);
    }
  };
  add(description.test, v1::SceneView::TEST);
  add(description.train, v1::SceneView::TRAINING);
  response.set_test_views(static_cast<uint32_t>(description.test.size()));
  response.set_training_views(static_cast<uint32_t>(description.train.size()));
  return response;
}

}  // namespace nerf
