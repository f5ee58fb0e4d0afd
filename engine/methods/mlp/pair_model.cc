#include "engine/methods/mlp/pair_model.h"

#include <algorithm>
#include <utility>

#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/composite.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/hierarchical.h"
#include "engine/methods/mlp/steps.h"

namespace nerf {
namespace {

constexpr int kRaysAtOnce = 4;
constexpr float kMinVisibleWeight = 1e-6f;  // colors of samples with less are not evaluated

class CpuPairEvaluator final : public PairEvaluator {
 public:
  CpuPairEvaluator(const MlpNetwork& network, int max_samples)
      : evaluator_(network, /*with_backward=*/false) {
    evaluator_.Reserve(max_samples, 0);
  }
  void Density(std::span<const Vec3> positions, float* sigmas) override {
    evaluator_.Density(0, static_cast<int>(positions.size()), positions.data(), sigmas);
  }
  void Color(std::span<const Vec3> directions, std::span<const int> rows,
             std::span<const int> ray_of, Vec3* colors) override {
    evaluator_.Begin(static_cast<int>(directions.size()), directions.data());
    evaluator_.ColorOf(static_cast<int>(rows.size()), rows.data(), ray_of.data(), colors);
  }

 private:
  MlpEvaluator evaluator_;
};

PairEvaluators CpuEvaluators() {
  return {kRaysAtOnce, [](const MlpField& network, int max_samples) {
            return std::make_unique<CpuPairEvaluator>(network.network(), max_samples);
          }};
}

}  // namespace

struct MlpPairModel::Samples {
  Samples(const PairEvaluators& evaluators, const MlpField& network, int n_per_ray)
      : evaluator(evaluators.make(network, evaluators.rays_at_once * n_per_ray)),
        n_per_ray(n_per_ray) {
    const int n = evaluators.rays_at_once * n_per_ray;
    ts.resize(n);
    lengths.resize(n);
    sigmas.resize(n);
    alphas.resize(n);
    weights.resize(n);
    positions.resize(n);
  }
  // Densities at ts, and the weights of the samples of each ray. The last one is that of all that
  // lies behind it, unless the ray is cropped.
  void Weigh(std::span<const Ray> rays, bool is_cropped) {
    const int n = static_cast<int>(rays.size()) * n_per_ray;
    for (int r = 0; r < static_cast<int>(rays.size()); ++r) {
      SampleLengths(n_per_ray, ts.data() + r * n_per_ray, lengths.data() + r * n_per_ray);
      if (is_cropped) lengths[(r + 1) * n_per_ray - 1] = 0;
      for (int i = r * n_per_ray; i < (r + 1) * n_per_ray; ++i)
        positions[i] = rays[r].origin + rays[r].direction * ts[i];
    }
    evaluator->Density(std::span(positions).first(n), sigmas.data());
    kernels::cpu::Alphas(
        {.n = n, .sigmas = sigmas.data(), .deltas = lengths.data(), .alphas = alphas.data()});
    float transmittance = 1;
    for (int i = 0; i < n; ++i) {
      if (i % n_per_ray == 0) transmittance = 1;
      weights[i] = kernels::CompositeForwardStep(alphas[i], &transmittance);
    }
  }

  const std::unique_ptr<PairEvaluator> evaluator;
  int n_per_ray;
  std::vector<float> ts, lengths, sigmas, alphas, weights;
  std::vector<Vec3> positions;
};

struct MlpPairModel::PairWorkspace final : TrainedModel::Workspace {
  explicit PairWorkspace(const MlpPairModel& model)
      : coarse(model.evaluators_, model.coarse_, CoarseSamples(model.config_)),
        fine(model.evaluators_, model.fine_, FineSamples(model.config_)) {}
  Samples coarse, fine;
  std::vector<int> visible, ray_of;
  std::vector<Vec3> colors;
};

MlpPairModel::MlpPairModel(const TrainConfig& config, const SceneGeometry& geometry,
                           std::vector<Buffer<float>> parameters)
    : config_(config),
      geometry_(geometry),
      box_(geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)))),
      coarse_(MlpNetworks(config)[0], box_, std::move(parameters[0])),
      fine_(MlpNetworks(config)[1], box_, std::move(parameters[1])),
      evaluators_(CpuEvaluators()) {}

std::unique_ptr<TrainedModel::Workspace> MlpPairModel::NewWorkspace() const {
  return std::make_unique<PairWorkspace>(*this);
}

bool MlpPairModel::RenderRays(const RayTile& tile, const std::stop_token& stop,
                              Workspace* workspace, RenderedRay* rendered) const {
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
    if (static_cast<int>(rays.size()) == evaluators_.rays_at_once) flush();
  }
  flush();
  return true;
}
void MlpPairModel::RenderGroup(const RayTile& tile, std::span<const Ray> rays,
                               std::span<const int> indices, PairWorkspace* w,
                               RenderedRay* rendered) const {
  const int n_rays = static_cast<int>(rays.size());
  if (n_rays == 0) return;
  const int n_coarse = w->coarse.n_per_ray, n_fine = w->fine.n_per_ray;
  for (int r = 0; r < n_rays; ++r) {
    UniformSamples(rays[r].t_near, rays[r].t_far, n_coarse, nullptr,
                   w->coarse.ts.data() + r * n_coarse);
  }
  w->coarse.Weigh(rays, tile.is_cropped);
  for (int r = 0; r < n_rays; ++r) {
    ImportanceSamples(n_coarse, w->coarse.ts.data() + r * n_coarse,
                      w->coarse.weights.data() + r * n_coarse, n_fine - n_coarse, nullptr,
                      w->fine.ts.data() + r * n_fine);
  }
  w->fine.Weigh(rays, tile.is_cropped);
  w->visible.clear();
  w->ray_of.clear();
  for (int i = 0; i < n_rays * n_fine; ++i) {
    if (w->fine.weights[i] < kMinVisibleWeight) continue;
    w->visible.push_back(i);
    w->ray_of.push_back(i / n_fine);
  }
  std::vector<Vec3> directions, sums(n_rays);
  for (const Ray& ray : rays) directions.push_back(ray.direction);
  w->colors.resize(w->visible.size());
  w->fine.evaluator->Color(directions, w->visible, w->ray_of, w->colors.data());
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

std::unique_ptr<TrainedModel> NewMlpPairModel(const TrainConfig& config,
                                              const SceneGeometry& geometry,
                                              std::vector<Buffer<float>> parameters) {
  return std::make_unique<MlpPairModel>(config, geometry, std::move(parameters));
}

}  // namespace nerf
