#include "engine/field/marched_model.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/field/kernels/activation.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/field/ray_wave.h"

namespace nerf {
namespace {

constexpr int kWaveSamples = 4;  // of a ray between two checks of its transmittance
constexpr int kMaxRays = TrainedModel::kMaxTileRays;
constexpr int kMaxSamples = kMaxRays * kWaveSamples;
static_assert(kMaxRays >= kernels::kViewTileRays);

struct RayState : kernels::ViewAccumulator {
  bool done = false;
};

struct MarchWorkspace final : TrainedModel::Workspace {
  explicit MarchWorkspace(const RadianceField& field) : field(field.NewWorkspace(kMaxSamples)) {}
  std::unique_ptr<RadianceField::Workspace> field;
  RayState rays[kMaxRays];
  kernels::MarchRay marches[kMaxRays];
  RayWave wave;
  // Of the samples of a wave.
  Vec3 positions[kMaxSamples], directions[kMaxSamples], colors[kMaxSamples];
  float sigmas[kMaxSamples], alphas[kMaxSamples], t_middles[kMaxSamples], deltas[kMaxSamples];
  int ray_of[kMaxSamples];
  int visible[kMaxSamples];  // samples with a weight, and their weights
  float visible_weights[kMaxSamples];
};

// Marches each ray that is not done by up to kWaveSamples samples. Returns the number of samples.
int MarchWave(const kernels::MarchGrid& grid, const kernels::MarchSteps& steps, int n_rays,
              MarchWorkspace* w) {
  w->wave.active.clear();
  for (int r = 0; r < n_rays; ++r) {
    if (!w->rays[r].done) w->wave.active.push_back(r);
  }
  w->wave.March(grid, steps, kWaveSamples, w->marches);
  int n = 0;
  for (size_t i = 0; i < w->wave.active.size(); ++i) {
    const int r = w->wave.active[i], n_found = w->wave.n_found[i];
    if (n_found < kWaveSamples) w->rays[r].done = true;
    for (size_t found = i * kWaveSamples; found < i * kWaveSamples + n_found; ++found, ++n) {
      w->t_middles[n] = w->wave.t_middles[found];
      w->deltas[n] = w->wave.deltas[found];
      w->positions[n] = w->marches[r].origin + w->marches[r].direction * w->t_middles[n];
      w->ray_of[n] = r;
    }
  }
  return n;
}

// Adds each sample's opacity to its ray. Returns the number of samples that have a weight.
int WeighWave(float min_transmittance, int n, MarchWorkspace* w) {
  int n_visible = 0;
  for (int i = 0; i < n; ++i) {
    RayState& ray = w->rays[w->ray_of[i]];
    if (ray.Ended()) continue;
    const float weight = ray.AddSample(w->alphas[i], w->t_middles[i], min_transmittance);
    if (ray.Ended()) ray.done = true;
    if (weight == 0) continue;
    w->visible[n_visible] = i;
    w->visible_weights[n_visible] = weight;
    w->directions[n_visible] = w->marches[w->ray_of[i]].direction;
    ++n_visible;
  }
  return n_visible;
}

void ColorWave(const RadianceField& field, int n_visible, MarchWorkspace* w) {
  field.Color(n_visible, w->visible, w->directions, w->colors, w->field.get());
  for (int i = 0; i < n_visible; ++i) {
    w->rays[w->ray_of[w->visible[i]]].AddColor(w->colors[i], w->visible_weights[i]);
  }
}

// colors[r] = what the field has behind ray r, where any of it is seen.
void FindBackgrounds(const RadianceField& field, int n_rays, MarchWorkspace* w) {
  int n = 0;
  for (int r = 0; r < n_rays; ++r) {
    w->colors[r] = {};
    if (w->rays[r].Ended()) continue;
    w->visible[n] = r;
    w->directions[n++] = w->marches[r].direction;
  }
  Vec3* const found = w->positions;  // the march is over
  field.Background(n, w->directions, found, w->field.get());
  for (int i = 0; i < n; ++i) w->colors[w->visible[i]] = found[i];
}

}  // namespace

MarchedModel::MarchedModel(std::string_view method, std::unique_ptr<const RadianceField> field,
                           OccupancyGrid grid, const kernels::MarchSteps& steps,
                           uint64_t field_bytes)
    : MarchedModel(method, std::move(field), std::move(grid), steps, field_bytes, Limits()) {}

MarchedModel::MarchedModel(std::string_view method, std::unique_ptr<const RadianceField> field,
                           OccupancyGrid grid, const kernels::MarchSteps& steps,
                           uint64_t field_bytes, const Limits& limits)
    : method_(method),
      field_(std::move(field)),
      grid_(std::move(grid)),
      empty_distances_(EmptyDistances(grid_)),
      steps_(steps),
      field_bytes_(field_bytes),
      limits_(limits) {}

std::unique_ptr<TrainedModel::Workspace> MarchedModel::NewWorkspace() const {
  return std::make_unique<MarchWorkspace>(*field_);
}

bool MarchedModel::RenderRays(const RayTile& tile, const std::stop_token& stop,
                              Workspace* workspace, RenderedRay* rendered) const {
  auto& w = static_cast<MarchWorkspace&>(*workspace);
  const int n_rays = static_cast<int>(tile.rays.size());
  NERF_CHECK(n_rays <= kMaxRays);
  const kernels::MarchGrid grid = MarchGridOf(grid_, empty_distances_);
  field_->SetTime(tile.time, w.field.get());
  for (int r = 0; r < n_rays; ++r) {
    w.rays[r] = {};
    Ray ray = tile.rays[r];
    ray.t_far = std::min(ray.t_far, limits_.t_far);
    w.marches[r] = kernels::StartMarch(grid, steps_, ray, kernels::kViewJitter);
  }
  while (const int n = MarchWave(grid, steps_, n_rays, &w)) {
    if (stop.stop_requested()) return false;
    field_->Density(n, w.positions, w.sigmas, w.field.get());
    kernels::cpu::Alphas({.n = n, .sigmas = w.sigmas, .deltas = w.deltas, .alphas = w.alphas});
    ColorWave(*field_, WeighWave(tile.min_transmittance, n, &w), &w);
  }
  const bool own_background = field_->HasBackground() && tile.own_background;
  if (own_background) FindBackgrounds(*field_, n_rays, &w);
  for (int r = 0; r < n_rays; ++r) {
    const RayState& ray = w.rays[r];
    const Vec3 background = own_background ? w.colors[r] : tile.background;
    rendered[r] = {ray.ColorOn(background), ray.Opacity(), ray.ExpectedDepth()};
  }
  return true;
}

uint64_t MarchedModel::byte_size() const {
  return field_bytes_ + grid_.occupied_blocks.size() * sizeof(uint64_t) + empty_distances_.size();
}

}  // namespace nerf
