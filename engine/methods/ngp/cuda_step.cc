#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/batch/cuda_pictures.h"
#include "engine/kernels/contract_positions.h"
#include "engine/kernels/cuda/device.h"
#include "engine/kernels/hash_encoding.h"
#include "engine/kernels/lane_sums.h"
#include "engine/kernels/ngp_mlp.h"
#include "engine/kernels/occupancy_update.h"
#include "engine/kernels/spherical_harmonics.h"
#include "engine/methods/ngp/cuda_buffers.h"
#include "engine/methods/ngp/cuda_ranks.h"
#include "engine/methods/ngp/cuda_state.h"
#include "engine/methods/ngp/cuda_step_shape.h"
#include "engine/methods/ngp/cuda_views.h"
#include "engine/methods/ngp/depth_rays.h"
#include "engine/methods/ngp/learned_views.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// Where a march leaves positions that are contracted before they are encoded: in the training
// frame.
constexpr Aabb kUnitCube = {{0, 0, 0}, {1, 1, 1}};

// Features of the levels that take part.
size_t ActiveWidth(const TrainConfig& config, const CudaStepShape& shape) {
  return static_cast<size_t>(Ngp(config).n_features_per_level) * shape.n_levels;
}

size_t BackwardBlocks(const TrainConfig& config) {
  return config.cuda_fp32 != 0 ? cuda::NgpBackwardBlocks<float>() : cuda::NgpBackwardBlocks<Half>();
}

// The fused step of the ngp method on a device (docs/inside/engine.md): one recorded graph from
// rays to updated parameters, whose counts the host sees when it is over. With several ranks it is
// two graphs, one to the gradients and one for the update; what ranks send each other comes between
// and behind them. T is Half or float.
template <typename T>
class NgpCudaStep : public RayStep {
 public:
  NgpCudaStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool,
              std::span<const View> views, const RaySource* source, Group* group,
              const KnownDepths& depths);

  StepResult Run(const PixelBatch& batch) override;
  StepResult RunRays(const RayBatch& batch) override;
  const PictureErrors* Errors() const override {
    const PictureErrors& errors = views_.learned().errors;
    return errors.empty() ? nullptr : &errors;
  }
  std::vector<LensScale> FoundLenses() const override { return views_.learned().focals.Scales(); }
  IndexRange OwnPixels(int n_pixels, double) const override { return ranks_.RaysOf(n_pixels); }
  void CollectState() override;
  void MeasureCosts() override { costs_.emplace(); }
  RankCosts CostsOf(int) const override { return costs_.value_or(RankCosts()); }
  double BytesOfStep(const StepOutlook& step, int n_ranks) const override;
  bool DrawsPixels() const override { return !pictures_.empty(); }
  void Save(TensorFile* file) const override;
  absl::Status Load(const TensorFile& file) override;
  void SaveModel(TensorFile* file) const override;
  absl::Status Initialize(const TensorFile& file) override;
  std::unique_ptr<TrainedModel> Snapshot() const override;
  void Remember() override;
  absl::Status Restore() override;
  double OccupiedFraction() const override { return occupied_fraction_; }
  void ReopenGrid() override;

 protected:
  void MakeRays(const PixelBatch& batch, std::vector<Ray>* rays,
                std::vector<float>* jitters) const override {
    RayStep::MakeRays(batch, rays, jitters);
    views_.learned().CorrectRays(batch, rays);
  }

 private:
  StepResult RunAllRays(const RayBatch& batch);
  void TakeViews(LearnedViews read) {
    views_.Take(std::move(read));
    views_.learned().focals.Apply(&cameras());
  }
  void FindRayGradients();
  kernels::HashGridShape ActiveShape() const;
  // What the field is evaluated with: the masters, or their copies in half precision.
  static const T* Trained(const Buffer<float>& masters, const Buffer<Half>& copies) {
    if constexpr (CudaTraining<T>::kHalf) {
      return copies.data();
    } else {
      return masters.data();
    }
  }
  void Reshape(const CudaStepShape& shape);
  void CopyBatch(const RayBatch& batch);
  void WriteControl(const RayBatch& batch);
  void RunGraph(const cuda::Graph& graph);
  CudaRankCounts RunToFit(const RayBatch& batch);
  void UpdateWithRanks();
  void AddCosts(uint64_t n_trained, SteadyTime begin, const GroupTraffic& before);
  void RecordGraphs();
  void Record();
  cuda::MarchParams March();
  cuda::NgpDensityParams<T> Density(const kernels::DeviceRange& range);
  bool IsContracted() const { return Ngp(config_).contraction != Contraction::kNone; }
  void Contract(const kernels::DeviceRange& range, const Aabb& from);
  void AddHorizons(const cuda::MarchParams& march);
  cuda::NgpRayTerms Terms() const { return {views_.terms(), rays_.batch.views.data()}; }
  void Encode(const kernels::DeviceRange& range);
  void TrainSamples(const kernels::DeviceRange& kept);
  void BackwardMlps(const kernels::DeviceRange& kept);
  void BackwardTable(const kernels::DeviceRange& kept);
  void UpdateWeights(kernels::Stream stream);
  void UpdateTable();
  void UpdateAverages();
  void UpdateGrid(uint32_t step);
  void ProbeCells(uint32_t step);
  void UpdateEmptyDistances();
  void Upload();

  const TrainConfig config_;
  // The host's side of the state: its arrays are those of the device after Download.
  const std::unique_ptr<NgpState> state_;
  cuda::OwnedStream owned_stream_, side_stream_;
  const kernels::Stream stream_ = owned_stream_.get();
  cuda::Event begin_, end_;  // of a graph's run
  const int n_backward_blocks_;
  NgpCudaRanks ranks_;
  CudaState arrays_;
  CudaTraining<T> training_;
  double occupied_fraction_ = 1;
  CudaState remembered_arrays_;
  TensorFile remembered_views_;
  uint32_t remembered_updates_ = 0;
  RayCountState remembered_ray_count_;
  const CudaPictures pictures_;

  const CudaRayNeeds needs_;
  NgpCudaViews views_;
  CudaStepShape shape_;
  CudaRays<T> rays_;
  CudaSamples<T> samples_;
  Buffer<CudaStepControl> control_;
  Buffer<CudaStepCounts> counts_;
  // The host's ends of the graph's copies.
  Buffer<CudaStepControl> host_control_;
  Buffer<CudaStepCounts> host_counts_;
  CudaBatch host_batch_;
  CudaRayResults host_results_;
  const KnownDepths depths_;                   // none where depth is not learned
  RayBatch with_depth_;                        // kept for its memory
  double graph_seconds_ = 0;                   // on the device, of this step's graphs
  std::unique_ptr<cuda::Graph> graph_;         // of shape_; null after it changed
  std::unique_ptr<cuda::Graph> update_graph_;  // with several ranks
  const RealClock clock_;                      // for costs_ alone
  std::optional<RankCosts> costs_;  // of the group's ranks, without the time of exchanges
};

