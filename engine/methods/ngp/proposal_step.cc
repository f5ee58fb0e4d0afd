#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/trace.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/field/parameters/update_count.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/proposal_model.h"
#include "engine/methods/ngp/proposal_rays.h"
#include "engine/methods/ngp/proposal_sampling.h"
#include "engine/methods/ngp/proposals.h"
#include "engine/methods/ngp/row_evaluator.h"
#include "engine/methods/ngp/state.h"

namespace nerf {
namespace {

// One of the two networks in training.
struct TrainedNetwork {
  TrainedNetwork(const TrainConfig& config, const SceneGeometry& geometry, int n_threads)
      : config(config),
        scene(ProposalSceneNetwork(config, geometry)),
        parameters(config, scene.shape),
        lanes(kGradientLanes) {
    parameters.InitializeRandomly();
    for (int lane = 0; lane < kGradientLanes; ++lane)
      lanes[lane].weight_gradients = parameters.weight_gradients(lane);
    for (int thread = 0; thread < n_threads; ++thread) level_gradients.emplace_back(scene.shape);
  }
  NgpTrainedNetwork Network(double fraction) const {
    NgpNetwork network = scene;
    network.table = parameters.table();
    network.weights = parameters.weights();
    network.half_table = parameters.half_table();
    network.weight_pairs = parameters.weight_pairs();
    network.n_active_levels = ActiveLevels(config, fraction);
    return {network, parameters.transposed_weights(), parameters.transposed_pairs()};
  }
  void UpdateLevel(int level, float learning_rate, int t, int thread) {
    LevelGradients& gradients = level_gradients[thread];
    for (const LaneOutput& lane : lanes) {
      kernels::cpu::HashEncodeBackward(
          {.shape = &scene.shape,
           .level = level,
           .n = static_cast<int>(lane.positions.size()),
           .positions = lane.positions.data(),
           .grad_features =
               lane.grad_encodings.data() + kernels::kHashTile * scene.shape.n_features * level,
           .tile_stride = kernels::kHashTile * kEncodingWidth,
           .grad_table = gradients.values.data(),
           .touched = gradients.touched.data()});
    }
    parameters.UpdateTableLevel(level, learning_rate, t, &gradients);
  }
  void UpdateWeights(float learning_rate, int t) {
    SumLanes({0, kGradientLanes}, kGradientLanes, kNgpWeights, parameters.weight_gradients(0));
    parameters.UpdateWeights(learning_rate, t);
  }

  const TrainConfig config;
  const NgpNetwork scene;
  NgpParameters parameters;
  std::vector<LaneOutput> lanes;
  std::vector<LevelGradients> level_gradients;  // one a thread
};

// Forward and backward pass of a few rays through proposal and field. One for each thread.
class ProposalChunk {
 public:
  // Rays [begin, end) of the batch; gradients and sums go to the lanes' outputs.
  void Run(const ProposalPlan& plan, const NgpTrainedNetwork& proposal_network,
           const NgpTrainedNetwork& field_network, int begin, int end, LaneOutput* proposal,
           LaneOutput* field) {
    if (!rays_.Begin(plan, begin, end)) return;
    const auto n_rays = static_cast<int>(rays_.rays().size());
    harmonics_.resize(size_t{kDirectionWidth} * n_rays);
    for (int r = 0; r < n_rays; ++r) {
      kernels::SphericalHarmonics4(rays_.rays()[r].direction,
                                   harmonics_.data() + size_t{kDirectionWidth} * r);
    }
    ProposalRows &proposals = rays_.proposals, &samples = rays_.samples;
    proposals_.Reserve(proposals.size(), 0);
    samples_.Reserve(samples.size(), 0);
    proposals_.Density(proposal_network.network, 0, proposals.size(), proposals.unit.data(),
                       proposals.sigmas.data());
    rays_.Resample(plan);
    samples_.Density(field_network.network, 0, samples.size(), samples.unit.data(),
                     samples.sigmas.data());
    samples_.Color(field_network.network, samples.size(), nullptr, samples.ray_of.data(), n_rays,
                   harmonics_.data(), samples.colors.data());
    rays_.FindGradients(plan, &field->loss, &field->squared_error);
    samples_.Backward(field_network, samples.size(), samples.ray_of.data(), harmonics_.data(),
                      samples.grad_sigmas.data(), samples.grad_colors.data(), field, nullptr);
    proposals_.BackwardDensity(proposal_network, proposals.size(), proposals.grad_sigmas.data(),
                               proposal);
    field->n_trained += samples.size();
    field->n_marched += samples.size() + proposals.size();
  }

 private:
  ProposalRays rays_;
  NgpRowEvaluator proposals_, samples_;
  std::vector<float> harmonics_;
};

// Method ngp with samples where a proposal network found density. The occupancy grid is not used.
// Source: Barron et al. 2022, "Mip-NeRF 360", section 3.
class NgpProposalStep final : public RayStep {
 public:
  NgpProposalStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
                  std::span<const View> views)
      : RayStep(config, geometry, views, pool),
        config_(config),
        geometry_(geometry),
        pool_(pool),
        proposal_(NgpProposalConfig(config), geometry, pool->n_threads()),
        field_(config, geometry, pool->n_threads()),
        chunks_(pool->n_threads()) {}

