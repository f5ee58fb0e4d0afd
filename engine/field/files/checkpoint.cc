#include "engine/field/files/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine/base/camera_matrix.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/placement.h"
#include "engine/field/files/metadata_reader.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kLastScheduleStart = 0.999999;
constexpr char kFormat[] = "nerfd";
constexpr char kFormatVersion[] = "3";
constexpr char kSettingPrefix[] = "setting.";

constexpr std::string_view kLensNames[] = {
    "pinhole", "opencv", "fisheye", "equirectangular", "thin_prism_fisheye", "fov"};
static_assert(std::size(kLensNames) == static_cast<size_t>(kLastLensModel) + 1);
constexpr int kMaxSavedSide = 16384;
constexpr float kMaxLength = 1e9f;  // largest coordinate or length in a scene
constexpr double kMaxCount = 1e18;
// The default is 512. A render takes every step of a ray through occupied cells, so shorter ones
// take too long.
constexpr float kMaxStepsPerDiagonal = 65536;
constexpr float kMaxFrameError = 1e-3f;  // relative; rounding to floats stays far below it
constexpr float kLeastFrustum = 1e-9f;   // depth or slope of one

std::string_view KindName(TrainFileKind kind) {
  return kind == TrainFileKind::kCheckpoint ? "checkpoint" : "model";
}

template <typename... Numbers>
std::string Text(Numbers... numbers) {
  return MetadataText(numbers...);
}

std::string Text(Vec3 v) { return Text(v.x, v.y, v.z); }

std::string Text(const Mat34& matrix) {
  std::string text;
  for (const auto& row : matrix.m) {
    for (float value : row) text += fmt::format("{}{}", text.empty() ? "" : " ", value);
  }
  return text;
}

// MetadataReader for the types of scenes and cameras.
class StateReader : public MetadataReader {
 public:
  using MetadataReader::MetadataReader;

  void Lengths(const std::string& key, Vec3* v) {
    Numbers<float>(key, -kMaxLength, kMaxLength, {&v->x, &v->y, &v->z});
  }
  void Matrix(const std::string& key, Mat34* matrix) {
    auto& m = matrix->m;
    Numbers<float>(key, -kMaxLength, kMaxLength,
                   {&m[0][0], &m[0][1], &m[0][2], &m[0][3], &m[1][0], &m[1][1], &m[1][2], &m[1][3],
                    &m[2][0], &m[2][1], &m[2][2], &m[2][3]});
  }
  void Count(const std::string& key, int64_t* value) {
    One<int64_t>(key, 0, static_cast<int64_t>(kMaxCount), value);
  }
};

void StoreConfig(const TrainConfig& config, std::map<std::string, std::string>* metadata) {
  auto& m = *metadata;
  m["method"] = config.method;
  m["seed"] = Text(config.seed);
  m["budget"] = fmt::format("{} {}", BudgetKindName(config.budget.kind), config.budget.amount);
  m["background"] = BackgroundName(config.background);
  m["test_every"] = Text(config.test_every);
  for (auto& [key, value] : ConfigSettings(config)) m[kSettingPrefix + key] = value;
}

void LoadConfig(const TensorFile& file, StateReader* reader, TrainConfig* config) {
  absl::StatusOr<TrainConfig> defaults = DefaultConfig(reader->String("method"));
  if (!defaults.ok()) return reader->Fail("config", std::string(defaults.status().message()));
  *config = *std::move(defaults);
  reader->One<uint32_t>("seed", 0, UINT32_MAX, &config->seed);
  const std::string& budget = reader->String("budget");
  const size_t space = budget.find(' ');
  auto kind = ParseBudgetKind(std::string_view(budget).substr(0, space));
  if (space == std::string::npos || !kind.ok()) {
    reader->Fail("budget", "is not a kind and an amount");
  } else {
    config->budget.kind = *kind;
    const char* end = budget.data() + budget.size();
    const auto result = std::from_chars(budget.data() + space + 1, end, config->budget.amount);
    if (result.ec != std::errc() || result.ptr != end) reader->Fail("budget", "is no number");
  }
  auto background = ParseBackground(reader->String("background"));
  if (background.ok()) {
    config->background = *background;
  } else {
    reader->Fail("background", "is none that is known");
  }
  reader->One<int>("test_every", 0, 1'000'000, &config->test_every);
  // A setting that the file lacks keeps its default: the file may be older than the setting.
  const std::string prefix = kSettingPrefix;
  for (auto it = file.metadata.lower_bound(prefix);
       it != file.metadata.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
    const absl::Status set =
        SetConfigField(std::string_view(it->first).substr(prefix.size()), it->second, config);
    if (!set.ok()) reader->Fail(it->first, std::string(set.message()));
  }
  const absl::Status valid = ValidateConfig(*config);
  if (!valid.ok()) reader->Fail("config", std::string(valid.message()));
}