template <typename T>
NgpCudaStep<T>::NgpCudaStep(const TrainConfig& config, const SceneGeometry& geometry,
                            ThreadPool* pool, std::span<const View> views, const RaySource* source,
                            Group* group, const KnownDepths& depths)
    : RayStep(config, geometry, views, pool),
      config_(config),
      state_(std::make_unique<NgpState>(WithoutHalfTable(config), geometry)),
      n_backward_blocks_(cuda::NgpBackwardBlocks<T>()),
      ranks_(group, config, state_->parameters.arrays().table.size(), n_backward_blocks_),
      arrays_(state_->parameters.arrays().table.size(), state_->occupancy.bits().size(),
              cuda::DeviceAllocator()),
      training_(arrays_.table.size(), arrays_.grid_blocks.size(), config.cuda_deterministic != 0,
                n_backward_blocks_, ranks_.n_rows(), cuda::DeviceAllocator()),
      remembered_arrays_(arrays_.table.size(), arrays_.grid_blocks.size(), cuda::DeviceAllocator()),
      pictures_(source, config.seed, stream_),
      needs_(CudaRayNeedsOf(config)),
      views_(config, geometry, source != nullptr ? source->views : views),
      shape_(InitialCudaStepShape(config)),
      rays_(shape_.ray_capacity, needs_, cuda::DeviceAllocator()),
      samples_(shape_.sample_capacity, cuda::DeviceAllocator()),
      control_(1, cuda::DeviceAllocator()),
      counts_(1, cuda::DeviceAllocator()),
      host_control_(1, cuda::PinnedAllocator()),
      host_counts_(1, cuda::PinnedAllocator()),
      host_batch_(source == nullptr ? shape_.ray_capacity : 0, needs_, cuda::PinnedAllocator()),
      host_results_(shape_.ray_capacity, needs_, cuda::PinnedAllocator()),
      depths_(Ngp(config).depth_weight > 0 ? depths : KnownDepths()) {
  // Only the host's rays go where poses are, and to where depths are known.
  NERF_CHECK(source == nullptr || !NeedsRaysOfTheHost(config));
  Upload();
  // Before the first step, whose time counts: kernels are loaded when they are first recorded.
  RecordGraphs();
}

// ---- a step

template <typename T>
StepResult NgpCudaStep<T>::Run(const PixelBatch& batch) {
  const StepResult result = RayStep::Run(batch);
  PictureErrors& errors = views_.learned().errors;
  if (!errors.empty())
    errors.Observe(batch, host_results_.errors.span().first(batch.pixels.size()));
  return result;
}

template <typename T>
StepResult NgpCudaStep<T>::RunRays(const RayBatch& batch) {
  if (depths_.empty()) return RunAllRays(batch);
  with_depth_ = batch;
  AppendDepthRays(depths_, cameras(), views_.learned().poses, state_->geometry.near, config_.seed,
                  &with_depth_);
  StepResult result = RunAllRays(with_depth_);
  // Whoever chooses the number of rays counts those of pixels.
  result.n_rays = batch.n_rays;
  return result;
}