  StepResult RunRays(const RayBatch& batch) override;
  void Save(TensorFile* file) const override {
    field_.parameters.Save(file);
    TensorFile proposal;
    proposal_.parameters.Save(&proposal);
    AddWithPrefix(proposal, kProposalPrefix, file);
    SaveUpdateCount(n_updates_, file);
    ray_count().Save(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
    NERF_ASSIGN_OR_RETURN(const uint32_t n_updates, LoadUpdateCount(file));
    // Checked first: a failure changes nothing.
    NgpParameters proposal(proposal_.config, proposal_.scene.shape);
    const TensorFile of_proposal = WithoutPrefix(file, kProposalPrefix);
    NERF_RETURN_IF_ERROR(proposal.Load(of_proposal));
    NERF_RETURN_IF_ERROR(field_.parameters.Load(file));
    NERF_RETURN_IF_ERROR(proposal_.parameters.Load(of_proposal));
    n_updates_ = n_updates;
    ray_count().Restore(rays);
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override {
    field_.parameters.SaveModel(file);
    TensorFile proposal;
    proposal_.parameters.SaveModel(&proposal);
    AddWithPrefix(proposal, kProposalPrefix, file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_RETURN_IF_ERROR(proposal_.parameters.Initialize(WithoutPrefix(file, kProposalPrefix)));
    NERF_RETURN_IF_ERROR(field_.parameters.Initialize(file));
    n_updates_ = 0;
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    return NewNgpProposalModel(
        config_, geometry_,
        {proposal_.parameters.EvaluationTable(), proposal_.parameters.EvaluationWeights()},
        {field_.parameters.EvaluationTable(), field_.parameters.EvaluationWeights()});
  }

 private:
  void UpdateParameters(const RayBatch& batch);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  TrainedNetwork proposal_, field_;
  std::vector<ProposalChunk> chunks_;  // one a thread
  uint32_t n_updates_ = 0;
};

StepResult NgpProposalStep::RunRays(const RayBatch& batch) {
  const NgpTrainedNetwork proposal_network = proposal_.Network(batch.fraction);
  const NgpTrainedNetwork field_network = field_.Network(batch.fraction);
  const ProposalPlan plan{.config = &config_,
                          .proposal = proposal_network.network,
                          .field = field_network.network,
                          .disparity = UsesDisparity(config_, geometry_),
                          .exponent = AnnealedExponent(batch.fraction),
                          .batch = &batch};
  constexpr int kRays = ProposalRays::kMaxRays;
  const int n_chunks = (batch.n_rays + kRays - 1) / kRays;
  {
    const TraceSpan span("chunks");
    pool_->ParallelFor(kGradientLanes, [&](int64_t lane, int thread) {
      LaneOutput &proposal = proposal_.lanes[lane], &field = field_.lanes[lane];
      proposal.Clear();
      field.Clear();
      for (int chunk = static_cast<int>(lane); chunk < n_chunks; chunk += kGradientLanes) {
        const int begin = chunk * kRays;
        chunks_[thread].Run(plan, proposal_network, field_network, begin,
                            std::min(begin + kRays, batch.n_rays), &proposal, &field);
      }
    });
  }
  StepResult result;
  result.n_rays = batch.n_rays;
  for (const LaneOutput& lane : field_.lanes) {
    result.loss += lane.loss / batch.n_rays;
    result.squared_error += lane.squared_error / batch.n_rays;
    result.n_marched += lane.n_marched;
    result.n_trained += lane.n_trained;
  }
  UpdateParameters(batch);
  if (!field_.parameters.WeightsAreFinite() || !proposal_.parameters.WeightsAreFinite())
    result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

void NgpProposalStep::UpdateParameters(const RayBatch& batch) {
  const TraceSpan span("parameters");
  const int t = static_cast<int>(++n_updates_);
  const float rate = batch.learning_rate;
  const int n_field = std::min(field_.scene.shape.n_levels, ActiveLevels(config_, batch.fraction));
  const int n_proposal =
      std::min(proposal_.scene.shape.n_levels, ActiveLevels(proposal_.config, batch.fraction));
  // Levels of the larger table from the finest; then the smaller one's, then the weights.
  pool_->ParallelFor(n_field + n_proposal + 2, [&](int64_t task, int thread) {
    const int i = static_cast<int>(task);
    if (i < n_field) {
      field_.UpdateLevel(n_field - 1 - i, rate, t, thread);
    } else if (i < n_field + n_proposal) {
      proposal_.UpdateLevel(n_field + n_proposal - 1 - i, rate, t, thread);
    } else {
      (i == n_field + n_proposal ? field_ : proposal_).UpdateWeights(rate, t);
    }
  });
  if (t % static_cast<int>(kNgpAverageInterval) != 0) return;
  field_.parameters.UpdateAverages(kNgpAverageInterval, pool_);
  proposal_.parameters.UpdateAverages(kNgpAverageInterval, pool_);
}

}  // namespace

std::unique_ptr<RayStep> NewNgpProposalStep(const TrainConfig& config,
                                            const SceneGeometry& geometry, ThreadPool* pool,
                                            std::span<const View> views) {
  return std::make_unique<NgpProposalStep>(config, geometry, pool, views);
}

}  // namespace nerf
