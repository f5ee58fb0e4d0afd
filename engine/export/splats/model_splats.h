#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/field/trained_model.h"
#include "engine/methods/splats/splat_cloud.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"
#include "engine/views/render/renderer.h"

namespace nerf {

struct ModelSplatsOptions {
  size_t max_splats = 0;  // above 0
  int degree = 2;         // of the harmonics of their colors, 0 to 3
  float near = 0;         // where rays start, training units
  // Nothing of its views is transparent: what the model leaves open has a backdrop of what is
  // rendered there, since viewers have backgrounds of their own.
  bool has_backdrop = false;
  // The photographs of the cameras, null where there is none: they are fitted to in place of the
  // model's views from there, where CanShowPhotograph. Empty: none; else one a camera.
  std::span<const ImageU8* const> photographs;
  bool alpha_is_mask = false;  // of photographs: what is masked is not used
  // Photographs that were not trained on, to measure by.
  std::span<const View> test;
  // How a camera's view is rendered: on black, with as many rays a pixel as others of the model.
  std::function<RenderOptions(const Camera& camera)> render;
};

struct ModelSplats {
  SplatCloud cloud;
  int n_views = 0;        // that they were fitted to, photographs among them
  int n_photographs = 0;  // of these
  double psnr = 0;        // against views between those, decibels on white; 0: there are none
  // Against test photographs, likewise, and what the model's views have there.
  int n_test = 0;
  double test_psnr = 0, model_test_psnr = 0;
};

using ProgressOfSplats = std::function<void(std::string_view step, double share)>;

// Splats that look as the model does: placed where views of it have surfaces, then fitted to its
// views from the cameras and from between them. Cameras are replaced by PinholesIn.
// Errors: Cancelled; InvalidArgument where the views show nothing.
// Source: Niemeyer et al. 2024, "RadSplat" (a field that places and supervises splats).
absl::StatusOr<ModelSplats> MakeModelSplats(const TrainedModel& model,
                                            std::span<const Camera> cameras,
                                            const ModelSplatsOptions& options, ThreadPool* pool,
                                            const std::stop_token& stop,
                                            const ProgressOfSplats& progress);

}  // namespace nerf
