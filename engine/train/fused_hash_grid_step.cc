#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "engine/field/ngp_field.h"
#include "engine/render/renderer.h"
#include "engine/train/ngp.h"
#include "engine/train/ngp_chunk.h"
#include "engine/train/ngp_parameters.h"
#include "engine/train/occupancy_updater.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kChunkSamples =
    512;  // trained samples that a chunk should have, so that its activations fit L2
constexpr int kAverageInterval = 16;  // steps between updates of the moving average
constexpr const char* kGridValuesName = "occupancy.values";
constexpr const char* kGridBitsName = "occupancy.bits";
constexpr const char* kUpdatesName = "step.updates";

std::vector<uint32_t> GridBitsShape(const OccupancyGrid& grid) {
  return {static_cast<uint32_t>(grid.n_levels), static_cast<uint32_t>(grid.resolution),
          static_cast<uint32_t>(grid.resolution), static_cast<uint32_t>(grid.resolution / 8)};
}

Tensor GridBitsTensor(const OccupancyGrid& grid) {
  Tensor tensor{DType::kU8, GridBitsShape(grid), {}};
  tensor.bytes.resize(grid.occupied_blocks.size() * 8);
  std::memcpy(tensor.bytes.data(), grid.occupied_blocks.data(), tensor.bytes.size());
  return tensor;
}

absl::StatusOr<OccupancyGrid> GridFromTensor(const TensorFile& file,
                                             const SceneGeometry& geometry) {
  const auto found = file.tensors.find(kGridBitsName);
  if (found == file.tensors.end()) {
    return absl::InvalidArgumentError(fmt::format("tensor {} is missing", kGridBitsName));
  }
  const Tensor& tensor = found->second;
  const std::vector<uint32_t>& s = tensor.shape;
  const bool fits = tensor.dtype == DType::kU8 && s.size() == 4 &&
                    s[0] == static_cast<uint32_t>(geometry.n_levels) && s[1] >= 32 && s[1] <= 256 &&
                    s[1] % 8 == 0 && s[2] == s[1] && s[3] == s[1] / 8;
  if (!fits) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is {} [{}], not an occupancy grid of {} levels", kGridBitsName,
                    DTypeName(tensor.dtype), fmt::join(s, ", "), geometry.n_levels));
  }
  OccupancyGrid grid = FullOccupancyGrid(geometry.box, geometry.n_levels, static_cast<int>(s[1]));
  std::memcpy(grid.occupied_blocks.data(), tensor.bytes.data(), tensor.bytes.size());
  return grid;
}

Aabb OuterBox(const SceneGeometry& geometry) {
  return geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)));
}

// The fused step of the ngp method: chunks of rays through march, encode, density, compaction,
// colour, composite, loss and backward on all threads, then scatter and Adam level by level
// (docs/engine.md).
class FusedHashGridStep : public TrainingStep {
 public:
  FusedHashGridStep(const TrainConfig& config, const SceneGeometry& geometry, ThreadPool* pool)
      : config_(config),
        geometry_(geometry),
        pool_(pool),
        parameters_(config, NgpHashGridShape(config.log2_hashmap_size, geometry.n_levels)),
        occupancy_(config, geometry),
        chunks_(pool->n_threads()) {
    parameters_.InitializeRandomly();
  }

  StepResult Run(const Batch& batch) override;
  void Save(TensorFile* file) const override;
  absl::Status Load(const TensorFile& file) override;
  void SaveModel(TensorFile* file) const override;
  absl::Status Initialize(const TensorFile& file) override;
  TrainedModel Snapshot() const override;
  double OccupiedFraction() const override { return occupancy_.grid().OccupiedFraction(); }
  void ReopenGrid() override { occupancy_.Reopen(); }

 private:
  NgpNetwork Network() const {
    return {parameters_.shape(), OuterBox(geometry_), parameters_.table(), parameters_.weights()};
  }
  void RunChunks(const Batch& batch);
  void UpdateParameters(const Batch& batch);

