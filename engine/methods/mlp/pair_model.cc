#include <algorithm>
#include <utility>

#include "engine/kernels/activation.h"
#include "engine/kernels/composite.h"
#include "engine/kernels/view_rays.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/field.h"
#include "engine/methods/mlp/hierarchical.h"
#include "engine/methods/mlp/steps.h"

namespace nerf {
namespace {

constexpr int kRaysAtOnce = 4;
constexpr float kMinVisibleWeight = 1e-6f;  // colors of samples with less are not evaluated

// The samples of a few rays in one network.
struct ViewSamples {
  ViewSamples(const MlpNetwork& network, int n_per_ray)
      : evaluator(network, /*with_backward=*/false), n_per_ray(n_per_ray) {
    const int n = kRaysAtOnce * n_per_ray;
    evaluator.Reserve(n, 0);
    ts.resize(n);
    lengths.resize(n);
    sigmas.resize(n);
    alphas.resize(n);
    weights.resize(n);
    positions.resize(n);
  }
  // Densities at ts, and the weights of the samples of each ray. The last one is that of all that
  // lies behind it, unless the ray is cropped.
  void Weigh(int n_rays, const Ray* rays, bool is_cropped) {
    const int n = n_rays * n_per_ray;
    for (int r = 0; r < n_rays; ++r) {
      SampleLengths(n_per_ray, ts.data() + r * n_per_ray, lengths.data() + r * n_per_ray);
      if (is_cropped) lengths[(r + 1) * n_per_ray - 1] = 0;
      for (int i = r * n_per_ray; i < (r + 1) * n_per_ray; ++i)
        positions[i] = rays[r].origin + rays[r].direction * ts[i];
    }
    evaluator.Density(0, n, positions.data(), sigmas.data());
    kernels::cpu::Alphas(
        {.n = n, .sigmas = sigmas.data(), .deltas = lengths.data(), .alphas = alphas.data()});
    float transmittance = 1;
    for (int i = 0; i < n; ++i) {
      if (i % n_per_ray == 0) transmittance = 1;
      weights[i] = kernels::CompositeForwardStep(alphas[i], &transmittance);
    }
  }

