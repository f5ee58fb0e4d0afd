#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/checkpoint.h"
#include "engine/scene/scene.h"
#include "engine/views/measure/error_region.h"
#include "engine/views/measure/evaluation.h"
#include "engine/views/render/render_device.h"

namespace nerf {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

// What is known of a photograph and the model's view from its place. dB; kNotMeasured where it was
// not measured.
struct ViewMeasure {
  std::string file;
  bool is_test = false;
  // Of test views and some training views, at full size or reduced to kMaxMeasuredPixels.
  double psnr = kNotMeasured;
  double psnr_half = kNotMeasured;    // at half the sides, by area
  double psnr_color = kNotMeasured;   // with colors aligned
  double psnr_camera = kNotMeasured;  // with the camera aligned; of some
  double psnr_seen = kNotMeasured;    // without pixels that fewer than three training views see
  double few_seen = kNotMeasured;     // share of those pixels
  // On small pictures, of every view.
  double small_psnr = kNotMeasured, small_color = kNotMeasured;
  double small_camera = kNotMeasured;       // of those that stand out
  double light_left = 0;                    // mean share of the light that passes the scene
  std::array<double, 3> gains = {1, 1, 1};  // photograph over view: red, green, blue
  // Of the photograph over those that show the same, MatchErrors::exposures: the model may have
  // learned that a place looks darker from one camera. Where not known, the mean of `gains`.
  double exposure = 1;
  // Of the photograph: energy of detail of 1 pixel over that of 2 pixels, dB over the median of the
  // photographs beside it.
  double sharpness = kNotMeasured;
  double match_error = kNotMeasured;  // MatchErrors::of_view as a share of the longer side
  ErrorRegion region;
};

struct SceneMeasures {
  std::vector<ViewMeasure> views;  // training views, then test views
  bool held_out = true;            // else the test views are training views, for want of others
  size_t n_train_views = 0;
  double samples = 0, rays = 0, seen = 0;  // for each training pixel; seen: times it was drawn
  int64_t n_trained = 0;                   // samples in all
  int log2_entries = 0, chosen_log2_entries = 0;  // of a table; what nerfd chooses. 0: not known
  bool learned_exposures = false;                 // by the training, of its photographs
  double match_error = kNotMeasured;              // median, as a share of the longer side
  double focal_scale = 1, match_error_at_scale = kNotMeasured;
  std::vector<int> place_views;  // whose regions meet in one place
  int n_showing_place = 0;
};

// Views are measured at most at this size, and at most so many training views besides.
inline constexpr double kMaxMeasuredPixels = 130'000;
// Regions of less are not compared.
inline constexpr double kMinRegionGain = 1;  // dB
inline constexpr size_t kMeasuredTraining = 12, kMaxTestViews = 25, kMaxSmallViews = 150;

// Without log2_entries and learned_exposures. scene: in the model's frame, with views of the focal
// lengths that the training found; its training views must not be empty. on_part: called after each
// of the parts of the work with their number done and in all. Errors: Cancelled after a stop.
absl::StatusOr<SceneMeasures> MeasureScene(SceneRenderer* renderer, const TrainState& state,
                                           const Scene& scene, const EvaluationOptions& options,
                                           ThreadPool* pool, const std::stop_token& stop,
                                           const std::function<void(size_t, size_t)>& on_part);

}  // namespace nerf
