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
#include "engine/views/render/renderer.h"

namespace nerf {

struct ModelSplatsOptions {
  size_t max_splats = 0;  // above 0
  int degree = 2;         // of the harmonics of their colors, 0 to 3
  float near = 0;         // where rays start, training units
  // Nothing of its views is transparent: what the model leaves open has a backdrop of what is
  // rendered there, since viewers have backgrounds of their own.
  bool has_backdrop = false;
  // How a camera's view is rendered: on black, with as many rays a pixel as others of the model.
  std::function<RenderOptions(const Camera& camera)> render;
};

struct ModelSplats {
  SplatCloud cloud;
  int n_views = 0;  // that they were fitted to
  double psnr = 0;  // against views between those, decibels on white; 0: there are none
};

// Splats that look as the model does: placed where views of it have surfaces, then fitted to its
// views from the cameras and from between them. Cameras are replaced by PinholesIn.
// Errors: Cancelled; InvalidArgument where the views show nothing.
// Source: Niemeyer et al. 2024, "RadSplat" (a field that places and supervises splats).
absl::StatusOr<ModelSplats> MakeModelSplats(
    const TrainedModel& model, std::span<const Camera> cameras, const ModelSplatsOptions& options,
    ThreadPool* pool, const std::stop_token& stop,
    const std::function<void(std::string_view step, double share)>& progress);

}  // namespace nerf