  const TrainConfig config_;
  const SceneGeometry geometry_;
  ThreadPool* const pool_;
  NgpParameters parameters_;
  OccupancyUpdater occupancy_;
  std::vector<NgpChunk> chunks_;  // one a thread
  LaneOutput lanes_[kGradientLanes];
  uint32_t n_updates_ = 0;  // of Adam, since the moments started
};

StepResult FusedHashGridStep::Run(const Batch& batch) {
  if (occupancy_.IsDue(batch.step)) occupancy_.Update(Network(), batch.step, pool_);
  RunChunks(batch);
  StepResult result;
  result.n_rays = batch.n_rays;
  for (const LaneOutput& lane : lanes_) {
    result.loss += lane.loss / batch.n_rays;
    result.squared_error += lane.squared_error / batch.n_rays;
    result.n_marched += lane.n_marched;
    result.n_trained += lane.n_trained;
  }
  UpdateParameters(batch);
  return result;
}

void FusedHashGridStep::RunChunks(const Batch& batch) {
  ChunkInput input{.config = &config_,
                   .network = Network(),
                   .transposed_weights = parameters_.transposed_weights(),
                   .grid = MarchGridOf(occupancy_.grid()),
                   .steps = {config_.step > 0 ? config_.step : geometry_.step,
                             config_.cone >= 0 ? config_.cone : geometry_.cone},
                   .batch = &batch};
  // Long rays make small chunks. A function of the batch alone, so the same for any number of
  // threads.
  const double chunk_rays =
      static_cast<double>(kChunkSamples) * batch.n_rays / config_.target_samples;
  const int rays_per_chunk = std::clamp(static_cast<int>(chunk_rays), 4, 64);
  const int n_chunks = (batch.n_rays + rays_per_chunk - 1) / rays_per_chunk;
  pool_->ParallelFor(kGradientLanes, [&](int64_t lane, int thread) {
    LaneOutput& output = lanes_[lane];
    output.Clear();
    output.weight_gradients = parameters_.weight_gradients(static_cast<int>(lane));
    for (int chunk = static_cast<int>(lane); chunk < n_chunks; chunk += kGradientLanes) {
      const int begin = chunk * rays_per_chunk;
      chunks_[thread].Run(input, begin, std::min(begin + rays_per_chunk, batch.n_rays), &output);
    }
  });
}

void FusedHashGridStep::UpdateParameters(const Batch& batch) {
  const int t = static_cast<int>(++n_updates_);
  const kernels::HashGridShape& shape = parameters_.shape();
  // Levels from the finest, which miss the caches most; then the small tasks.
  pool_->ParallelFor(shape.n_levels + 2, [&](int64_t task, int) {
    if (task == shape.n_levels) {
      for (const LaneOutput& lane : lanes_) occupancy_.Observe(lane.cells, lane.sigmas);
      return;
    }
    if (task == shape.n_levels + 1) {
      parameters_.UpdateWeights(batch.learning_rate, t);
      return;
    }
    const int level = shape.n_levels - 1 - static_cast<int>(task);
    for (const LaneOutput& lane : lanes_) {
      kernels::cpu::HashEncodeBackward({.shape = &shape,
                                        .level = level,
                                        .n = static_cast<int>(lane.positions.size()),
                                        .positions = lane.positions.data(),
                                        .grad_features = lane.grad_encodings.data() + 2 * level,
                                        .stride = kEncodingWidth,
                                        .grad_table = parameters_.table_gradients(level),
                                        .touched = parameters_.touched(level)});
    }
    parameters_.UpdateTableLevel(level, batch.learning_rate, t);
  });
  if (n_updates_ % kAverageInterval == 0) parameters_.UpdateAverages(kAverageInterval, pool_);
}

