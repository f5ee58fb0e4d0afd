#include "worker/scene_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/status_macros.h"
#include "nerf/v1/scene_service.pb.h"
#include "worker/files/scene_folder.h"

namespace nerf {
namespace {

// More than the path of a picture and its camera take.
constexpr size_t kMaxViewBytes = 8 << 10;

bool IsWhole(const v1::Camera& camera) {
  bool is_whole = camera.width() > 0 && camera.height() > 0 && camera.fl_x() > 0 &&
                  camera.transform_matrix_size() == 16 && camera.time() >= 0 && camera.time() <= 1;
  for (const double number : {camera.fl_x(), camera.fl_y(), camera.cx(), camera.cy(), camera.k1(),
                              camera.k2(), camera.k3(), camera.p1(), camera.p2()})
    is_whole = is_whole && std::isfinite(number);
  for (const double number : camera.transform_matrix())
    is_whole = is_whole && std::isfinite(number);
  return is_whole;
}

absl::Status HasProblems(const v1::ValidateSceneResponse& found) {
  std::string first = "the scene cannot be read";
  if (found.problems_size() > 0) {
    const v1::SceneProblem& problem = found.problems(0);
    first = problem.file().empty() ? problem.message()
                                   : fmt::format("{}: {}", problem.file(), problem.message());
  }
  return WithReason(absl::FailedPreconditionError(first), reason::kDatasetInvalid);
}

}  // namespace

absl::StatusOr<std::string> AssembleDescription(const internal::Checked& checked,
                                                const v1::DescribeTask& task,
                                                const std::string& folder, size_t max_bytes) {
  if (!checked.response().ok()) return HasProblems(checked.response());
  const auto path = CheckInsideFolder(folder, checked.views());
  if (!path.ok()) return absl::InternalError(std::string(path.status().message()));
  const size_t n_files = static_cast<size_t>(task.files_size());
  NERF_ASSIGN_OR_RETURN(const std::string listed,
                        ReadFile(*path, std::min(max_bytes, n_files * kMaxViewBytes)));
  v1::DescribeSceneResponse response;
  if (!response.ParseFromString(listed) || response.views_size() > task.files_size()) {
    return absl::InternalError("the engine's list of views cannot be read");
  }
  response.DiscardUnknownFields();
  response.clear_next_page_token();
  response.clear_training_views();
  response.clear_test_views();
  std::map<std::string_view, const v1::BlobRef*> blobs;
  for (const v1::SceneManifestEntry& file : task.files()) blobs[file.path()] = &file.blob();
  for (v1::SceneView& view : *response.mutable_views()) {
    const auto blob = blobs.find(view.file());
    if (blob == blobs.end()) {
      return absl::InternalError(fmt::format("the scene has no file {}", view.file()));
    }
    if (!IsWhole(view.camera())) {
      return absl::InternalError(fmt::format("the engine gives {} no whole camera", view.file()));
    }
    *view.mutable_blob() = *blob->second;
    if (view.split() == v1::SceneView::TEST) {
      response.set_test_views(response.test_views() + 1);
    } else {
      view.set_split(v1::SceneView::TRAINING);
      response.set_training_views(response.training_views() + 1);
    }
  }
  std::string bytes = response.SerializeAsString();
  if (bytes.size() <= max_bytes) return bytes;
  return WithReason(absl::ResourceExhaustedError("the scene has too many views to list"),
                    reason::kSizeLimit);
}

}  // namespace nerf
