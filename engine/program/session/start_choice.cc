#include "engine/program/session/start_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/config/start_rank.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/field/files/checkpoint.h"
#include "engine/field/files/tensor_file.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 10'000;
constexpr int kMaxDepth = 3;         // of folders in the folder
constexpr size_t kReasonsShown = 3;  // of files that do not fit
constexpr float kSameBoxTolerance = 1e-3f;

struct Candidate {
  std::string path;
  StartRank rank;
};

std::vector<std::string> TensorFilesIn(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator files(folder, fs::directory_options::skip_permission_denied,
                                         error);
  while (!error && files != fs::recursive_directory_iterator() && paths.size() < kMaxFiles) {
    std::error_code ignored;
    if (files.depth() >= kMaxDepth) files.disable_recursion_pending();
    if (files->path().extension() == ".safetensors" && files->is_regular_file(ignored))
      paths.push_back(files->path().string());
    files.increment(error);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Whether the wanted views have all of those that the model was trained on, at the same places:
// photographs were added.
bool HasViewsOf(const TrainState& state, const StartWanted& wanted, float tolerance) {
  std::map<std::string_view, const Camera*> cameras;
  for (const CaptureView& view : wanted.views) cameras[view.file] = &view.camera;
  return !state.capture.empty() &&
         std::all_of(state.capture.begin(), state.capture.end(), [&](const CaptureView& view) {
           const auto found = cameras.find(view.file);
           return found != cameras.end() &&
                  Norm(found->second->camera_to_world.Column(3) -
                       view.camera.camera_to_world.Column(3)) <= tolerance;
         });
}

bool SameCapture(const TrainState& state, const StartWanted& wanted) {
  const SceneGeometry &there = state.geometry, &here = wanted.geometry;
  const float tolerance = kSameBoxTolerance * here.box.Diagonal();
  return there.flavor == here.flavor && there.n_levels == here.n_levels &&
         (state.n_train_views == wanted.n_train_views ||
          HasViewsOf(state, wanted, kMaxCameraMove * here.box.Diagonal())) &&
         Norm(there.box.min - here.box.min) <= tolerance &&
         Norm(there.box.max - here.box.max) <= tolerance &&
         std::abs(there.frame.scale / here.frame.scale - 1) <= kSameBoxTolerance &&
         !OriginsDiffer(there, here);
}

bool NeedsFrustum(const TrainConfig& config) {
  return !MethodDescriptionOf(config).CheckScene({.has_frustum = false}, config).ok();
}

// Whether a training can take the scope of a file over.
absl::Status Fits(const TensorFile& file, const TrainState& state, const StartWanted& wanted) {
  if (wanted.scope == StartScope::kMlp || wanted.scope == StartScope::kOccupancy) {
    if (state.config.method != wanted.config.method)
      return absl::InvalidArgumentError("trained by method " + state.config.method);
  }
  if (wanted.scope == StartScope::kOccupancy) {
    const int asked = wanted.config.grid_resolution;
    if ((asked != kAutoSetting && GridResolution(state.config) != asked) ||
        state.geometry.n_levels != wanted.geometry.n_levels) {
      return absl::InvalidArgumentError("its occupancy grid has another size");
    }
    return absl::OkStatus();
  }
  if (wanted.scope == StartScope::kMlp) {
    // For the layers alone only shapes matter, so this needs no state.
    const TensorFile no_state;
    return CheckScopeFits(wanted.scope, FieldTensorShapes(wanted.config), file, no_state);
  }
  if (OriginsDiffer(state.geometry, wanted.geometry))
    return absl::InvalidArgumentError("its local origin is another");
  if (!state.geometry.frustum.empty() && wanted.geometry.frustum.empty() &&
      NeedsFrustum(state.config)) {
    return absl::InvalidArgumentError("trained in perspective, on photographs that look one way");
  }
  std::vector<TensorShape> held;
  for (const auto& [name, tensor] : file.tensors)
    held.push_back({name, std::string(DTypeName(tensor.dtype)), tensor.shape});
  return CheckFieldFits({state.config, state.geometry.n_levels}, held,
                        {wanted.config, wanted.geometry.n_levels});
}

absl::StatusOr<Candidate> Examine(const std::string& path, const StartWanted& wanted) {
  NERF_ASSIGN_OR_RETURN(const TensorFile file, ReadTensorFileHeader(path));
  NERF_ASSIGN_OR_RETURN(const StoredTrainState stored, LoadTrainState(file, path));
  const TrainState& state = stored.state;
  if (absl::Status fits = Fits(file, state, wanted); !fits.ok())
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(fits.message())));
  return Candidate{path,
                   {.same_capture = SameCapture(state, wanted),
                    .same_kind = state.geometry.flavor == wanted.geometry.flavor,
                    .n_samples = static_cast<double>(state.n_trained)}};
}

}  // namespace

absl::StatusOr<StartChoice> ChooseStart(const std::string& folder, const StartWanted& wanted) {
  const std::vector<std::string> paths = TensorFilesIn(folder);
  std::optional<Candidate> best;
  size_t n_fitting = 0;
  std::vector<std::string> reasons;
  for (const std::string& path : paths) {
    absl::StatusOr<Candidate> candidate = Examine(path, wanted);
    if (!candidate.ok()) {
      if (reasons.size() < kReasonsShown) reasons.emplace_back(candidate.status().message());
      continue;
    }
    ++n_fitting;
    if (!best.has_value() || candidate->rank > best->rank) best = *std::move(candidate);
  }
  if (best.has_value()) {
    return StartChoice{best->path, StartReason(best->rank, n_fitting, paths.size(), "file"),
                       best->rank.same_capture};
  }
  if (paths.empty())
    return absl::NotFoundError(fmt::format("{} has no models (*.safetensors)", folder));
  return absl::NotFoundError(fmt::format("none of {} in {} can be taken over: {}",
                                         Counted(paths.size(), "file"), folder,
                                         fmt::join(reasons, "; ")));
}

}  // namespace nerf