void FusedHashGridStep::Save(TensorFile* file) const {
  parameters_.Save(file);
  const auto resolution = static_cast<uint32_t>(occupancy_.grid().resolution);
  file->tensors[kGridValuesName] = TensorFromFloats(
      occupancy_.values().data(),
      {static_cast<uint32_t>(geometry_.n_levels), resolution, resolution, resolution}, DType::kF32);
  file->tensors[kGridBitsName] = GridBitsTensor(occupancy_.grid());
  file->metadata[kUpdatesName] = std::to_string(n_updates_);
}

absl::Status FusedHashGridStep::Load(const TensorFile& file) {
  absl::StatusOr<OccupancyGrid> grid = GridFromTensor(file, geometry_);
  if (!grid.ok()) return grid.status();
  const auto values = file.tensors.find(kGridValuesName);
  if (values == file.tensors.end() || values->second.dtype != DType::kF32 ||
      values->second.n_elements() != occupancy_.values().size() ||
      grid->resolution != occupancy_.grid().resolution) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {} is missing or does not fit the config", kGridValuesName));
  }
  const auto updates = file.metadata.find(kUpdatesName);
  uint32_t n_updates = 0;
  if (updates == file.metadata.end() || !absl::SimpleAtoi(updates->second, &n_updates)) {
    return absl::InvalidArgumentError(
        fmt::format("metadata {} is missing or not a number", kUpdatesName));
  }
  if (absl::Status status = parameters_.Load(file); !status.ok()) return status;
  occupancy_.bits() = std::move(grid->occupied_blocks);
  std::memcpy(occupancy_.values().data(), values->second.bytes.data(),
              occupancy_.values().byte_size());
  n_updates_ = n_updates;
  return absl::OkStatus();
}

void FusedHashGridStep::SaveModel(TensorFile* file) const {
  parameters_.SaveModel(file);
  file->tensors[kGridBitsName] = GridBitsTensor(occupancy_.grid());
}

absl::Status FusedHashGridStep::Initialize(const TensorFile& file) {
  return parameters_.Initialize(file);
}

TrainedModel FusedHashGridStep::Snapshot() const {
  return {
      std::make_unique<NgpField>(parameters_.shape(), OuterBox(geometry_),
                                 parameters_.EvaluationTable(), parameters_.EvaluationWeights()),
      occupancy_.grid()};
}

}  // namespace

std::unique_ptr<TrainingStep> NewFusedHashGridStep(const TrainConfig& config,
                                                   const SceneGeometry& geometry,
                                                   ThreadPool* pool) {
  return std::make_unique<FusedHashGridStep>(config, geometry, pool);
}

size_t FusedHashGridStepBytes(const TrainConfig& config, const SceneGeometry& geometry,
                              int n_threads) {
  const size_t cells = static_cast<size_t>(geometry.n_levels) * config.grid_resolution *
                       config.grid_resolution * config.grid_resolution;
  const size_t lanes = static_cast<size_t>(config.target_samples) * 2 *
                       (kEncodingWidth * sizeof(float) + sizeof(Vec3));
  const size_t chunks = static_cast<size_t>(n_threads) * (16 << 20);
  return NgpParameters::ByteSize(config) + cells * sizeof(float) + cells / 8 + lanes + chunks;
}

absl::StatusOr<TrainedModel> LoadNgpModel(const TensorFile& file, const SceneGeometry& geometry) {
  absl::StatusOr<NgpEvaluationParameters> parameters = ReadNgpEvaluationParameters(file);
  if (!parameters.ok()) return parameters.status();
  absl::StatusOr<OccupancyGrid> grid = GridFromTensor(file, geometry);
  if (!grid.ok()) return grid.status();
  TrainedModel model;
  model.field = std::make_unique<NgpField>(
      NgpHashGridShape(parameters->log2_hashmap_size, geometry.n_levels), OuterBox(geometry),
      std::move(parameters->table), std::move(parameters->weights));
  model.grid = *std::move(grid);
  return model;
}

}  // namespace nerf