std::string FrustumText(const Frustum& f) {
  return Text(f.near, f.slope, f.apex.x, f.apex.y, f.apex.z, f.right.x, f.right.y, f.right.z,
              f.up.x, f.up.y, f.up.z, f.forward.x, f.forward.y, f.forward.z);
}

void LoadFrustum(StateReader* reader, Frustum* frustum) {
  Frustum f;
  reader->Numbers<float>(
      "scene.frustum", -kMaxLength, kMaxLength,
      {&f.near, &f.slope, &f.apex.x, &f.apex.y, &f.apex.z, &f.right.x, &f.right.y, &f.right.z,
       &f.up.x, &f.up.y, &f.up.z, &f.forward.x, &f.forward.y, &f.forward.z});
  if (!(f.near >= kLeastFrustum) || !(f.slope >= kLeastFrustum))
    return reader->Fail("scene.frustum", "begins at no depth, or has no width");
  const Vec3 axes[] = {f.right, f.up, f.forward};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j <= i; ++j) {
      if (!(std::abs(Dot(axes[i], axes[j]) - (i == j ? 1.0f : 0.0f)) <= kMaxFrameError))
        return reader->Fail("scene.frustum", "has axes that are not 1 long, or at no right angles");
    }
  }
  *frustum = f;
}

void StoreGeometry(const SceneGeometry& geometry, std::map<std::string, std::string>* metadata) {
  auto& m = *metadata;
  m["scene.flavor"] = SceneFlavorName(geometry.flavor);
  m["scene.own_to_training"] = Text(geometry.frame.own_to_training);
  m["scene.scale"] = Text(geometry.frame.scale);
  const Vec3d& origin = geometry.frame.origin;
  if (origin != Vec3d{0, 0, 0}) m["scene.origin"] = Text(origin[0], origin[1], origin[2]);
  m["scene.box_min"] = Text(geometry.box.min);
  m["scene.box_max"] = Text(geometry.box.max);
  m["scene.n_levels"] = Text(geometry.n_levels);
  m["scene.march"] = Text(geometry.near, geometry.step, geometry.cone);
  if (geometry.far != kNoFar) m["scene.far"] = Text(geometry.far);
  m["scene.mean_up"] = Text(geometry.mean_up);
  m["scene.median"] = Text(geometry.median_distance, geometry.median_height);
  if (!geometry.frustum.empty()) m["scene.frustum"] = FrustumText(geometry.frustum);
}

// Whether the linear part is scale * (an orthonormal matrix): M M^T = scale^2 I.
bool IsSimilarity(const SceneFrame& frame) {
  const auto& m = frame.own_to_training.m;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      double dot = 0;
      for (int k = 0; k < 3; ++k) dot += double{m[i][k]} * m[j][k];
      const double relative = dot / (double{frame.scale} * frame.scale);
      if (!(std::abs(relative - (i == j ? 1 : 0)) <= kMaxFrameError)) return false;
    }
  }
  return true;
}

void LoadGeometry(StateReader* reader, SceneGeometry* geometry) {
  const auto flavor = SceneFlavorFromName(reader->String("scene.flavor"));
  if (flavor.has_value()) {
    geometry->flavor = *flavor;
  } else {
    reader->Fail("scene.flavor", "is none that is known");
  }
  reader->Matrix("scene.own_to_training", &geometry->frame.own_to_training);
  reader->One<float>("scene.scale", 1e-9f, kMaxLength, &geometry->frame.scale);
  Vec3d& origin = geometry->frame.origin;
  if (reader->Has("scene.origin")) {
    reader->Numbers<double>("scene.origin", -kMaxCoordinate, kMaxCoordinate,
                            {&origin[0], &origin[1], &origin[2]});
  }
  if (!IsSimilarity(geometry->frame)) {
    reader->Fail("scene.own_to_training", "is no rotation times scene.scale");
  }
  reader->Lengths("scene.box_min", &geometry->box.min);
  reader->Lengths("scene.box_max", &geometry->box.max);
  for (int axis = 0; axis < 3; ++axis) {
    if (!(geometry->box.min[axis] < geometry->box.max[axis])) {
      reader->Fail("scene.box_max", "is not above scene.box_min");
    }
  }
  const Vec3 size = geometry->box.Size();
  if (std::abs(size.y - size.x) > kMaxFrameError * size.x ||
      std::abs(size.z - size.x) > kMaxFrameError * size.x) {
    reader->Fail("scene.box_max", "the box is no cube");
  }
  reader->One<int>("scene.n_levels", 1, kMaxBoxes, &geometry->n_levels);
  reader->Numbers<float>("scene.march", 0, kMaxLength,
                         {&geometry->near, &geometry->step, &geometry->cone});
  if (reader->Has("scene.far")) reader->One<float>("scene.far", 0, kMaxLength, &geometry->far);
  if (const absl::Status status = CheckMarchStep(*geometry); !status.ok()) {
    reader->Fail("scene.march", std::string(status.message()));
  }
  reader->Lengths("scene.mean_up", &geometry->mean_up);
  reader->Numbers<float>("scene.median", -kMaxLength, kMaxLength,
                         {&geometry->median_distance, &geometry->median_height});
  if (reader->Has("scene.frustum")) LoadFrustum(reader, &geometry->frustum);
}

