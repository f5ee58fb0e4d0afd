#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/config/train_config.h"
#include "engine/field/trained_model.h"
#include "engine/methods/mlp/field.h"
#include "engine/scene/scene.h"

namespace nerf {

// One of two networks at the samples of a view's rays, where it is evaluated.
class PairEvaluator {
 public:
  virtual ~PairEvaluator() = default;
  virtual void Density(std::span<const Vec3> positions, float* sigmas) = 0;
  // Colors [rows] of the samples `rows` of the last call of Density, which are of rays ray_of
  // [rows] along `directions`.
  virtual void Color(std::span<const Vec3> directions, std::span<const int> rows,
                     std::span<const int> ray_of, Vec3* colors) = 0;
};

// How many rays are rendered together, and the evaluator of a network for so many samples.
struct PairEvaluators {
  int rays_at_once = 0;
  std::function<std::unique_ptr<PairEvaluator>(const MlpField& network, int max_samples)> make;
};

// Coarse and fine network, rendered by hierarchical samples.
class MlpPairModel final : public TrainedModel {
 public:
  // parameters: of both.
  MlpPairModel(const TrainConfig& config, const SceneGeometry& geometry,
               std::vector<Buffer<float>> parameters);

  // Evaluates elsewhere from now on, in place of the CPU.
  void EvaluateBy(PairEvaluators evaluators) { evaluators_ = std::move(evaluators); }
  const MlpField& coarse() const { return coarse_; }
  const MlpField& fine() const { return fine_; }

  std::unique_ptr<Workspace> NewWorkspace() const override;
  bool RenderRays(const RayTile& tile, const std::stop_token& stop, Workspace* workspace,
                  RenderedRay* rendered) const override;
  Aabb OccupiedBox() const override { return geometry_.box; }
  uint64_t byte_size() const override { return coarse_.byte_size() + fine_.byte_size(); }
  std::string_view method() const override { return "mlp"; }

 private:
  struct Samples;  // of a few rays in one network
  struct PairWorkspace;

  void RenderGroup(const RayTile& tile, std::span<const Ray> rays, std::span<const int> indices,
                   PairWorkspace* workspace, RenderedRay* rendered) const;

  const TrainConfig config_;
  const SceneGeometry geometry_;
  const Aabb box_;
  const MlpField coarse_, fine_;
  PairEvaluators evaluators_;
};

}  // namespace nerf