  MlpEvaluator evaluator;
  int n_per_ray;
  std::vector<float> ts, lengths, sigmas, alphas, weights;
  std::vector<Vec3> positions;
};

struct PairWorkspace final : TrainedModel::Workspace {
  PairWorkspace(const TrainConfig& config, const MlpField& coarse, const MlpField& fine)
      : coarse(coarse.network(), CoarseSamples(config)),
        fine(fine.network(), FineSamples(config)) {}
  ViewSamples coarse, fine;
  std::vector<int> visible, ray_of;
  std::vector<Vec3> colors;
};

// Coarse and fine network, rendered by hierarchical samples.
class MlpPairModel final : public TrainedModel {
 public:
  MlpPairModel(const TrainConfig& config, const SceneGeometry& geometry,
               std::vector<Buffer<float>> parameters)
      : config_(config),
        geometry_(geometry),
        box_(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)))),
        coarse_(MlpNetworks(config)[0], box_, std::move(parameters[0])),
        fine_(MlpNetworks(config)[1], box_, std::move(parameters[1])) {}

  std::unique_ptr<Workspace> NewWorkspace() const override {
    return std::make_unique<PairWorkspace>(config_, coarse_, fine_);
  }
  bool RenderRays(const RayTile& tile, const std::stop_token& stop, Workspace* workspace,
                  RenderedRay* rendered) const override {
    auto& w = static_cast<PairWorkspace&>(*workspace);
    std::vector<Ray> rays;
    std::vector<int> indices;
    const auto flush = [&] {
      RenderGroup(tile, rays, indices, &w, rendered);
      rays.clear();
      indices.clear();
    };
    for (size_t r = 0; r < tile.rays.size(); ++r) {
      if (stop.stop_requested()) return false;
      Ray ray = tile.rays[r];
      RayBounds bounds = BoundsOfRay(config_, geometry_, ray, tile.axis);
      if (tile.is_cropped) {
        bounds.t_near = std::max(bounds.t_near, ray.t_near);
        bounds.t_far = std::min(bounds.t_far, ray.t_far);
      }
      if (bounds.IsEmpty()) {
        rendered[r] = {tile.background, 0, 0};
        continue;
      }
      ray.t_near = bounds.t_near;
      ray.t_far = bounds.t_far;
      rays.push_back(ray);
      indices.push_back(static_cast<int>(r));
      if (rays.size() == kRaysAtOnce) flush();
    }
    flush();
    return true;
  }
  Aabb OccupiedBox() const override { return geometry_.box; }
  uint64_t byte_size() const override { return coarse_.byte_size() + fine_.byte_size(); }
  std::string_view method() const override { return "mlp"; }
  bool NeedsCpu() const override { return true; }

 private:
  void RenderGroup(const RayTile& tile, const std::vector<Ray>& rays,
                   const std::vector<int>& indices, PairWorkspace* w, RenderedRay* rendered) const {
    const int n_rays = static_cast<int>(rays.size());
    if (n_rays == 0) return;
    const int n_coarse = w->coarse.n_per_ray, n_fine = w->fine.n_per_ray;
    for (int r = 0; r < n_rays; ++r) {
      UniformSamples(rays[r].t_near, rays[r].t_far, n_coarse, nullptr,
                     w->coarse.ts.data() + r * n_coarse);
    }
    w->coarse.Weigh(n_rays, rays.data(), tile.is_cropped);
    for (int r = 0; r < n_rays; ++r) {
      ImportanceSamples(n_coarse, w->coarse.ts.data() + r * n_coarse,
                        w->coarse.weights.data() + r * n_coarse, n_fine - n_coarse, nullptr,
                        w->fine.ts.data() + r * n_fine);
    }
    w->fine.Weigh(n_rays, rays.data(), tile.is_cropped);
    w->visible.clear();
    w->ray_of.clear();
    for (int i = 0; i < n_rays * n_fine; ++i) {
      if (w->fine.weights[i] < kMinVisibleWeight) continue;
      w->visible.push_back(i);
      w->ray_of.push_back(i / n_fine);
    }
    Vec3 directions[kRaysAtOnce];
    for (int r = 0; r < n_rays; ++r) directions[r] = rays[r].direction;
    w->fine.evaluator.Begin(n_rays, directions);
    w->colors.resize(w->visible.size());
    w->fine.evaluator.ColorOf(static_cast<int>(w->visible.size()), w->visible.data(),
                              w->ray_of.data(), w->colors.data());
    Vec3 sums[kRaysAtOnce];
    for (size_t i = 0; i < w->visible.size(); ++i) {
      Vec3& sum = sums[w->ray_of[i]];
      sum = sum + w->colors[i] * w->fine.weights[w->visible[i]];
    }
    for (int r = 0; r < n_rays; ++r) {
      float opacity = 0, depth = 0;
      for (int i = r * n_fine; i < (r + 1) * n_fine; ++i) {
        opacity += w->fine.weights[i];
        depth += w->fine.weights[i] * w->fine.ts[i];
      }
      rendered[indices[r]] = {sums[r] + tile.background * (1 - opacity), opacity,
                              opacity >= kernels::kMinDepthOpacity ? depth / opacity : 0};
    }
  }

  const TrainConfig config_;
  const SceneGeometry geometry_;
  const Aabb box_;
  const MlpField coarse_, fine_;
};

}  // namespace

std::unique_ptr<TrainedModel> NewMlpPairModel(const TrainConfig& config,
                                              const SceneGeometry& geometry,
                                              std::vector<Buffer<float>> parameters) {
  return std::make_unique<MlpPairModel>(config, geometry, std::move(parameters));
}

}  // namespace nerf
