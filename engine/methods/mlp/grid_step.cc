#include <utility>

#include "common/status_macros.h"
#include "engine/field/marched_model.h"
#include "engine/methods/mlp/describe/mlp_memory.h"
#include "engine/methods/mlp/describe/mlp_settings.h"
#include "engine/methods/mlp/field.h"
#include "engine/methods/mlp/parameters.h"
#include "engine/methods/mlp/steps.h"
#include "engine/train/field_step.h"
#include "engine/train/occupancy_file.h"

namespace nerf {
namespace {

Aabb OuterBox(const SceneGeometry& geometry) {
  return geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)));
}

class MlpChunkField final : public ChunkField {
 public:
  MlpChunkField(const MlpNetwork& network, MlpParameters* parameters)
      : evaluator_(network, /*with_backward=*/true), parameters_(parameters) {}

  void Begin(int n_rays, const Ray* rays, const float* /*times*/) override {
    directions_.resize(n_rays);
    for (int r = 0; r < n_rays; ++r) directions_[r] = rays[r].direction;
    evaluator_.Begin(n_rays, directions_.data());
  }
  void Reserve(int n_rows, int n_kept) override { evaluator_.Reserve(n_rows, n_kept); }
  void Density(int begin, int n, const Vec3* positions, const int* /*ray_of*/,
               float* sigmas) override {
    evaluator_.Density(begin, n, positions, sigmas);
  }
  void MoveRow(int from, int to) override { evaluator_.MoveRow(from, to); }
  void Color(int n, const int* ray_of, Vec3* colors) override {
    evaluator_.Color(n, ray_of, colors);
  }
  void Backward(int n, const int* ray_of, const float* grad_sigmas, const Vec3* grad_colors,
                int lane) override {
    evaluator_.Backward(n, ray_of, grad_sigmas, grad_colors, parameters_->gradients(lane, 0));
  }

 private:
  MlpEvaluator evaluator_;
  MlpParameters* const parameters_;
  std::vector<Vec3> directions_;
};

class MlpGridStep final : public FieldStep {
 public:
  MlpGridStep(const TrainConfig& config, const SceneGeometry& geometry, std::span<const View> views,
              ThreadPool* pool)
      : FieldStep(config, geometry, views, pool,
                  {.n_lanes = kMlpGradientLanes, .chunk_samples = kMlpChunkSamples}),
        box_(OuterBox(geometry)),
        parameters_(config) {}

  void Save(TensorFile* file) const override {
    parameters_.Save(file);
    SaveCommon(file);
  }
  absl::Status Load(const TensorFile& file) override {
    MlpParameters loaded(config());
    NERF_RETURN_IF_ERROR(loaded.Load(file));
    NERF_RETURN_IF_ERROR(LoadCommon(file));
    return parameters_.Load(file);
  }
  void SaveModel(TensorFile* file) const override {
    parameters_.SaveModel(file);
    StoreOccupancyBits(occupancy().grid(), file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_RETURN_IF_ERROR(parameters_.Initialize(file));
    InitializeCommon(file);
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    return NewMlpGridModel(config(), geometry(), parameters_.Evaluation(), occupancy().grid());
  }

 protected:
  std::unique_ptr<ChunkField> NewChunkField() override {
    return std::make_unique<MlpChunkField>(Network(), &parameters_);
  }
  OccupancyUpdater::Density ProbedDensity() override {
    while (probes_.size() < static_cast<size_t>(pool()->n_threads())) {
      probes_.push_back(std::make_unique<MlpEvaluator>(Network(), /*with_backward=*/false));
      probes_.back()->Reserve(OccupancyUpdater::kProbeBatch, 0);
    }
    return [this](int n, const Vec3* unit, float* sigmas, int thread) {
      Vec3 positions[OccupancyUpdater::kProbeBatch];
      const Vec3 size = box_.Size();
      for (int i = 0; i < n; ++i) {
        positions[i] = box_.min + Vec3{unit[i].x * size.x, unit[i].y * size.y, unit[i].z * size.z};
      }
      probes_[thread]->Density(0, n, positions, sigmas);
    };
  }
  bool UpdateParameters(const RayBatch& batch, int t) override {
    return parameters_.Update(batch.learning_rate, t, pool());
  }

 private:
  MlpNetwork Network() const { return parameters_.Network(0, MlpPlacementOf(box_)); }

  const Aabb box_;
  MlpParameters parameters_;
  std::vector<std::unique_ptr<MlpEvaluator>> probes_;  // one a thread
};

}  // namespace

std::unique_ptr<RayStep> NewMlpGridStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        std::span<const View> views, ThreadPool* pool) {
  return std::make_unique<MlpGridStep>(config, geometry, views, pool);
}

std::unique_ptr<TrainedModel> NewMlpGridModel(const TrainConfig& config,
                                              const SceneGeometry& geometry,
                                              std::vector<Buffer<float>> parameters,
                                              OccupancyGrid grid) {
  auto field =
      std::make_unique<MlpField>(MlpNetworks(config), OuterBox(geometry), std::move(parameters));
  const uint64_t field_bytes = field->byte_size();
  return std::make_unique<MarchedModel>(MlpModelName(config), std::move(field), std::move(grid),
                                        kernels::MarchSteps{geometry.step, geometry.cone},
                                        field_bytes);
}

}  // namespace nerf
