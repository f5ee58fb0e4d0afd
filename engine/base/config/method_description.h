#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/config/device_class.h"
#include "engine/base/config/setting.h"
#include "engine/base/config/tensor_shape.h"
#include "engine/base/config/train_config.h"

namespace nerf {

// The parts of a training that must match if another one starts from its weights.
struct TrainedAs {
  const TrainConfig& config;
  int n_occupancy_levels = 1;
};

// What a data set has, as far as settings depend on it.
struct SceneFacts {
  bool has_alpha = false;  // transparency, so that nothing is behind what is cut out
  // Pictures with alpha of pinholes without distortion, at one time, and one box: FindEmptyCells
  // may find cells.
  bool may_have_hull = false;
  // Pixels of a training picture, after reduction, that lie along a side of the level-0 box at the
  // distance of its center: the median over the pictures. 0: not known.
  double pixels_along_box = 0;
  double n_pixels = 0;   // of all training pictures, after reduction
  double n_samples = 0;  // that the budget pays for
  // Whether target_samples may be lowered for them: nobody asked for it, the training starts from
  // nothing, and its budget counts samples.
  bool lowers_steps = false;
  float step = 0, cone = 0;  // the scene's own
  float near = 0;            // where rays may begin; 0: at the scene's own near
  // Photographs of one side from places close together, of which is known how near and far it lies.
  bool faces_one_way = false;
  bool has_frustum = false;  // SceneGeometry::frustum
  // Pixels of a training picture across its width, the same at any depth.
  double pixels_along_frustum = 0;
  // For rules alone, whose choices are made elsewhere: ChooseStepSize, MaxSideOf,
  // ChooseForPictures.
  DeviceClass device = DeviceClass::kCpu;
  bool are_reduced = false, exposures_differ = false;
};

// What is chosen for which scenes, for people. Where rules that hold name the same setting, the
// last one counts. Where none does, the setting keeps its default.
struct ChoiceRule {
  std::string when;
  std::vector<std::pair<std::string, std::string>> settings;  // a value, or how it is found
  std::string why;
  bool (*holds)(const SceneFacts& scene);
};

// What server and client know of a training method. The engine's part is Method
// (engine/train/method.h). Immutable and stateless.
class MethodDescription {
 public:
  virtual ~MethodDescription() = default;

  virtual std::string_view name() const = 0;     // in configs and files: "ngp"
  virtual std::string_view summary() const = 0;  // one line for help
  virtual DeviceSet training_devices() const = 0;
  virtual DeviceSet rendering_devices() const = 0;

  // The method's settings, sorted by key, each with the devices that honor it. One that no device
  // honors must keep its default. Other keys are refused.
  virtual std::span<const Setting> settings() const = 0;
  // A config of the method with its defaults.
  virtual TrainConfig Defaults() const = 0;

  // The tensors of the trained field, as a model file (F16) holds them.
  virtual std::vector<TensorShape> FieldTensors(const TrainConfig& config) const = 0;
  // Host memory of a training step on the CPU, in bytes.
  virtual uint64_t StepBytes(const TrainConfig& config, int n_occupancy_levels,
                             int n_threads) const = 0;
  // Host memory of one copy of the training's state, as checkpoints hold it, in bytes.
  virtual uint64_t StateBytes(const TrainConfig& config, int n_occupancy_levels) const = 0;
  // OK if a training as `wanted` can start from weights trained as `start`. Compares what the
  // shapes of tensors do not show. Errors: InvalidArgument with both values.
  virtual absl::Status CheckStart(const TrainedAs& start, const TrainedAs& wanted) const = 0;
  // Bytes of the field in a viewer file (engine/export/files/viewer_file.h); 0 where that cannot
  // draw it.
  virtual double ViewerBytes(const TrainConfig& config, int n_occupancy_levels) const { return 0; }
  // Changes settings that make no sense for a training that starts from trained weights.
  virtual void AdaptToStart(TrainConfig* config) const {}
  // Gives the settings that are "auto", or negative where that means the scene's own, the values of
  // the training that begins. A function of its arguments alone.
  virtual void ChooseSettings(const SceneFacts& scene, TrainConfig* config) const {}
  // What it and ChooseForPictures choose where the user sets nothing.
  virtual std::vector<ChoiceRule> ChoiceRules() const { return {}; }
  // After that, the same for settings that depend on what the pictures show. exposures_differ:
  // ExposuresDiffer (engine/scene/exposure_spread.h), which is called only where it matters.
  virtual void ChooseForPictures(const std::function<bool()>& exposures_differ,
                                 TrainConfig* config) const {}
  // Gives the settings that are "auto" the values of the training whose weights this one starts
  // from. Requires: CheckStart compares them.
  virtual void TakeFromStart(const TrainConfig& start, TrainConfig* config) const {}
  // The same for settings that follow from shapes, for callers that know only the start's tensors.
  virtual void TakeFromTensors(const std::vector<TensorShape>& held, TrainConfig* config) const {}
  // Whether the settings mean something with this scene. Files are asked for has_frustum alone.
  // Errors: InvalidArgument naming the setting that does not.
  virtual absl::Status CheckScene(const SceneFacts& scene, const TrainConfig& config) const {
    return absl::OkStatus();
  }
  // Whether the settings fit each other, on any scene. Errors: InvalidArgument naming the setting.
  virtual absl::Status CheckSettings(const TrainConfig& config) const { return absl::OkStatus(); }
  // The trainings that can share out the work of this one: none knows of the others, and
  // Method::Merge makes one model of theirs. Empty: it cannot be shared out.
  virtual std::vector<TrainConfig> Parts(const TrainConfig& config) const { return {}; }
  // Whether a training reads the depth files of its data set.
  virtual bool LearnsDepth(const TrainConfig& config) const { return false; }
  // From which reductions of its pictures a training draws while `fraction` of the budget is spent:
  // each level halves their sides once more (engine/train/batch/coarse_views.h). Never rises; 0 in
  // the end.
  virtual int PictureLevel(const TrainConfig& config, double fraction) const { return 0; }
  // Whether ranks, each on a device of `kind` that honors this config, can train it together.
  // Errors: Unimplemented or InvalidArgument naming what cannot be split, the method or a setting.
  virtual absl::Status CheckRanks(const TrainConfig& config, DeviceSet kind, int n_ranks) const {
    return absl::UnimplementedError("method " + std::string(name()) +
                                    " cannot be split among ranks");
  }
};

}  // namespace nerf
