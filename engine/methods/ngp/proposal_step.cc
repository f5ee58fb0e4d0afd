#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/philox.h"
#include "engine/base/trace.h"
#include "engine/kernels/activation.h"
#include "engine/kernels/color_loss.h"
#include "engine/kernels/composite.h"
#include "engine/kernels/distortion.h"
#include "engine/kernels/spherical_harmonics.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/describe/ngp_tensors.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/proposal_model.h"
#include "engine/methods/ngp/proposal_sampling.h"
#include "engine/methods/ngp/proposals.h"
#include "engine/methods/ngp/row_evaluator.h"
#include "engine/methods/ngp/state.h"
#include "engine/parameters/gradient_lanes.h"
#include "engine/parameters/update_count.h"
#include "engine/train/schedule.h"

namespace nerf {
namespace {

constexpr int kRaysPerChunk = 16;
// Key of the random numbers of the field's samples, apart from those of the rays' jitters.
constexpr uint64_t kSampleKey = uint64_t{0x70726f70} << 32;

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

// What a chunk reads; the same for all chunks of a step.
struct ProposalInput {
  const TrainConfig* config = nullptr;
  NgpTrainedNetwork proposal, field;
  bool disparity = false;
  float exponent = 1;  // AnnealedExponent
  const RayBatch* batch = nullptr;
};

// The samples of a chunk's rays in one network, ray by ray.
struct NetworkRows {
  void Resize(int rays, int per_ray) {
    n_rays = rays;
    n_per_ray = per_ray;
    const size_t n = static_cast<size_t>(rays) * per_ray;
    edges.resize(n + rays);
    for (std::vector<float>* column : {&deltas, &sigmas, &alphas, &weights, &grad_sigmas})
      column->resize(n);
    for (std::vector<Vec3>* column : {&unit, &colors, &grad_colors}) column->resize(n);
    ray_of.resize(n);
    for (size_t i = 0; i < n; ++i) ray_of[i] = static_cast<int>(i) / per_ray;
    evaluator.Reserve(static_cast<int>(n), 0);
  }
  int size() const { return n_rays * n_per_ray; }
  float* EdgesOf(int ray) { return edges.data() + static_cast<size_t>(ray) * (n_per_ray + 1); }
  float Middle(int row) const {
    const float* const edge = edges.data() + row + ray_of[row];
    return 0.5f * (edge[0] + edge[1]);
  }
  float Length(int row) const {
    const float* const edge = edges.data() + row + ray_of[row];
    return edge[1] - edge[0];
  }

  // Weights of the intervals between the edges. The last one of a ray takes all light that is left
  // if the background is learned.
  void Weigh(const NgpNetwork& network, const Ray* rays, const RaySpan* spans, bool has_end) {
    for (int row = 0; row < size(); ++row) {
      const int r = ray_of[row];
      const float* const edge = edges.data() + row + r;
      unit[row] = rays[r].origin + rays[r].direction * spans[r].DistanceAt(Middle(row));
      deltas[row] = spans[r].DistanceAt(edge[1]) - spans[r].DistanceAt(edge[0]);
    }
    ToEncodedCube(network, size(), unit.data(), unit.data());
    evaluator.Density(network, 0, size(), unit.data(), sigmas.data());
    kernels::cpu::Alphas(
        {.n = size(), .sigmas = sigmas.data(), .deltas = deltas.data(), .alphas = alphas.data()});
    float transmittance = 1;
    for (int row = 0; row < size(); ++row) {
      if (row % n_per_ray == 0) transmittance = 1;
      if (has_end && row % n_per_ray == n_per_ray - 1) alphas[row] = 1;
      weights[row] = kernels::CompositeForwardStep(alphas[row], &transmittance);
    }
  }