template <typename T>
StepResult NgpCudaStep<T>::RunAllRays(const RayBatch& batch) {
  NERF_CHECK(batch.weights.empty() || needs_.weights);
  const IndexRange rays = ranks_.RaysOf(batch.n_rays);
  // At least as large as at the start: if memory ran out, the last step has no arrays any more.
  Reshape(shape_.WithRays(static_cast<uint32_t>(rays.end - rays.begin))
              .WithSamples(InitialCudaStepShape(config_).sample_capacity)
              .WithLevels(ActiveLevels(config_, batch.fraction)));
  const SteadyTime begin = clock_.Now();
  const GroupTraffic before = ranks_.traffic();
  if (state_->occupancy.IsDue(batch.step)) UpdateGrid(batch.step);
  graph_seconds_ = 0;
  const CudaRankCounts counts = RunToFit(batch);
  if (!ranks_.alone()) UpdateWithRanks();
  ++state_->n_updates;
  views_.Update(state_->parameters, batch, static_cast<int>(state_->n_updates),
                CudaGradientScale(config_, static_cast<uint32_t>(batch.n_rays)).factor,
                host_results_, &cameras());
  if (state_->n_updates % kNgpAverageInterval == 0) UpdateAverages();
  if (costs_.has_value()) AddCosts(counts.n_trained, begin, before);
  StepResult result;
  result.n_rays = batch.n_rays;
  result.n_marched = static_cast<int64_t>(counts.n_marched);
  result.n_trained = static_cast<int64_t>(counts.n_trained);
  result.device_seconds = graph_seconds_;
  result.loss = counts.loss / batch.n_rays;
  result.squared_error = counts.squared_error / batch.n_rays;
  if (host_counts_[0].not_finite != 0 || !views_.learned().appearances.IsFinite())
    result.loss = std::numeric_limits<double>::quiet_NaN();
  return result;
}

// Runs the graph, with larger arrays where samples did not fit, until they do on all ranks. Nothing
// is updated before.
template <typename T>
CudaRankCounts NgpCudaStep<T>::RunToFit(const RayBatch& batch) {
  const CudaStepCounts& device = host_counts_[0];
  CudaRankCounts counts;
  bool fits = false;  // here
  do {
    if (!fits) {
      if (!DrawsPixels()) CopyBatch(batch);
      WriteControl(batch);
      if (graph_ == nullptr) RecordGraphs();
      RunGraph(*graph_);
      fits = device.overflow == 0;
    }
    counts = {.n_trained = device.samples[cuda::kKeptPart], .fits = fits ? 1u : 0u};
    for (int part = 0; part < cuda::kKeptPart; ++part) counts.n_marched += device.samples[part];
    for (int block = 0; block < cuda::kLossBlocks; ++block) {
      counts.loss += device.losses[2 * block];
      counts.squared_error += device.losses[2 * block + 1];
    }
    if (!fits) {
      // What was counted is the least that is needed.
      const CudaStepShape larger = shape_.WithSamples(counts.n_marched);
      if (larger == shape_) throw cuda::CudaOutOfMemory();
      Reshape(larger);
    }
  } while (ranks_.alone() ? !fits : !ranks_.ShareCounts(&counts));
  return counts;
}

template <typename T>
void NgpCudaStep<T>::UpdateWithRanks() {
  ranks_.SumGradients(&training_, stream_);
  RunGraph(*update_graph_);
  ranks_.ShareTable(&training_, &arrays_, stream_);
}

template <typename T>
void NgpCudaStep<T>::AddCosts(uint64_t n_trained, SteadyTime begin, const GroupTraffic& before) {
  const GroupTraffic traffic = ranks_.traffic().Since(before);
  ++costs_->n_steps;
  costs_->n_trained += static_cast<int64_t>(n_trained);
  costs_->seconds += absl::ToDoubleSeconds(clock_.Now() - begin) - traffic.seconds;
  costs_->bytes_received += static_cast<double>(traffic.bytes_received);
}

// Ranks send the whole table, whatever the step.
template <typename T>
double NgpCudaStep<T>::BytesOfStep(const StepOutlook&, int) const {
  if (!costs_.has_value() || costs_->n_steps == 0) return 0;
  return costs_->bytes_received / static_cast<double>(costs_->n_steps);
}

template <typename T>
void NgpCudaStep<T>::RunGraph(const cuda::Graph& graph) {
  begin_.Record(stream_);
  graph.Launch(stream_);
  end_.Record(stream_);
  cuda::Synchronize(stream_);
  graph_seconds_ += end_.SecondsSince(begin_);
}

template <typename T>
void NgpCudaStep<T>::CollectState() {
  if (!ranks_.alone()) ranks_.Collect(&arrays_, stream_);
}

// Makes room. The old arrays go first, so that the new ones may take their place; where those do
// not fit, the next step starts from none.
template <typename T>
void NgpCudaStep<T>::Reshape(const CudaStepShape& shape) {
  if (shape == shape_) return;
  graph_.reset();
  update_graph_.reset();
  if (shape.ray_capacity != shape_.ray_capacity) {
    shape_.ray_capacity = 0;
    rays_ = CudaRays<T>(0, needs_, cuda::DeviceAllocator());
    rays_ = CudaRays<T>(shape.ray_capacity, needs_, cuda::DeviceAllocator());
    host_batch_ =
        CudaBatch(DrawsPixels() ? 0 : shape.ray_capacity, needs_, cuda::PinnedAllocator());
    host_results_ = CudaRayResults(shape.ray_capacity, needs_, cuda::PinnedAllocator());
  }
  if (shape.sample_capacity != shape_.sample_capacity) {
    shape_.sample_capacity = 0;
    samples_ = CudaSamples<T>(0, cuda::DeviceAllocator());
    samples_ = CudaSamples<T>(shape.sample_capacity, cuda::DeviceAllocator());
  }
  if (shape.n_levels != shape_.n_levels) {
    // The features of the other levels, which nothing writes: zeros, as in new arrays.
    const size_t first = ActiveWidth(config_, shape) * shape.sample_capacity;
    cuda::Fill(samples_.encodings.data() + first, 0,
               (samples_.encodings.size() - first) * sizeof(T), stream_);
  }
  shape_ = shape;
}

