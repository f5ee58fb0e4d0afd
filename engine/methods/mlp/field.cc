#include "engine/methods/mlp/field.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace nerf {
namespace {

struct MlpWorkspace final : RadianceField::Workspace {
  MlpWorkspace(const MlpFieldNetworks& networks, int max_samples)
      : evaluator(networks, max_samples), times(max_samples) {}
  MlpFieldEvaluator evaluator;
  std::vector<float> times;      // of the view, for each sample
  std::vector<Vec3> directions;  // those of the samples, without repetition
  std::vector<int> direction_of;
};

}  // namespace

MlpField::Part::Part(const MlpLayout& layout, Buffer<float> parameters)
    : layout(layout),
      parameters(std::move(parameters)),
      derived(this->layout, /*with_backward=*/false) {
  NERF_CHECK(this->parameters.size() == this->layout.size);
  derived.Derive(this->layout, this->parameters.data());
}

MlpField::MlpField(const MlpLayout& layout, const Aabb& outer_box, Buffer<float> parameters)
    : box_(outer_box), field_(layout, std::move(parameters)) {}

MlpField::MlpField(const std::vector<MlpLayout>& networks, const Aabb& outer_box,
                   std::vector<Buffer<float>> parameters)
    : box_(outer_box),
      field_(networks[0], std::move(parameters[0])),
      warp_(networks.size() > 1 ? std::make_unique<Part>(networks[1], std::move(parameters[1]))
                                : nullptr) {}

MlpNetwork MlpField::NetworkOf(const Part& part) const {
  return {&part.layout, part.parameters.data(), &part.derived, MlpPlacementOf(box_)};
}

uint64_t MlpField::byte_size() const {
  const uint64_t warp = warp_ != nullptr ? warp_->parameters.byte_size() : 0;
  return (field_.parameters.byte_size() + warp) * 3 / 2;
}

std::unique_ptr<RadianceField::Workspace> MlpField::NewWorkspace(int max_samples) const {
  if (warp_ == nullptr)
    return std::make_unique<MlpWorkspace>(MlpFieldNetworks{network()}, max_samples);
  const MlpNetwork warp = NetworkOf(*warp_);
  return std::make_unique<MlpWorkspace>(MlpFieldNetworks{network(), &warp}, max_samples);
}

void MlpField::SetTime(float time, Workspace* workspace) const {
  std::vector<float>& times = static_cast<MlpWorkspace*>(workspace)->times;
  std::fill(times.begin(), times.end(), time);
}

void MlpField::Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const {
  auto& w = static_cast<MlpWorkspace&>(*workspace);
  w.evaluator.Density(n, positions, w.times.data(), sigmas);
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
  w.evaluator.field().Begin(static_cast<int>(w.directions.size()), w.directions.data());
  w.evaluator.field().ColorOf(n, samples, w.direction_of.data(), colors);
}

}  // namespace nerf
