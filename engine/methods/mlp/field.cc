#include "engine/methods/mlp/field.h"

#include <utility>
#include <vector>

namespace nerf {
namespace {

struct MlpWorkspace final : RadianceField::Workspace {
  MlpWorkspace(const MlpNetwork& network, int max_samples) : evaluator(network, false) {
    evaluator.Reserve(max_samples, 0);
  }
  MlpEvaluator evaluator;
  std::vector<Vec3> directions;  // those of the samples, without repetition
  std::vector<int> direction_of;
};

}  // namespace

MlpField::MlpField(const MlpLayout& layout, const Aabb& outer_box, Buffer<float> parameters)
    : layout_(layout),
      box_(outer_box),
      parameters_(std::move(parameters)),
      derived_(layout_, /*with_backward=*/false) {
  NERF_CHECK(parameters_.size() == layout_.size);
  derived_.Derive(layout_, parameters_.data());
}

MlpNetwork MlpField::network() const {
  return {&layout_, parameters_.data(), &derived_, MlpPlacementOf(box_)};
}

std::unique_ptr<RadianceField::Workspace> MlpField::NewWorkspace(int max_samples) const {
  return std::make_unique<MlpWorkspace>(network(), max_samples);
}

void MlpField::Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const {
  static_cast<MlpWorkspace*>(workspace)->evaluator.Density(0, n, positions, sigmas);
  for (int i = 0; i < n; ++i) {
    if (!box_.Contains(positions[i])) sigmas[i] = 0;
  }
}

void MlpField::Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
                     Workspace* workspace) const {
  auto& w = static_cast<MlpWorkspace&>(*workspace);
  if (n == 0) return;
  // Samples of a ray are adjacent, so most directions repeat.
  w.directions.clear();
  w.direction_of.resize(n);
  for (int i = 0; i < n; ++i) {
    if (i == 0 || directions[i] != directions[i - 1]) w.directions.push_back(directions[i]);
    w.direction_of[i] = static_cast<int>(w.directions.size()) - 1;
  }
  w.evaluator.Begin(static_cast<int>(w.directions.size()), w.directions.data());
  w.evaluator.ColorOf(n, samples, w.direction_of.data(), colors);
}

}  // namespace nerf