template <typename T>
void NgpCudaStep<T>::CopyBatch(const RayBatch& batch) {
  const IndexRange rays = ranks_.RaysOf(batch.n_rays);
  const auto copy = [&](const auto& from, auto& to) {
    std::copy(from.begin() + rays.begin, from.begin() + rays.end, to.begin());
  };
  copy(batch.rays, host_batch_.rays);
  copy(batch.jitters, host_batch_.jitters);
  copy(batch.targets, host_batch_.targets);
  copy(batch.backgrounds, host_batch_.backgrounds);
  if (needs_.weights && batch.weights.empty())
    std::fill(host_batch_.weights.begin(), host_batch_.weights.end(), 1.0f);
  if (needs_.weights && !batch.weights.empty()) copy(batch.weights, host_batch_.weights);
  if (needs_.views) {
    NERF_CHECK(batch.views.size() == static_cast<size_t>(batch.n_rays));
    copy(batch.views, host_batch_.views);
  }
  if (needs_.depths && batch.depths.empty())
    std::fill(host_batch_.depths.begin(), host_batch_.depths.end(), 0.0f);
  if (needs_.depths && !batch.depths.empty()) copy(batch.depths, host_batch_.depths);
}

template <typename T>
void NgpCudaStep<T>::WriteControl(const RayBatch& batch) {
  const auto n_rays = static_cast<uint32_t>(batch.n_rays);
  const GradientScale scale = CudaGradientScale(config_, n_rays);
  const int t = static_cast<int>(state_->n_updates) + 1;
  const NgpParameters& parameters = state_->parameters;
  host_control_[0] = {.step = batch.step,
                      .step_scale = batch.step_scale,
                      .distortion = batch.distortion,
                      .gradient_scale = scale.scale,
                      .table = {parameters.TableAdam(batch.learning_rate, t), scale.factor},
                      .weights = {parameters.WeightsAdam(batch.learning_rate, t), scale.factor}};
  ranks_.WriteBounds(batch.n_rays, &host_control_[0]);
}

template <typename T>
void NgpCudaStep<T>::RecordGraphs() {
  graph_ = std::make_unique<cuda::Graph>(stream_, [this] { Record(); });
  if (ranks_.alone()) return;
  update_graph_ = std::make_unique<cuda::Graph>(stream_, [this] {
    UpdateWeights(stream_);
    UpdateTable();
    cuda::CopyToHost(host_counts_.data(), counts_.data(), counts_.byte_size(), stream_);
  });
}

template <typename T>
void NgpCudaStep<T>::Record() {
  const auto copy = [&](auto& to, const auto& from) {
    if (to.empty()) return;
    cuda::CopyToDevice(to.data(), from.data(), to.byte_size(), stream_);
  };
  copy(control_, host_control_);
  const kernels::DeviceRange rays{shape_.ray_capacity, &control_.data()->n_rays};
  if (DrawsPixels()) {
    cuda::SampleRays({.range = rays,
                      .set = pictures_.set(),
                      .step = &control_.data()->step,
                      .first = &control_.data()->first_ray,
                      .rays = rays_.batch.rays.data(),
                      .jitters = rays_.batch.jitters.data(),
                      .targets = rays_.batch.targets.data(),
                      .backgrounds = rays_.batch.backgrounds.data(),
                      .weights = rays_.batch.weights.data(),
                      .views = rays_.batch.views.data()},
                     stream_);
  } else {
    copy(rays_.batch.rays, host_batch_.rays);
    copy(rays_.batch.jitters, host_batch_.jitters);
    copy(rays_.batch.targets, host_batch_.targets);
    copy(rays_.batch.backgrounds, host_batch_.backgrounds);
    copy(rays_.batch.weights, host_batch_.weights);
    copy(rays_.batch.views, host_batch_.views);
    copy(rays_.batch.depths, host_batch_.depths);
  }
  views_.RecordBegin(stream_);
  cuda::Fill(counts_.data(), 0, counts_.byte_size(), stream_);

  cuda::SphericalHarmonics(
      cuda::SphericalHarmonicsParams<T>{
          .range = rays, .rays = rays_.batch.rays.data(), .harmonics = rays_.harmonics.data()},
      stream_);
  const cuda::MarchParams march = March();
  for (int wave = 0; wave < cuda::kWaves; ++wave) {
    cuda::MarchWave(march, wave, stream_);
    const kernels::DeviceRange found{shape_.sample_capacity, march.counts, wave};
    if (IsContracted()) Contract(found, kUnitCube);
    Encode(found);
    cuda::NgpDensityParams<T> density = Density(found);
    density.deltas = samples_.deltas.data();
    density.alphas = samples_.alphas.data();
    density.geometry = samples_.geometry.data();
    density.cells = samples_.cells.data();
    density.step_length = state_->occupancy.step_length();
    density.skip = &counts_.data()->overflow;
    density.values = arrays_.grid_values.data();
    cuda::NgpDensity(density, stream_);
  }
  if (needs_.horizons) AddHorizons(march);
  cuda::CompactSamples(march, stream_);
  // Where samples did not fit, none is kept, and what follows has nothing to do.
  const kernels::DeviceRange kept{shape_.sample_capacity, march.counts + cuda::kKeptPart};
  TrainSamples(kept);
  if (needs_.gradients) FindRayGradients();
  if (ranks_.alone()) {
    // The MLPs' weights in a stream of their own, beside the scatter into the table that takes
    // longer.
    const kernels::Stream side = side_stream_.get();
    cuda::WaitFor(side, stream_);
    UpdateWeights(side);
    BackwardTable(kept);
    UpdateTable();
    cuda::WaitFor(stream_, side);
  } else {
    BackwardTable(kept);
  }
  views_.RecordEnd(stream_);
  const auto bring = [&](auto& to, const auto& from) {
    if (!to.empty()) cuda::CopyToHost(to.data(), from.data(), to.byte_size(), stream_);
  };
  bring(host_results_.errors, rays_.results.errors);
  bring(host_results_.gradients, rays_.results.gradients);
  cuda::CopyToHost(host_counts_.data(), counts_.data(), counts_.byte_size(), stream_);
}