void StoreCamera(const Camera& camera, std::map<std::string, std::string>* metadata) {
  auto& m = *metadata;
  m["camera.size"] = Text(camera.width, camera.height);
  m["camera.lens"] = kLensNames[static_cast<int>(camera.lens)];
  m["camera.intrinsics"] = Text(camera.fl_x, camera.fl_y, camera.cx, camera.cy);
  m["camera.distortion"] = Text(camera.k1, camera.k2, camera.k3, camera.p1, camera.p2);
  if (camera.k4 != 0 || camera.k5 != 0 || camera.k6 != 0)
    m["camera.distortion_further"] = Text(camera.k4, camera.k5, camera.k6);
  m["camera.camera_to_world"] = Text(camera.camera_to_world);
}

void LoadCamera(StateReader* reader, Camera* camera) {
  reader->Numbers<int>("camera.size", 1, kMaxSavedSide, {&camera->width, &camera->height});
  const std::string& lens = reader->String("camera.lens");
  const auto* const found = std::find(std::begin(kLensNames), std::end(kLensNames), lens);
  if (found == std::end(kLensNames)) {
    reader->Fail("camera.lens", "is no lens that is known, such as pinhole or opencv");
  } else {
    camera->lens = static_cast<LensModel>(found - std::begin(kLensNames));
  }
  reader->Numbers<float>("camera.intrinsics", -kMaxLength, kMaxLength,
                         {&camera->fl_x, &camera->fl_y, &camera->cx, &camera->cy});
  if (!(camera->fl_x > 0 && camera->fl_y > 0)) {
    reader->Fail("camera.intrinsics", "focal lengths are not above 0");
  }
  reader->Numbers<float>("camera.distortion", -kMaxLength, kMaxLength,
                         {&camera->k1, &camera->k2, &camera->k3, &camera->p1, &camera->p2});
  if (reader->Has("camera.distortion_further")) {
    reader->Numbers<float>("camera.distortion_further", -kMaxLength, kMaxLength,
                           {&camera->k4, &camera->k5, &camera->k6});
  }
  reader->Matrix("camera.camera_to_world", &camera->camera_to_world);
}

}  // namespace

Background EvaluationBackground(Background configured, bool has_alpha) {
  if (configured == Background::kWhite || configured == Background::kBlack) return configured;
  return has_alpha ? Background::kWhite : Background::kBlack;
}

Background TrainingBackground(Background configured, bool has_alpha) {
  if (configured != Background::kAuto) return configured;
  return has_alpha ? Background::kRandom : Background::kBlack;
}

Vec3 BackgroundColor(Background white_or_black) {
  return white_or_black == Background::kWhite ? Vec3{1, 1, 1} : Vec3{0, 0, 0};
}

RenderPrecision RenderPrecisionOf(const TrainConfig& config) {
  return config.cuda_fp32 != 0 ? RenderPrecision::kSingle : RenderPrecision::kHalf;
}

SceneGeometry EffectiveGeometry(const TrainConfig& config, const SceneGeometry& geometry) {
  SceneGeometry effective = geometry;
  if (config.near >= 0) effective.near = config.near;
  if (config.step >= 0) effective.step = config.step;
  if (config.cone >= 0) effective.cone = config.cone;
  if (config.far >= 0) effective.far = config.far;
  return effective;
}

absl::Status CheckMarchStep(const SceneGeometry& geometry) {
  const float diagonal = geometry.box.Diagonal();
  if (geometry.step >= diagonal / kMaxStepsPerDiagonal && geometry.step < diagonal) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("settings.step: {} is not between {} and {}, 1/65536 of the box's diagonal and "
                  "all of it",
                  geometry.step, diagonal / kMaxStepsPerDiagonal, diagonal));
}