  NgpRowEvaluator evaluator;
  int n_rays = 0, n_per_ray = 0;
  std::vector<float> edges, deltas, sigmas, alphas, weights, grad_sigmas;
  std::vector<Vec3> unit, colors, grad_colors;
  std::vector<int> ray_of;
};

// Forward and backward pass of a few rays through proposal and field. One for each thread.
class ProposalChunk {
 public:
  // Rays [begin, end) of the batch; gradients and sums go to the lanes' outputs. Rays that miss the
  // box show the background, from which nothing is learned.
  void Run(const ProposalInput& input, int begin, int end, LaneOutput* proposal,
           LaneOutput* field) {
    CollectRays(input, begin, end);
    if (n_rays_ == 0) return;
    Sample(input);
    samples_.evaluator.Color(input.field.network, samples_.size(), nullptr, samples_.ray_of.data(),
                             n_rays_, harmonics_.data(), samples_.colors.data());
    for (int r = 0; r < n_rays_; ++r) {
      LossOfRay(input, r, field);
      ProposalLossOfRay(input, r);
    }
    samples_.evaluator.Backward(input.field, samples_.size(), samples_.ray_of.data(),
                                harmonics_.data(), samples_.grad_sigmas.data(),
                                samples_.grad_colors.data(), field, nullptr);
    proposals_.evaluator.BackwardDensity(input.proposal, proposals_.size(),
                                         proposals_.grad_sigmas.data(), proposal);
    field->n_trained += samples_.size();
    field->n_marched += samples_.size() + proposals_.size();
  }

 private:
  void CollectRays(const ProposalInput& input, int begin, int end) {
    n_rays_ = 0;
    for (int r = begin; r < end; ++r) {
      const RaySpan span =
          SpanOfRay(input.field.network.box, input.batch->rays[r], input.disparity);
      if (span.IsEmpty()) continue;
      rays_[n_rays_] = input.batch->rays[r];
      spans_[n_rays_] = span;
      indices_[n_rays_++] = r;
    }
    harmonics_.resize(size_t{kDirectionWidth} * n_rays_);
    for (int r = 0; r < n_rays_; ++r) {
      kernels::SphericalHarmonics4(rays_[r].direction,
                                   harmonics_.data() + size_t{kDirectionWidth} * r);
    }
  }

  void Sample(const ProposalInput& input) {
    const NgpSettings& settings = Ngp(*input.config);
    const bool has_end = settings.learned_background != 0;
    proposals_.Resize(n_rays_, settings.proposal_samples);
    samples_.Resize(n_rays_, settings.field_samples);
    for (int r = 0; r < n_rays_; ++r)
      EvenEdges(proposals_.n_per_ray, input.batch->jitters[indices_[r]], proposals_.EdgesOf(r));
    proposals_.Weigh(input.proposal.network, rays_, spans_, has_end);
    for (int r = 0; r < n_rays_; ++r) {
      const auto words = RandomWords(kSampleKey + input.config->seed, RandomUse::kRayJitter,
                                     input.batch->step, static_cast<uint32_t>(indices_[r]));
      ResampledEdges(proposals_.n_per_ray, proposals_.EdgesOf(r),
                     proposals_.weights.data() + r * proposals_.n_per_ray, input.exponent,
                     samples_.n_per_ray, UniformFloat(words[0]), samples_.EdgesOf(r));
    }
    samples_.Weigh(input.field.network, rays_, spans_, has_end);
  }

