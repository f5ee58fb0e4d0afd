#include "worker/scene_description.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "common/error_reason.h"
#include "common/file_io.h"
#include "common/status_macros.h"
#include "nerf/v1/scene_service.pb.h"
#include "worker/files/scene_folder.h"

namespace nerf {
namespace {

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
  NERF_ASSIGN_OR_RETURN(const std::string listed, ReadFile(*path, max_bytes));
  v1::DescribeSceneResponse response;
  if (!response.ParseFromString(listed)) {
    return absl::InternalError("the engine's list of views cannot be read");
  }
  std::map<std::string_view, const v1::BlobRef*> blobs;
  for (const v1::SceneManifestEntry& file : task.files()) blobs[file.path()] = &file.blob();
  for (v1::SceneView& view : *response.mutable_views()) {
    const auto blob = blobs.find(view.file());
    if (blob == blobs.end()) {
      return absl::InternalError(fmt::format("the scene has no file {}", view.file()));
    }
    *view.mutable_blob() = *blob->second;
  }
  std::string bytes = response.SerializeAsString();
  if (bytes.size() <= max_bytes) return bytes;
  return WithReason(absl::ResourceExhaustedError("the scene has too many views to list"),
                    reason::kSizeLimit);
}

}  // namespace nerf