void StoreTrainState(const TrainState& state, TrainFileKind kind, TensorFile* file) {
  auto& m = file->metadata;
  m["format"] = kFormat;
  m["format_version"] = kFormatVersion;
  m["kind"] = KindName(kind);
  StoreConfig(state.config, &m);
  StoreGeometry(state.geometry, &m);
  StoreCamera(state.reference_camera, &m);
  m["evaluation_background"] = BackgroundName(state.evaluation_background);
  StoreCaptureViews("capture", state.capture, &m);
  StoreCaptureViews("test", state.test_capture, &m);
  if (!state.made_from.empty()) m["made_from"] = state.made_from;
  m["views"] = Text(state.n_train_views, state.n_test_views);
  m["step"] = Text(state.step);
  m["samples"] = Text(state.n_trained);
  m["marched"] = Text(state.n_marched);
  m["rays"] = Text(state.n_rays);
  if (kind == TrainFileKind::kModel) return;
  const WatchdogState& watchdog = state.watchdog;
  m["watchdog.loss"] = Text(watchdog.smoothed_loss, watchdog.best_loss);
  m["watchdog.counts"] =
      Text(watchdog.n_smoothed, watchdog.n_without_samples, watchdog.n_recoveries);
  m["watchdog.rate_factor"] = Text(watchdog.rate_factor);
  const ScheduleLine& schedule = state.schedule;
  if (schedule != ScheduleLine()) m["schedule"] = Text(schedule.from, schedule.start);
  if (state.config.budget.kind == BudgetKind::kSeconds) m["seconds"] = Text(state.seconds);
}

absl::StatusOr<StoredTrainState> LoadTrainState(const TensorFile& file, const std::string& path) {
  StateReader reader(file, path);
  if (reader.String("format") != kFormat) reader.Fail("format", "is no file of nerfd");
  if (reader.String("format_version") != kFormatVersion) {
    reader.Fail("format_version",
                fmt::format("'{}' is not known; this version reads {}",
                            reader.String("format_version").substr(0, 16), kFormatVersion));
  }
  if (!reader.status.ok()) return reader.status;

  StoredTrainState stored;
  const std::string& kind = reader.String("kind");
  if (kind == KindName(TrainFileKind::kCheckpoint)) {
    stored.kind = TrainFileKind::kCheckpoint;
  } else if (kind != KindName(TrainFileKind::kModel)) {
    reader.Fail("kind", "is neither checkpoint nor model");
  }
  TrainState& state = stored.state;
  LoadConfig(file, &reader, &state.config);
  LoadGeometry(&reader, &state.geometry);
  if (reader.status.ok()) {
    const absl::Status fits =
        MethodDescriptionOf(state.config)
            .CheckScene({.has_frustum = !state.geometry.frustum.empty()}, state.config);
    if (!fits.ok()) reader.Fail("config", std::string(fits.message()));
  }
  LoadCamera(&reader, &state.reference_camera);
  const std::string& background = reader.String("evaluation_background");
  if (background == BackgroundName(Background::kBlack)) {
    state.evaluation_background = Background::kBlack;
  } else if (background != BackgroundName(Background::kWhite)) {
    reader.Fail("evaluation_background", "is neither white nor black");
  }
  for (const auto& [prefix, views] :
       {std::pair{"capture", &state.capture}, std::pair{"test", &state.test_capture}}) {
    const absl::Status read = LoadCaptureViews(prefix, file.metadata, views);
    if (read.ok() || !reader.status.ok()) continue;
    reader.status =
        absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(read.message())));
  }
  if (reader.Has("made_from")) state.made_from = reader.String("made_from");
  reader.Numbers<uint32_t>("views", 0, UINT32_MAX, {&state.n_train_views, &state.n_test_views});
  reader.One<uint32_t>("step", 0, UINT32_MAX, &state.step);
  reader.Count("samples", &state.n_trained);
  reader.Count("marched", &state.n_marched);
  reader.Count("rays", &state.n_rays);
  if (stored.kind == TrainFileKind::kCheckpoint) {
    WatchdogState& watchdog = state.watchdog;
    reader.Numbers<double>("watchdog.loss", 0, 1e30,
                           {&watchdog.smoothed_loss, &watchdog.best_loss});
    reader.Numbers<int>(
        "watchdog.counts", 0, 1 << 20,
        {&watchdog.n_smoothed, &watchdog.n_without_samples, &watchdog.n_recoveries});
    reader.One<float>("watchdog.rate_factor", 1e-6f, 1, &watchdog.rate_factor);
    if (reader.Has("schedule")) {
      ScheduleLine& schedule = state.schedule;
      reader.Numbers<double>("schedule", 0, kLastScheduleStart, {&schedule.from, &schedule.start});
    }
    if (state.config.budget.kind == BudgetKind::kSeconds) {
      reader.One<double>("seconds", 0, 1e12, &state.seconds);
    }
  }
  if (!reader.status.ok()) return reader.status;
  return stored;
}

}  // namespace nerf
