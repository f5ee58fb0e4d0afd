#include "worker/scene_description.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "common/error_reason.h"
#include "common/file_io.h"
#include "common/rpc/rpc_status.h"
#include "common/status_macros.h"
#include "engine/protocol/scene_views.h"
#include "nerf/v1/scene_service.pb.h"
#include "worker/files/scene_folder.h"

namespace nerf {
namespace {

v1::Camera CameraOf(const protocol::SceneView& view) {
  v1::Camera camera;
  camera.set_width(view.width);
  camera.set_height(view.height);
  camera.set_fl_x(view.fl_x);
  camera.set_fl_y(view.fl_y);
  camera.set_cx(view.cx);
  camera.set_cy(view.cy);
  camera.set_lens(view.is_opencv ? v1::LENS_MODEL_OPENCV : v1::LENS_MODEL_PINHOLE);
  camera.set_k1(view.k1);
  camera.set_k2(view.k2);
  camera.set_k3(view.k3);
  camera.set_p1(view.p1);
  camera.set_p2(view.p2);
  camera.set_time(view.time);
  for (const double number : view.matrix) camera.add_transform_matrix(number);
  for (const double number : {0.0, 0.0, 0.0, 1.0}) camera.add_transform_matrix(number);
  return camera;
}

absl::Status HasProblems(const protocol::Checked& checked) {
  std::string first = "the scene cannot be read";
  if (!checked.problems.empty()) {
    const protocol::Problem& problem = checked.problems.front();
    first = problem.file.empty() ? problem.message
                                 : fmt::format("{}: {}", problem.file, problem.message);
  }
  return WithReason(absl::FailedPreconditionError(ToUtf8(first)), reason::kDatasetInvalid);
}

}  // namespace

absl::StatusOr<std::string> AssembleDescription(const protocol::Checked& checked,
                                                const v1::DescribeTask& task,
                                                const std::string& folder, size_t max_bytes) {
  if (!checked.ok) return HasProblems(checked);
  const auto path = CheckInsideFolder(folder, checked.views);
  if (!path.ok()) return absl::InternalError(std::string(path.status().message()));
  NERF_ASSIGN_OR_RETURN(const std::string text, ReadFile(*path, max_bytes));
  const auto views = protocol::ParseSceneViews(text);
  if (!views.ok()) return absl::InternalError(std::string(views.status().message()));
  std::map<std::string_view, const v1::BlobRef*> blobs;
  for (const v1::SceneManifestEntry& file : task.files()) blobs[file.path()] = &file.blob();
  v1::DescribeSceneResponse response;
  for (const protocol::SceneView& view : *views) {
    const auto blob = blobs.find(view.file);
    if (blob == blobs.end()) {
      return absl::InternalError(fmt::format("the scene has no file {}", ToUtf8(view.file)));
    }
    v1::SceneView* added = response.add_views();
    added->set_file(view.file);
    added->set_split(view.is_test ? v1::SceneView::TEST : v1::SceneView::TRAINING);
    *added->mutable_camera() = CameraOf(view);
    *added->mutable_blob() = *blob->second;
    if (view.is_test) {
      response.set_test_views(response.test_views() + 1);
    } else {
      response.set_training_views(response.training_views() + 1);
    }
  }
  std::string bytes = response.SerializeAsString();
  if (bytes.size() <= max_bytes) return bytes;
  return WithReason(absl::ResourceExhaustedError("the scene has too many views to list"),
                    reason::kSizeLimit);
}

}  // namespace nerf