// The field infinitely far away, behind rays with light left.
template <typename T>
void NgpCudaStep<T>::AddHorizons(const cuda::MarchParams& march) {
  cuda::AddHorizons(march, stream_);
  const kernels::DeviceRange horizons{shape_.sample_capacity, march.counts, cuda::kHorizonPart};
  Encode(horizons);
  cuda::NgpDensityParams<T> density = Density(horizons);
  density.geometry = samples_.geometry.data();  // their opacity is 1, whatever the density
  cuda::NgpDensity(density, stream_);
}

// Brings positions in the unit cube of `from` to where the encoding has them.
template <typename T>
void NgpCudaStep<T>::Contract(const kernels::DeviceRange& range, const Aabb& from) {
  const Aabb& inner = state_->geometry.box;
  cuda::ContractPositions({.range = range,
                           .kind = Ngp(config_).contraction,
                           .origin = from.min,
                           .scale = from.Size(),
                           .center = inner.Center(),
                           .inverse_half_side = 2 / inner.Size().x,
                           .positions = samples_.positions.data()},
                          stream_);
}

// What every evaluation of densities has.
template <typename T>
cuda::NgpDensityParams<T> NgpCudaStep<T>::Density(const kernels::DeviceRange& range) {
  cuda::NgpDensityParams<T> density;
  density.range = range;
  density.weights = Trained(arrays_.weights, training_.weight_copies);
  density.encodings = samples_.encodings.data();
  density.stride = shape_.sample_capacity;
  density.shift = state_->density_shift();
  density.sigmas = samples_.sigmas.data();
  return density;
}

template <typename T>
cuda::MarchParams NgpCudaStep<T>::March() {
  const Aabb box = IsContracted() ? kUnitCube : state_->OuterBox();
  const Vec3 size = box.Size();
  cuda::MarchParams march;
  march.grid = MarchGridOf(state_->occupancy.grid());
  march.grid.blocks = arrays_.grid_blocks.data();
  march.grid.empty_distances = training_.empty_distances.data();
  march.steps = state_->steps();
  march.step_scale = &control_.data()->step_scale;
  march.box_min = box.min;
  march.inverse_box_size = {1 / size.x, 1 / size.y, 1 / size.z};
  march.min_transmittance = MinTransmittance(config_);
  march.alpha_threshold = config_.alpha_threshold;
  march.ray_capacity = shape_.ray_capacity;
  march.n_rays = &control_.data()->n_rays;
  march.rays = rays_.batch.rays.data();
  march.jitters = rays_.batch.jitters.data();
  march.states = rays_.states.data();
  march.segments = rays_.segments.data();
  march.alive = rays_.alive.data();
  march.alive_counts = counts_.data()->alive;
  march.sample_capacity = shape_.sample_capacity;
  march.counts = counts_.data()->samples;
  march.overflow = &counts_.data()->overflow;
  march.t_middles = samples_.t_middles.data();
  march.deltas = samples_.deltas.data();
  march.cells = samples_.cells.data();
  march.ray_of = samples_.ray_of.data();
  march.positions = samples_.positions.data();
  march.alphas = samples_.alphas.data();
  march.weights = samples_.weights.data();
  march.block_sums = rays_.block_sums.data();
  march.ray_offsets = rays_.offsets.data();
  march.rows = samples_.rows.data();
  march.horizons = needs_.horizons ? rays_.horizons.data() : nullptr;
  march.contraction = Ngp(config_).contraction;
  return march;
}

// The levels of the encoding that take part.
template <typename T>
kernels::HashGridShape NgpCudaStep<T>::ActiveShape() const {
  kernels::HashGridShape shape = state_->parameters.shape();
  shape.n_levels = shape_.n_levels;
  return shape;
}

// Of one ray in kPoseRays.
template <typename T>
void NgpCudaStep<T>::FindRayGradients() {
  const Vec3 size = IsContracted() ? state_->geometry.box.Size() * 0.5f : state_->OuterBox().Size();
  cuda::RayGradients({.shape = ActiveShape(),
                      .table = arrays_.table.data(),
                      .ray_capacity = shape_.ray_capacity,
                      .n_rays = &control_.data()->n_rays,
                      .step = &control_.data()->step,
                      .period = kPoseRays,
                      .ray_offsets = rays_.offsets.data(),
                      .rows = samples_.rows.data(),
                      .positions = samples_.positions.data(),
                      .t_middles = samples_.t_middles.data(),
                      .deltas = samples_.deltas.data(),
                      .grad_features = samples_.grad_encodings.data(),
                      .stride = shape_.sample_capacity,
                      .contraction = Ngp(config_).contraction,
                      .scale = {1 / size.x, 1 / size.y, 1 / size.z},
                      .gradients = rays_.results.gradients.data()},
                     stream_);
}

