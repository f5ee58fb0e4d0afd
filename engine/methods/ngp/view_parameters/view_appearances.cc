#include "engine/methods/ngp/view_parameters/view_appearances.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/base/layouts/ngp_layers.h"
#include "engine/base/philox.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kVectorsName = "view.appearances";
constexpr const char* kLayerName = "field.appearance_layer";
constexpr const char* kShownName = "field.shown_appearance";
constexpr uint32_t kInitStream = 200;  // of random numbers; the field's layers have 1 to 5

std::vector<ParameterBlock> VectorBlocks(uint32_t n_views) {
  return {{kVectorsName, {n_views, kAppearanceWidth}}};
}

std::vector<ParameterBlock> LayerBlocks() {
  return {{kLayerName, {kAppearanceWidth, kHiddenWidth}}};
}

// term [kHiddenWidth] = vector [kAppearanceWidth] * layer.
void TermOf(const float* vector, const float* layer, float* term) {
  std::fill_n(term, kHiddenWidth, 0.0f);
  for (int i = 0; i < kAppearanceWidth; ++i) {
    const float* const row = layer + size_t{kHiddenWidth} * i;
    for (int j = 0; j < kHiddenWidth; ++j) term[j] += vector[i] * row[j];
  }
}

}  // namespace

ViewAppearances::ViewAppearances(int n_views, uint32_t seed)
    : n_views_(n_views),
      vectors_(VectorBlocks(static_cast<uint32_t>(n_views)), 1),
      layer_(LayerBlocks(), 1),
      terms_(size_t{kHiddenWidth} * n_views),
      grad_of_views_(terms_.size()) {
  const float reach = std::sqrt(6.0f / (kAppearanceWidth + kHiddenWidth));
  for (uint32_t i = 0; i < layer_.size(); ++i) {
    const uint32_t word = RandomWords(seed, RandomUse::kInit, kInitStream, i / 4)[i % 4];
    layer_.values()[i] = (2 * UniformFloat(word) - 1) * reach;
  }
  layer_.RestartMoments();
}

void ViewAppearances::FindTerms() {
  for (int view = 0; view < n_views_; ++view) {
    TermOf(vectors_.values() + size_t{kAppearanceWidth} * view, layer_.values(),
           terms_.data() + size_t{kHiddenWidth} * view);
  }
}

void ViewAppearances::Update(const kernels::AdamSettings& of_vectors,
                             const kernels::AdamSettings& of_layer, std::span<const int32_t> views,
                             std::span<const float> grad_terms, ThreadPool* pool) {
  NERF_CHECK(grad_terms.size() == kHiddenWidth * views.size());
  if (empty()) return;
  grad_of_views_.SetZero();
  for (size_t ray = 0; ray < views.size(); ++ray) {
    float* const sum = grad_of_views_.data() + size_t{kHiddenWidth} * views[ray];
    const float* const gradient = grad_terms.data() + kHiddenWidth * ray;
    for (int j = 0; j < kHiddenWidth; ++j) sum[j] += gradient[j];
  }
  UpdateFromSums(of_vectors, of_layer, grad_of_views_.span(), pool);
}

void ViewAppearances::UpdateFromSums(const kernels::AdamSettings& of_vectors,
                                     const kernels::AdamSettings& of_layer,
                                     std::span<const float> sums, ThreadPool* pool) {
  NERF_CHECK(sums.size() == terms_.size());
  for (int view = 0; view < n_views_; ++view) {
    const float* const gradient = sums.data() + size_t{kHiddenWidth} * view;
    for (int i = 0; i < kAppearanceWidth; ++i) {
      const size_t element = size_t{kAppearanceWidth} * view + i, row = size_t{kHiddenWidth} * i;
      const float value = vectors_.values()[element];
      float sum = 0;
      for (int j = 0; j < kHiddenWidth; ++j) {
        sum += layer_.values()[row + j] * gradient[j];
        layer_.gradients(0)[row + j] += value * gradient[j];
      }
      vectors_.gradients(0)[element] = sum;
    }
  }
  vectors_.Update(of_vectors, pool);
  layer_.Update(of_layer, pool);
  for (size_t i = 0; i < kAppearanceWidth; ++i) {
    double sum = 0;
    for (size_t v = i; v < vectors_.size(); v += kAppearanceWidth) sum += vectors_.values()[v];
    const auto mean = static_cast<float>(sum / n_views_);
    for (size_t v = i; v < vectors_.size(); v += kAppearanceWidth) vectors_.values()[v] -= mean;
  }
  FindTerms();
}

void ViewAppearances::UpdateAverages(float decay) {
  if (empty()) return;
  vectors_.UpdateAverages(decay);
  layer_.UpdateAverages(decay);
}

void ViewAppearances::Save(TensorFile* file) const {
  if (empty()) return;
  vectors_.Save(file);
  layer_.Save(file);
}

absl::Status ViewAppearances::Load(const TensorFile& file) {
  if (empty()) return absl::OkStatus();
  DenseParameters layer(LayerBlocks(), 1);  // checked first: a failure changes nothing
  NERF_RETURN_IF_ERROR(layer.Load(file));
  NERF_RETURN_IF_ERROR(vectors_.Load(file));
  layer_ = std::move(layer);
  FindTerms();
  return absl::OkStatus();
}

void ViewAppearances::SaveModel(TensorFile* file) const {
  if (empty()) return;
  vectors_.SaveModel(file);
  layer_.SaveModel(file);
}

absl::Status ShowAppearanceOf(int view, TensorFile* file) {
  const auto held = file->tensors.find(kVectorsName);
  if (held == file->tensors.end()) {
    return absl::InvalidArgumentError(
        "the model holds no appearances of its pictures; one trained with appearance_rate does");
  }
  const std::vector<uint32_t>& shape = held->second.shape;
  if (shape.size() != 2 || shape[1] != kAppearanceWidth) {
    return absl::InvalidArgumentError(fmt::format(
        "tensor {} must have a row of {} for each picture", kVectorsName, kAppearanceWidth));
  }
  const uint32_t n_views = shape[0];
  if (view < 0 || static_cast<uint32_t>(view) >= n_views) {
    return absl::InvalidArgumentError(fmt::format(
        "there is no picture {}: the model holds the appearances of {}, from 0 on", view, n_views));
  }
  NERF_ASSIGN_OR_RETURN(const Buffer<float> vectors,
                        ReadEvaluationParameters(*file, VectorBlocks(n_views)));
  NERF_ASSIGN_OR_RETURN(const Buffer<float> layer, ReadEvaluationParameters(*file, LayerBlocks()));
  float term[kHiddenWidth];
  TermOf(vectors.data() + size_t{kAppearanceWidth} * view, layer.data(), term);
  file->tensors[kShownName] = TensorFromFloats(term, {kHiddenWidth}, DType::kF32);
  return absl::OkStatus();
}

absl::StatusOr<Buffer<float>> ReadShownAppearance(const TensorFile& file) {
  if (!file.tensors.contains(kShownName)) return Buffer<float>();
  NERF_ASSIGN_OR_RETURN(const std::vector<float> held,
                        ReadFloats(file, kShownName, {kHiddenWidth}));
  Buffer<float> term(held.size());
  std::copy(held.begin(), held.end(), term.begin());
  return term;
}

}  // namespace nerf