  // Loss of a ray's color and distortion, and the gradients of its samples.
  void LossOfRay(const ProposalInput& input, int r, LaneOutput* output) {
    const RayBatch& batch = *input.batch;
    const int begin = r * samples_.n_per_ray, end = begin + samples_.n_per_ray;
    const int index = indices_[r];
    Vec3 color, grad_color;
    float transmittance = 1;
    kernels::Distortion distortion, before;
    for (int row = begin; row < end; ++row) {
      color = color + samples_.colors[row] * samples_.weights[row];
      distortion.Add(samples_.weights[row], samples_.Middle(row), samples_.Length(row));
      transmittance *= 1 - samples_.alphas[row];
    }
    color = color + batch.backgrounds[index] * transmittance;
    const kernels::LossShape shape = LossShapeOf(*input.config);
    const float scale = input.config->loss_scale / (3.0f * batch.n_rays);
    const float weight = batch.weights.empty() ? 1.0f : batch.weights[index];
    for (int channel = 0; channel < 3; ++channel) {
      const float residual = color[channel] - batch.targets[index][channel];
      const kernels::ChannelLoss loss = kernels::LossOfResidual(shape, residual);
      grad_color[channel] = scale * weight * loss.derivative;
      output->loss += weight * loss.value / 3.0;
      output->squared_error += static_cast<double>(weight) * residual * residual / 3.0;
    }
    output->loss += static_cast<double>(batch.distortion) * distortion.value;
    const float distortion_scale = batch.distortion * input.config->loss_scale / batch.n_rays;
    float behind = Dot(grad_color, color) + 2 * distortion_scale * distortion.value;
    transmittance = 1;
    for (int row = begin; row < end; ++row) {
      const float w = samples_.weights[row], s = samples_.Middle(row), l = samples_.Length(row);
      const float grad_weight =
          Dot(grad_color, samples_.colors[row]) +
          distortion_scale * kernels::DistortionGradient(distortion, before, w, s, l);
      before.Add(w, s, l);
      samples_.grad_sigmas[row] = kernels::CompositeBackwardStep(
          grad_weight, samples_.alphas[row], w, samples_.deltas[row], &transmittance, &behind);
      samples_.grad_colors[row] = grad_color * w;
    }
  }

  // The gradients of the proposal's densities. Its loss is not part of the step's, which is that of
  // the picture.
  void ProposalLossOfRay(const ProposalInput& input, int r) {
    const int n = proposals_.n_per_ray, begin = r * n;
    grad_weights_.resize(n);
    InterlevelLoss(n, proposals_.EdgesOf(r), proposals_.weights.data() + begin, samples_.n_per_ray,
                   samples_.EdgesOf(r), samples_.weights.data() + r * samples_.n_per_ray,
                   grad_weights_.data());
    const float scale = input.config->loss_scale / static_cast<float>(input.batch->n_rays);
    float behind = 0, transmittance = 1;
    for (int i = 0; i < n; ++i) {
      grad_weights_[i] *= scale;
      behind += grad_weights_[i] * proposals_.weights[begin + i];
    }
    for (int i = 0; i < n; ++i) {
      const int row = begin + i;
      proposals_.grad_sigmas[row] = kernels::CompositeBackwardStep(
          grad_weights_[i], proposals_.alphas[row], proposals_.weights[row], proposals_.deltas[row],
          &transmittance, &behind);
    }
  }

  int n_rays_ = 0;
  Ray rays_[kRaysPerChunk];
  RaySpan spans_[kRaysPerChunk];
  int indices_[kRaysPerChunk];
  std::vector<float> harmonics_, grad_weights_;
  NetworkRows proposals_, samples_;
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
  const ProposalInput input{.config = &config_,
                            .proposal = proposal_.Network(batch.fraction),
                            .field = field_.Network(batch.fraction),
                            .disparity = UsesDisparity(config_, geometry_),
                            .exponent = AnnealedExponent(batch.fraction),
                            .batch = &batch};
  const int n_chunks = (batch.n_rays + kRaysPerChunk - 1) / kRaysPerChunk;
  {
    const TraceSpan span("chunks");
    pool_->ParallelFor(kGradientLanes, [&](int64_t lane, int thread) {
      LaneOutput &proposal = proposal_.lanes[lane], &field = field_.lanes[lane];
      proposal.Clear();
      field.Clear();
      for (int chunk = static_cast<int>(lane); chunk < n_chunks; chunk += kGradientLanes) {
        const int begin = chunk * kRaysPerChunk;
        chunks_[thread].Run(input, begin, std::min(begin + kRaysPerChunk, batch.n_rays), &proposal,
                            &field);
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