template <typename T>
void NgpCudaStep<T>::Encode(const kernels::DeviceRange& range) {
  cuda::HashEncodeForward(
      cuda::HashEncodeForwardParams<T>{.shape = ActiveShape(),
                                       .table = Trained(arrays_.table, training_.table_copies),
                                       .range = range,
                                       .positions = samples_.positions.data(),
                                       .features = samples_.encodings.data(),
                                       .stride = shape_.sample_capacity},
      stream_);
}

// Color, loss and the backward pass down to the encodings of the samples that count.
template <typename T>
void NgpCudaStep<T>::TrainSamples(const kernels::DeviceRange& kept) {
  cuda::NgpColor(
      cuda::NgpColorParams<T>{.range = kept,
                              .weights = Trained(arrays_.weights, training_.weight_copies),
                              .rows = samples_.rows.data(),
                              .ray_of = samples_.ray_of.data(),
                              .harmonics = rays_.harmonics.data(),
                              .geometry = samples_.geometry.data(),
                              .colors = samples_.colors.data(),
                              .terms = Terms()},
      stream_);
  cuda::CompositeLoss({.ray_capacity = shape_.ray_capacity,
                       .n_rays = &control_.data()->n_rays,
                       .ray_offsets = rays_.offsets.data(),
                       .rows = samples_.rows.data(),
                       .alphas = samples_.alphas.data(),
                       .deltas = samples_.deltas.data(),
                       .sigmas = samples_.sigmas.data(),
                       .weights = samples_.weights.data(),
                       .t_middles = samples_.t_middles.data(),
                       .steps = state_->steps(),
                       .step_scale = &control_.data()->step_scale,
                       .colors = samples_.colors.data(),
                       .targets = rays_.batch.targets.data(),
                       .backgrounds = rays_.batch.backgrounds.data(),
                       .gradient_scale = &control_.data()->gradient_scale,
                       .loss = LossShapeOf(config_),
                       .distortion = &control_.data()->distortion,
                       .grads = samples_.grads.data(),
                       .losses = counts_.data()->losses,
                       .extras = {.has_horizons = needs_.horizons,
                                  .ray_weights = rays_.batch.weights.data(),
                                  .views = rays_.batch.views.data(),
                                  .view_gains = views_.gains(),
                                  .grad_log_gains = views_.grad_log_gains(),
                                  .depths = rays_.batch.depths.data(),
                                  .depth_weight = Ngp(config_).depth_weight,
                                  .near_gradients = Ngp(config_).near_gradients,
                                  .ray_errors = rays_.results.errors.data()}},
                      stream_);
  if (ranks_.n_rows() == 0) {
    BackwardMlps(kept);
    return;
  }
  // Row by row, each of which starts at the first block, so that its sums depend on its rays alone.
  const IndexRange rows = ranks_.own_rows();
  const int n_own = rows.end - rows.begin;
  if (n_own == 0) return;
  cuda::CountInRanges({.n = n_own,
                       .bounds = control_.data()->row_rays,
                       .offsets = rays_.offsets.data(),
                       .counts = training_.row_samples.data()},
                      stream_);
  for (int i = 0; i < n_own; ++i) {
    BackwardMlps({shape_.sample_capacity, training_.row_samples.data(), i});
    cuda::SumRows({.n_rows = n_backward_blocks_,
                   .n = kNgpWeights,
                   .rows = training_.weight_gradients.data(),
                   .sums = training_.row_gradients.data() +
                           static_cast<size_t>(kNgpWeights) * (rows.begin + i)},
                  stream_);
  }
}

template <typename T>
void NgpCudaStep<T>::BackwardMlps(const kernels::DeviceRange& range) {
  cuda::NgpBackward(
      cuda::NgpBackwardParams<T>{.range = range,
                                 .n_blocks = n_backward_blocks_,
                                 .weights = Trained(arrays_.weights, training_.weight_copies),
                                 .rows = samples_.rows.data(),
                                 .ray_of = samples_.ray_of.data(),
                                 .harmonics = rays_.harmonics.data(),
                                 .encodings = samples_.encodings.data(),
                                 .stride = shape_.sample_capacity,
                                 .grads = samples_.grads.data(),
                                 .grad_encodings = samples_.grad_encodings.data(),
                                 .grad_stride = shape_.sample_capacity,
                                 .weight_gradients = training_.weight_gradients.data(),
                                 .terms = Terms(),
                                 .grad_terms = views_.grad_terms()},
      stream_);
}

template <typename T>
void NgpCudaStep<T>::UpdateWeights(kernels::Stream stream) {
  if (Ngp(config_).frozen == Frozen::kMlp) return;
  const bool by_rows = ranks_.n_rows() > 0;
  const Buffer<float>& gradients = by_rows ? training_.row_gradients : training_.weight_gradients;
  cuda::AdamDense({.settings = &control_.data()->weights,
                   .skip = &counts_.data()->overflow,
                   .n = kNgpWeights,
                   .n_parts = by_rows ? ranks_.n_rows() : n_backward_blocks_,
                   .gradients = gradients.data(),
                   .parameters = arrays_.weights.data(),
                   .first_moments = arrays_.weights_first.data(),
                   .second_moments = arrays_.weights_second.data(),
                   .half_copies = training_.weight_copies.data(),
                   .not_finite = &counts_.data()->not_finite},
                  stream);
}

