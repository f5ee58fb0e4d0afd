#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/buffer.h"
#include "engine/base/parallel_for.h"
#include "engine/field/files/tensor_file.h"
#include "engine/field/kernels/adam.h"
#include "engine/field/parameters/dense_parameters.h"

namespace nerf {

inline constexpr int kAppearanceWidth = 16;

// What each training picture shows beyond the scene, such as its light: a vector per picture, which
// a layer without bias maps to a term that is added to the color MLP's first layer before its ReLU.
// The vectors' mean over the pictures stays 0, so a view without a term has the mean appearance.
// Used from one thread but for terms(). Source: Martin-Brualla et al. 2021, "NeRF in the Wild".
class ViewAppearances {
 public:
  // n_views 0: there are none to learn, and nothing is saved. Vectors begin at 0, the layer's
  // weights by Glorot and Bengio 2010 from the seed.
  ViewAppearances(int n_views, uint32_t seed);

  bool empty() const { return n_views_ == 0; }
  int n_views() const { return n_views_; }
  const float* terms() const { return terms_.data(); }  // [n_views][kHiddenWidth]

  // Adam on the sum over the rays of each view, in the order of the rays. Shapes: views [n_rays],
  // grad_terms [n_rays][kHiddenWidth].
  void Update(const kernels::AdamSettings& of_vectors, const kernels::AdamSettings& of_layer,
              std::span<const int32_t> views, std::span<const float> grad_terms, ThreadPool* pool);
  // The same with those sums [n_views][kHiddenWidth].
  void UpdateFromSums(const kernels::AdamSettings& of_vectors,
                      const kernels::AdamSettings& of_layer, std::span<const float> sums,
                      ThreadPool* pool);
  void UpdateAverages(float decay);
  bool IsFinite() const { return vectors_.IsFinite() && layer_.IsFinite(); }

  // "view.appearances" [n_views, 16] and "field.appearance_layer" [16, 64] as DenseParameters
  // writes them. Errors: InvalidArgument naming the tensor.
  void Save(TensorFile* file) const;
  absl::Status Load(const TensorFile& file);
  void SaveModel(TensorFile* file) const;

 private:
  void FindTerms();

  int n_views_;
  DenseParameters vectors_, layer_;
  Buffer<float> terms_, grad_of_views_;  // [n_views][kHiddenWidth]
};

// Lets the model in a model or checkpoint file show the appearance of a training view: adds tensor
// "field.shown_appearance", which ReadShownAppearance reads. Errors: InvalidArgument where the file
// has no such view.
absl::Status ShowAppearanceOf(int view, TensorFile* file);
// The term to add to the color MLP's first layer [kHiddenWidth]; empty where the file names none.
absl::StatusOr<Buffer<float>> ReadShownAppearance(const TensorFile& file);

}  // namespace nerf
