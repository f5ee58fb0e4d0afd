#include "engine/methods/ngp_tiles/tiled_field.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"

namespace nerf {
namespace {

// The samples of the last Density call that lie in one tile, and its scratch memory.
struct TilePart {
  std::unique_ptr<RadianceField::Workspace> workspace;
  int n = 0;
  std::vector<Vec3> positions;  // [n], as those below
  std::vector<int> samples;     // of the call
  std::vector<float> shares;    // of the samples' densities: weight times the tile's density
  std::vector<float> sigmas;
  std::vector<int> place_of;  // of each sample of the call here; -1: none
  // Of a Color call.
  std::vector<int> asked, asked_places;
  std::vector<Vec3> directions, colors;
};

struct TiledWorkspace final : RadianceField::Workspace {
  std::vector<TilePart> parts;
  std::vector<float> totals;  // shares that a color has so far
};

}  // namespace

TiledField::TiledField(TileCuts cuts, float margin,
                       std::vector<std::unique_ptr<const MarchedModel>> models)
    : cuts_(std::move(cuts)), margin_(margin), models_(std::move(models)) {
  NERF_CHECK(static_cast<int>(models_.size()) == cuts_.n_tiles());
  NERF_CHECK(cuts_.n_tiles() <= kMaxTiles);
}

std::unique_ptr<RadianceField::Workspace> TiledField::NewWorkspace(int max_samples) const {
  auto workspace = std::make_unique<TiledWorkspace>();
  const auto n = static_cast<size_t>(max_samples);
  workspace->totals.resize(n);
  for (const auto& model : models_) {
    TilePart& part = workspace->parts.emplace_back();
    part.workspace = model->field().NewWorkspace(max_samples);
    for (auto* floats : {&part.shares, &part.sigmas}) floats->resize(n);
    for (auto* ints : {&part.samples, &part.place_of, &part.asked, &part.asked_places})
      ints->resize(n);
    for (auto* vectors : {&part.positions, &part.directions, &part.colors}) vectors->resize(n);
  }
  return workspace;
}

void TiledField::Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const {
  auto& w = static_cast<TiledWorkspace&>(*workspace);
  NERF_CHECK(n <= static_cast<int>(w.totals.size()));
  for (TilePart& part : w.parts) {
    part.n = 0;
    std::fill_n(part.place_of.begin(), n, -1);
  }
  float weights[kMaxTiles];
  for (int i = 0; i < n; ++i) {
    cuts_.Weights(positions[i], margin_, weights);
    sigmas[i] = 0;
    for (int tile = 0; tile < cuts_.n_tiles(); ++tile) {
      if (weights[tile] <= 0) continue;
      TilePart& part = w.parts[tile];
      part.positions[part.n] = positions[i];
      part.samples[part.n] = i;
      part.shares[part.n] = weights[tile];
      part.place_of[i] = part.n++;
    }
  }
  for (int tile = 0; tile < cuts_.n_tiles(); ++tile) {
    TilePart& part = w.parts[tile];
    if (part.n == 0) continue;
    models_[tile]->field().Density(part.n, part.positions.data(), part.sigmas.data(),
                                   part.workspace.get());
    for (int i = 0; i < part.n; ++i) {
      part.shares[i] *= part.sigmas[i];
      sigmas[part.samples[i]] += part.shares[i];
    }
  }
}

void TiledField::Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
                       Workspace* workspace) const {
  auto& w = static_cast<TiledWorkspace&>(*workspace);
  std::fill_n(colors, n, Vec3{});
  std::fill_n(w.totals.begin(), n, 0.0f);
  for (int tile = 0; tile < cuts_.n_tiles(); ++tile) {
    TilePart& part = w.parts[tile];
    int n_asked = 0;
    for (int i = 0; i < n; ++i) {
      const int place = part.place_of[samples[i]];
      if (place < 0 || part.shares[place] <= 0) continue;
      part.asked[n_asked] = i;
      part.asked_places[n_asked] = place;
      part.directions[n_asked++] = directions[i];
    }
    if (n_asked == 0) continue;
    models_[tile]->field().Color(n_asked, part.asked_places.data(), part.directions.data(),
                                 part.colors.data(), part.workspace.get());
    for (int i = 0; i < n_asked; ++i) {
      const int at = part.asked[i];
      const float share = part.shares[part.asked_places[i]];
      float& total = w.totals[at];
      total += share;
      // The running mean: a sample of one tile has that tile's color exactly.
      colors[at] = colors[at] + (part.colors[i] - colors[at]) * (share / total);
    }
  }
}

}  // namespace nerf