template <typename T>
void NgpCudaStep<T>::BackwardTable(const kernels::DeviceRange& kept) {
  if (Ngp(config_).frozen == Frozen::kTable) return;
  cuda::HashEncodeBackward({.shape = ActiveShape(),
                            .range = kept,
                            .positions = samples_.positions.data(),
                            .rows = samples_.rows.data(),
                            .grad_features = samples_.grad_encodings.data(),
                            .stride = shape_.sample_capacity,
                            .grad_table = training_.table_gradients.data(),
                            .fixed_grad_table = training_.fixed_table_gradients.data()},
                           stream_);
}

// Of the part that this rank owns.
template <typename T>
void NgpCudaStep<T>::UpdateTable() {
  if (Ngp(config_).frozen == Frozen::kTable) return;
  const ElementRange own = ranks_.own_table();
  const auto from = [&own](auto& array) {
    return array.empty() ? nullptr : array.data() + own.begin;
  };
  cuda::AdamSparse({.settings = &control_.data()->table,
                    .skip = &counts_.data()->overflow,
                    .n = static_cast<int64_t>(own.size()),
                    .gradients = from(training_.table_gradients),
                    .fixed_gradients = from(training_.fixed_table_gradients),
                    .parameters = from(arrays_.table),
                    .first_moments = from(arrays_.table_first),
                    .second_moments = from(arrays_.table_second),
                    .half_copies = from(training_.table_copies)},
                   stream_);
}

template <typename T>
void NgpCudaStep<T>::UpdateAverages() {
  const float decay = AverageDecay(config_, kNgpAverageInterval);
  const auto average = [&](const Buffer<float>& parameters, ElementRange part,
                           Buffer<float>& averages) {
    cuda::MovingAverage({.decay = decay,
                         .n = static_cast<int64_t>(part.size()),
                         .parameters = parameters.data() + part.begin,
                         .averages = averages.data() + part.begin},
                        stream_);
  };
  average(arrays_.table, ranks_.own_table(), arrays_.table_average);
  average(arrays_.weights, {0, arrays_.weights.size()}, arrays_.weights_average);
  views_.learned().appearances.UpdateAverages(decay);
}

// ---- the occupancy grid

template <typename T>
void NgpCudaStep<T>::UpdateGrid(uint32_t step) {
  // All ranks probe all cells: they have the same field, and then the same grid.
  if (!ranks_.alone()) ranks_.ShareGrid(&arrays_, stream_);
  ProbeCells(step);
  if (state_->occupancy.Spreads(step)) {
    cuda::SpreadBlockMaximum({.n_blocks = static_cast<uint32_t>(arrays_.grid_blocks.size()),
                              .values = arrays_.grid_values.data()},
                             stream_);
  }
  cuda::Fill(training_.n_occupied.data(), 0, sizeof(uint32_t), stream_);
  cuda::SetOccupiedBits({.n_blocks = static_cast<uint32_t>(arrays_.grid_blocks.size()),
                         .values = arrays_.grid_values.data(),
                         .threshold = config_.grid_threshold,
                         .sums = training_.grid_sums.data(),
                         .blocks = arrays_.grid_blocks.data(),
                         .n_occupied = training_.n_occupied.data()},
                        stream_);
  UpdateEmptyDistances();
  uint32_t n_occupied = 0;
  cuda::CopyToHost(&n_occupied, training_.n_occupied.data(), sizeof(n_occupied), stream_);
  cuda::Synchronize(stream_);
  occupied_fraction_ = n_occupied / (64.0 * arrays_.grid_blocks.size());
}

template <typename T>
void NgpCudaStep<T>::UpdateEmptyDistances() {
  const OccupancyGrid& grid = state_->occupancy.grid();
  cuda::EmptyDistances({.n_levels = grid.n_levels,
                        .side = static_cast<uint32_t>(grid.resolution / 4),
                        .blocks = arrays_.grid_blocks.data(),
                        .distances = training_.empty_distances.data(),
                        .along_axis = training_.distances_along_axis.data()},
                       stream_);
}

// As many blocks at a time as the samples' arrays hold points of.
template <typename T>
void NgpCudaStep<T>::ProbeCells(uint32_t step) {
  const OccupancyUpdater& occupancy = state_->occupancy;
  const OccupancyGrid& host_grid = occupancy.grid();
  const Aabb outer = state_->OuterBox();
  const kernels::ProbePeriods periods = occupancy.Periods(step);
  const auto n_blocks = static_cast<uint32_t>(arrays_.grid_blocks.size());
  const int shortest = std::min(periods.occupied, periods.empty);
  const uint32_t at_once = std::max(1u, shape_.sample_capacity / (64 / shortest));
  for (uint32_t first = 0; first < n_blocks; first += at_once) {
    cuda::Fill(training_.n_points.data(), 0, sizeof(uint32_t), stream_);
    cuda::ProbeCells({.first_block = first,
                      .end_block = std::min(first + at_once, n_blocks),
                      .resolution = host_grid.resolution,
                      .center = host_grid.box.Center(),
                      .half_size = host_grid.box.Size() * 0.5f,
                      .box_min = outer.min,
                      .box_size = outer.Size(),
                      .seed = config_.seed,
                      .step = step,
                      .update = occupancy.UpdateNumber(step),
                      .periods = periods,
                      .blocks = arrays_.grid_blocks.data(),
                      .decay = config_.grid_decay,
                      .values = arrays_.grid_values.data(),
                      .capacity = shape_.sample_capacity,
                      .count = training_.n_points.data(),
                      .positions = samples_.positions.data(),
                      .cells = samples_.cells.data()},
                     stream_);
    const kernels::DeviceRange points{shape_.sample_capacity, training_.n_points.data()};
    if (IsContracted()) Contract(points, outer);
    Encode(points);
    cuda::NgpDensityParams<T> density = Density(points);
    density.cells = samples_.cells.data();
    density.step_length = occupancy.step_length();
    density.values = arrays_.grid_values.data();
    cuda::NgpDensity(density, stream_);
  }
}

