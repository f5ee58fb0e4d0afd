#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>

#include "engine/base/aabb.h"
#include "engine/base/ray.h"

namespace nerf {

// What a GPU computes the field in. The CPU takes what its SIMD path has (kernels/simd_path.h).
enum class RenderPrecision { kHalf, kSingle };

// Rays of a view that are rendered together.
struct RayTile {
  std::span<const Ray> rays;        // training frame; at most TrainedModel::kMaxTileRays
  Vec3 background{1, 1, 1};         // sRGB, behind what the rays show
  bool own_background = true;       // the model's own in its place, where it has one
  bool is_cropped = false;          // rays end where a box ends; nothing lies behind it
  float min_transmittance = 1e-4f;  // a ray ends at the sample that leaves less light than this
  float time = 0;                   // of the view, 0 to 1; static models ignore it
  Vec3 axis;                        // where the view's camera looks, unit length
};

// What a ray shows.
struct RenderedRay {
  Vec3 color;         // sRGB, composited on the background
  float opacity = 0;  // sum of weights, 0 to 1
  float depth = 0;    // expected distance along the ray, training units; 0 if opacity is below 0.1
};

// A trained scene, in the precision of model files, that renders rays by the sampler of its method.
// Immutable; safe to use from several threads, each with a Workspace of its own.
class TrainedModel {
 public:
  static constexpr int kMaxTileRays = 256;

  // Scratch memory of one thread.
  class Workspace {
   public:
    virtual ~Workspace() = default;
  };

  virtual ~TrainedModel() = default;
  virtual std::unique_ptr<Workspace> NewWorkspace() const = 0;

  // Renders a tile. Shape: rendered [tile.rays.size()]. Returns false, with `rendered` undefined,
  // if `stop` was requested on the way.
  virtual bool RenderRays(const RayTile& tile, const std::stop_token& stop, Workspace* workspace,
                          RenderedRay* rendered) const = 0;

  // The part of the level-0 box that holds something; the whole box where nothing is known of it.
  virtual Aabb OccupiedBox() const = 0;
  // Share of the space that rays cannot skip, 0 to 1; nullopt where the method skips none.
  virtual std::optional<double> OccupiedShare() const { return std::nullopt; }
  // Memory that the model takes on the host.
  virtual uint64_t byte_size() const = 0;
  // Whether the renderers of devices lack something that the model has, so that the CPU renders it.
  virtual bool NeedsCpu() const { return false; }
  // The method whose renderers on devices take this model (Method::NewCudaRenderDevice).
  virtual std::string_view method() const = 0;
};

}  // namespace nerf
