#include "server/rpc/services/start_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/config/start_rank.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/picture_names.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

constexpr size_t kReasonsShown = 3;  // of models that do not fit

// How a scene states its cameras. Scenes of one layout are of a kind.
enum class Layout {
  kUnknown,
  kSplitTransforms,  // transforms_train.json: an object in one box
  kTransforms,       // one file, which may state the number of boxes
  kColmap            // always the same number of boxes
};

Layout LayoutOf(const SceneRecord& scene) {
  Layout layout = Layout::kUnknown;
  for (const SceneFileRecord& file : scene.files) {
    const std::string_view path = file.path;
    const std::string_view name = path.substr(path.rfind('/') + 1);  // all of it without a '/'
    if (name == "transforms_train.json") return Layout::kSplitTransforms;
    if (name.starts_with("transforms") && name.ends_with(".json")) {
      layout = Layout::kTransforms;
    } else if (layout == Layout::kUnknown &&
               (name == "cameras.bin" || name == "cameras.txt" || name == "poses_bounds.npy")) {
      layout = Layout::kColmap;
    }
  }
  return layout;
}

bool SameFiles(const SceneRecord& a, const SceneRecord& b) {
  return a.key == b.key || (a.byte_size == b.byte_size && a.files == b.files);
}

// Whether the new job's scene is `of` with more photographs, which lies where that did.
bool Continues(const StartQuestion& question, const SceneRecord& of) {
  const SceneRecord& scene = *question.scene;
  if (SameFiles(scene, of)) return question.scene_grows;
  if (FindSceneFile(scene, kPlacementFile) == nullptr) return false;
  return std::all_of(of.files.begin(), of.files.end(), [&](const SceneFileRecord& file) {
    if (!HasPhotographEnding(file.path)) return true;
    const SceneFileRecord* const kept = FindSceneFile(scene, file.path);
    return kept != nullptr && kept->blob == file.blob;
  });
}

std::vector<TensorShape> ShapesOf(const std::vector<TensorRecord>& tensors) {
  std::vector<TensorShape> shapes;
  shapes.reserve(tensors.size());
  for (const TensorRecord& tensor : tensors)
    shapes.push_back({tensor.name, tensor.dtype, tensor.shape});
  return shapes;
}

// The settings of a job. InvalidArgument for those of a version with other settings.
absl::StatusOr<TrainConfig> SettingsOf(const v1::TrainingConfig& job) {
  NERF_ASSIGN_OR_RETURN(TrainConfig config, DefaultConfig(job.method()));
  for (const auto& [key, value] : job.settings())
    NERF_RETURN_IF_ERROR(SetConfigField(key, value, &config));
  return config;
}

// Boxes of the scene of a model, as its occupancy grid has them; 0: it has no grid.
int BoxesOf(const std::vector<TensorShape>& tensors) {
  const auto grid = std::find_if(tensors.begin(), tensors.end(), [](const TensorShape& tensor) {
    return tensor.name == "occupancy.bits";
  });
  constexpr uint32_t kMaxBoxes = 8;
  if (grid == tensors.end() || grid->shape.empty() || grid->shape[0] > kMaxBoxes) return 0;
  return static_cast<int>(grid->shape[0]);
}

// Samples until the model's step. A job knows those of its last step.
double SamplesOf(const StartCandidate& candidate) {
  const v1::Progress& progress = candidate.job->progress.training();
  if (progress.step() == 0) return 0;
  return progress.samples() *
         std::min(1.0, static_cast<double>(candidate.model->step) / progress.step());
}

absl::Status Unknown(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{} is not known", what));
}

// The rank of a candidate that fits. `layout`: of the new job's scene. `continues`: that scene is
// the candidate's with more photographs. Errors: InvalidArgument that says what does not fit.
absl::StatusOr<StartRank> RankOf(const StartCandidate& candidate, const TrainConfig& wanted,
                                 const SceneRecord* scene, Layout layout, bool continues) {
  if (candidate.job == nullptr) return Unknown("its job was deleted: what it was trained as");
  NERF_ASSIGN_OR_RETURN(TrainConfig start, SettingsOf(candidate.job->training.config));
  const std::vector<TensorShape> held = ShapesOf(candidate.model->tensors);
  MethodDescriptionOf(start).TakeFromTensors(held, &start);
  StartRank rank{.n_samples = SamplesOf(candidate)};
  bool same_boxes = false;  // unless settings say otherwise
  if (scene != nullptr && candidate.scene != nullptr) {
    const Layout of_start = LayoutOf(*candidate.scene);
    rank.same_capture = continues || SameFiles(*scene, *candidate.scene);
    rank.same_kind = rank.same_capture || (layout == of_start && layout != Layout::kUnknown);
    same_boxes = rank.same_capture || (rank.same_kind && layout != Layout::kTransforms);
  }
  const int asked = wanted.placement.n_boxes, stated = start.placement.n_boxes;
  int of_start = stated > 0 ? stated : BoxesOf(held), here = asked;
  if (asked == 0 && stated == 0 && same_boxes) {
    of_start = here = std::max(1, of_start);
  }
  if (of_start == 0 || here == 0) return Unknown("whether its scene has as many boxes");
  NERF_RETURN_IF_ERROR(CheckFieldFits({start, of_start}, held, {wanted, here}));
  return rank;
}

StartAnswer FromScratch(const std::vector<std::string>& reasons, size_t n_models) {
  if (n_models == 0) return {nullptr, "from scratch: the project has no models"};
  return {nullptr, fmt::format("from scratch: of {}, none can be taken over: {}",
                               Counted(n_models, "model"), fmt::join(reasons, "; "))};
}

}  // namespace

StartAnswer ChooseStart(const TrainConfig& wanted, const StartQuestion& question) {
  const Layout layout = question.scene != nullptr ? LayoutOf(*question.scene) : Layout::kUnknown;
  const ModelRecord* best = nullptr;
  StartRank best_rank;
  size_t n_fitting = 0;
  std::vector<std::string> reasons;
  std::map<const SceneRecord*, bool> continued;  // many models are of one scene
  for (const StartCandidate& candidate : question.candidates) {
    bool continues = false;
    if (question.scene != nullptr && candidate.scene != nullptr) {
      const auto [known, is_new] = continued.emplace(candidate.scene, false);
      if (is_new) known->second = Continues(question, *candidate.scene);
      continues = known->second;
    }
    if (question.must_continue && !continues) continue;
    const absl::StatusOr<StartRank> rank =
        RankOf(candidate, wanted, question.scene, layout, continues);
    if (!rank.ok()) {
      if (reasons.size() < kReasonsShown) {
        reasons.push_back(
            fmt::format("{}: {}", candidate.model->key.id, std::string(rank.status().message())));
      }
      continue;
    }
    ++n_fitting;
    if (best != nullptr && *rank <= best_rank) continue;
    best = candidate.model;
    best_rank = *rank;
  }
  const size_t n_models = question.candidates.size();
  if (best == nullptr && question.must_continue) return {};
  if (best == nullptr) return FromScratch(reasons, n_models);
  return {best, StartReason(best_rank, n_fitting, n_models, "model")};
}

}  // namespace nerf