// ---- files

template <typename T>
void NgpCudaStep<T>::Upload() {
  nerf::Upload(state_.get(), &arrays_, stream_);
  const auto copies_of = [&](const Buffer<float>& masters, std::span<const float> host,
                             Buffer<Half>& copies) {
    if (copies.empty()) return;
    std::vector<Half> rounded(masters.size());
    std::transform(host.begin(), host.end(), rounded.begin(), HalfFromFloat);
    cuda::CopyToDevice(copies.data(), rounded.data(), copies.byte_size(), stream_);
    cuda::Synchronize(stream_);
  };
  const NgpParameters::Arrays host = state_->parameters.arrays();
  copies_of(arrays_.table, host.table, training_.table_copies);
  copies_of(arrays_.weights, host.weights, training_.weight_copies);
  UpdateEmptyDistances();
  cuda::Synchronize(stream_);
  occupied_fraction_ = state_->occupancy.grid().OccupiedFraction();
}

// On the device, because the copy is made often and hardly ever needed.
template <typename T>
void NgpCudaStep<T>::Remember() {
  Copy(arrays_, &remembered_arrays_, stream_);
  remembered_views_ = TensorFile();
  views_.learned().Save(&remembered_views_);
  remembered_updates_ = state_->n_updates;
  remembered_ray_count_ = ray_count().state();
}

template <typename T>
absl::Status NgpCudaStep<T>::Restore() {
  NERF_ASSIGN_OR_RETURN(LearnedViews views, views_.learned().Read(remembered_views_));
  TakeViews(std::move(views));
  Download(remembered_arrays_, state_.get(), stream_);
  state_->n_updates = remembered_updates_;
  ray_count().Restore(remembered_ray_count_);
  Upload();
  return absl::OkStatus();
}

template <typename T>
void NgpCudaStep<T>::Save(TensorFile* file) const {
  Download(arrays_, state_.get(), stream_);
  state_->Save(file);
  ray_count().Save(file);
  views_.learned().Save(file);
}

template <typename T>
absl::Status NgpCudaStep<T>::Load(const TensorFile& file) {
  NERF_ASSIGN_OR_RETURN(const RayCountState rays, RayCountController::Load(file));
  NERF_ASSIGN_OR_RETURN(LearnedViews views, views_.learned().Read(file));
  NERF_RETURN_IF_ERROR(state_->Load(file));
  TakeViews(std::move(views));
  ray_count().Restore(rays);
  Upload();
  return absl::OkStatus();
}

template <typename T>
void NgpCudaStep<T>::SaveModel(TensorFile* file) const {
  DownloadModel(arrays_, state_.get(), stream_);
  state_->SaveModel(file);
  views_.learned().SaveModel(file);
}

template <typename T>
absl::Status NgpCudaStep<T>::Initialize(const TensorFile& file) {
  NERF_RETURN_IF_ERROR(state_->Initialize(file));
  Upload();
  return absl::OkStatus();
}

template <typename T>
std::unique_ptr<TrainedModel> NgpCudaStep<T>::Snapshot() const {
  DownloadModel(arrays_, state_.get(), stream_);
  return state_->Snapshot();
}

template <typename T>
void NgpCudaStep<T>::ReopenGrid() {
  Download(arrays_, state_.get(), stream_);
  state_->occupancy.Reopen();
  Upload();
}

}  // namespace

std::unique_ptr<RayStep> NewNgpCudaStep(const TrainConfig& config, const SceneGeometry& geometry,
                                        const RaySource* source, std::span<const View> views,
                                        ThreadPool* pool, Group* group, const KnownDepths& depths) {
  if (config.cuda_fp32 != 0) {
    return std::make_unique<NgpCudaStep<float>>(config, geometry, pool, views, source, group,
                                                depths);
  }
  return std::make_unique<NgpCudaStep<Half>>(config, geometry, pool, views, source, group, depths);
}

size_t NgpCudaStepBytes(const TrainConfig& config, const SceneGeometry& geometry, int n_ranks,
                        size_t n_views) {
  return CudaStepBytes(config, geometry, LargestCudaStepShape(config), BackwardBlocks(config),
                       n_ranks, n_views);
}

bool NeedsRaysOfTheHost(const TrainConfig& config) {
  const NgpSettings& settings = Ngp(config);
  return settings.pose_rate > 0 || settings.focal_rate > 0 || settings.depth_weight > 0 ||
         settings.error_share > 0 || settings.coarse_pictures > 0;
}

absl::Status CheckNgpCudaTraining(const TrainConfig& config) {
  const size_t needed = config.cuda_fp32 != 0 ? cuda::NgpBackwardSharedBytes<float>()
                                              : cuda::NgpBackwardSharedBytes<Half>();
  const size_t there = cuda::MaxSharedBytesPerBlock();
  if (needed <= there) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "a block has {} KiB of shared memory and the backward pass needs {}{}", there >> 10,
      needed >> 10, config.cuda_fp32 != 0 ? "; without cuda_fp32 it needs less" : ""));
}

}  // namespace nerf
