#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/kernels/tile_samples.h"
#include "engine/methods/ngp/cuda/cuda_network.h"
#include "engine/methods/ngp/describe/ngp_memory.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_tiles/cuda_tiles.h"
#include "engine/methods/ngp_tiles/joint_tiles.h"
#include "engine/methods/ngp_tiles/tiled_step.h"
#include "engine/train/cuda_field_step.h"
#include "engine/train/schedule.h"
#include "fmt/format.h"

// Tiles that are trained jointly, on a device: a sample is evaluated by the network of its tile.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// The samples that lie in a tile, of up to `capacity`.
struct ListedSamples {
  ListedSamples(size_t capacity, BufferAllocator* from)
      : count(1, from),
        rows(capacity, from),
        ray_of(capacity, from),
        weights(capacity, from),
        positions(capacity, from) {}
  Buffer<uint32_t> count, rows, ray_of;
  Buffer<float> weights;
  Buffer<Vec3> positions;
};

// What the tiles work with in turn.
struct TileOutputs {
  TileOutputs(size_t capacity, BufferAllocator* from)
      : sigmas(capacity, from), colors(capacity, from), grads(4 * capacity, from) {}
  Buffer<float> sigmas;
  Buffer<Vec3> colors;
  Buffer<float> grads;
};

template <typename T>
class JointCudaField final : public CudaField {
 public:
  JointCudaField(const TrainConfig& config, const SceneGeometry& geometry, const Scene& scene)
      : config_(config),
        tiles_(WithoutHalfTable(config), geometry, CutsOf(config, geometry, scene)),
        cuts_(tiles_.cuts().cuts().size(), cuda::DeviceAllocator()),
        outputs_(0, cuda::DeviceAllocator()) {
    for (int tile = 0; tile < tiles_.size(); ++tile) {
      networks_.push_back(std::make_unique<NgpCudaNetwork<T>>(
          config, tiles_.network().density_shift, &tiles_.parameters(tile)));
      lists_.emplace_back(0, cuda::DeviceAllocator());
    }
  }

  // The unit cube of the outermost box.
  CudaFieldFrame frame() const override {
    const Aabb& box = tiles_.network().box;
    const Vec3 size = box.Size();
    return {box.min, {1 / size.x, 1 / size.y, 1 / size.z}};
  }
  void Reserve(uint32_t ray_capacity, uint32_t sample_capacity) override {
    harmonics_ = Buffer<T>(kDirectionWidth * size_t{ray_capacity}, cuda::DeviceAllocator());
    outputs_ = TileOutputs(0, cuda::DeviceAllocator());
    for (ListedSamples& list : lists_) list = ListedSamples(0, cuda::DeviceAllocator());
    for (const auto& network : networks_) network->Reserve(sample_capacity);
    for (ListedSamples& list : lists_)
      list = ListedSamples(sample_capacity, cuda::DeviceAllocator());
    outputs_ = TileOutputs(sample_capacity, cuda::DeviceAllocator());
  }

  void Begin(const kernels::DeviceRange& range, const Ray* rays, kernels::Stream stream) override {
    cuda::CopyToDevice(settings_.data(), host_settings_.data(), settings_.byte_size(), stream);
    cuda::SphericalHarmonics(
        cuda::SphericalHarmonicsParams<T>{
            .range = range, .rays = rays, .harmonics = harmonics_.data()},
        stream);
  }
  void Density(const cuda::DensityTargets& to, const Vec3* positions,
               kernels::Stream stream) override {
    for (int tile = 0; tile < tiles_.size(); ++tile) {
      const kernels::DeviceRange listed =
          Select(tile, to.range, nullptr, positions, nullptr, stream);
      networks_[tile]->Density(listed, lists_[tile].positions.data(), outputs_.sigmas.data(),
                               stream);
      cuda::SetTileDensity({.range = listed,
                            .rows = lists_[tile].rows.data(),
                            .weights = lists_[tile].weights.data(),
                            .tile_sigmas = outputs_.sigmas.data(),
                            .to = to},
                           stream);
    }
  }
  // Leaves in each tile what Backward reads.
  void Color(const CudaKeptSamples& kept, Vec3* colors, kernels::Stream stream) override {
    for (int tile = 0; tile < tiles_.size(); ++tile) {
      const ListedSamples& list = lists_[tile];
      const kernels::DeviceRange listed =
          Select(tile, kept.range, kept.rows, kept.positions, kept.ray_of, stream);
      networks_[tile]->Density(listed, list.positions.data(), outputs_.sigmas.data(), stream);
      networks_[tile]->Color(listed, list.ray_of.data(), harmonics_.data(), outputs_.colors.data(),
                             stream);
      cuda::SetTileColor({.range = listed,
                          .rows = list.rows.data(),
                          .weights = list.weights.data(),
                          .tile_colors = outputs_.colors.data(),
                          .colors = colors},
                         stream);
    }
  }
  void Backward(const CudaKeptSamples& kept, const float* grads, kernels::Stream stream) override {
    for (int tile = 0; tile < tiles_.size(); ++tile) {
      const ListedSamples& list = lists_[tile];
      const kernels::DeviceRange listed{kept.range.capacity, list.count.data()};
      cuda::FetchTileGradient({.range = listed,
                               .rows = list.rows.data(),
                               .weights = list.weights.data(),
                               .grads = grads,
                               .tile_grads = outputs_.grads.data()},
                              stream);
      networks_[tile]->Backward(listed, list.positions.data(), list.ray_of.data(),
                                harmonics_.data(), outputs_.grads.data(), stream);
    }
  }
  void Update(const CudaFieldUpdate& update, kernels::Stream stream) override {
    for (const auto& network : networks_)
      network->Update(settings_.data(), update.skip, update.not_finite, stream);
  }

  kernels::AdamSettings Adam(const RayBatch& batch, int t) override {
    return tiles_.parameters(0).TableAdam(batch.learning_rate, t);
  }
  void WriteSettings(const RayBatch& batch, int t, float gradient_factor) override {
    host_settings_[0] = {Adam(batch, t), gradient_factor};
    host_settings_[1] = {tiles_.parameters(0).WeightsAdam(batch.learning_rate, t), gradient_factor};
  }
  void EndStep(int t, kernels::Stream stream) override {
    if (t % static_cast<int>(kNgpAverageInterval) != 0) return;
    for (const auto& network : networks_)
      network->UpdateAverages(AverageDecay(config_, kNgpAverageInterval), stream);
  }

  void Upload(kernels::Stream stream) override {
    const Aabb& box = tiles_.network().box;
    const Vec3 size = box.Size();
    std::vector<cuda::DeviceTileCut> cuts;
    for (const TileCut& cut : tiles_.cuts().cuts())
      cuts.push_back({cut.axis, (cut.position - box.min[cut.axis]) / size[cut.axis], 0});
    cuda::CopyToDevice(cuts_.data(), cuts.data(), cuts_.byte_size(), stream);
    for (const auto& network : networks_) network->Upload(stream);
  }
  void Download(kernels::Stream stream) override {
    for (const auto& network : networks_) network->Download(stream);
  }
  void Save(TensorFile* file) const override { tiles_.Save(file); }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(JointTiles tiles, tiles_.Loaded(file));
    Take(std::move(tiles));
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override { tiles_.SaveModel(file); }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(JointTiles tiles, tiles_.Initialized(file));
    Take(std::move(tiles));
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> NewModel(const OccupancyGrid& grid) const override {
    return tiles_.NewModel(grid);
  }

 private:
  void Take(JointTiles tiles) {
    tiles_ = std::move(tiles);
    for (int tile = 0; tile < tiles_.size(); ++tile)
      networks_[tile]->SetHost(&tiles_.parameters(tile));
  }
  // The list of a tile's samples.
  kernels::DeviceRange Select(int tile, const kernels::DeviceRange& range, const uint32_t* sources,
                              const Vec3* positions, const uint32_t* ray_of,
                              kernels::Stream stream) {
    ListedSamples& list = lists_[tile];
    cuda::Fill(list.count.data(), 0, sizeof(uint32_t), stream);
    cuda::SelectTile({.range = range,
                      .n_tiles = tiles_.size(),
                      .tile = tile,
                      .cuts = cuts_.data(),
                      .sources = sources,
                      .positions = positions,
                      .ray_of = ray_of,
                      .lists_all = config_.cuda_deterministic != 0,
                      .count = list.count.data(),
                      .rows = list.rows.data(),
                      .weights = list.weights.data(),
                      .tile_positions = list.positions.data(),
                      .tile_ray_of = list.ray_of.data()},
                     stream);
    return {range.capacity, list.count.data()};
  }

  const TrainConfig config_;
  JointTiles tiles_;  // the host's copies
  std::vector<std::unique_ptr<NgpCudaNetwork<T>>> networks_;
  Buffer<cuda::DeviceTileCut> cuts_;
  std::vector<ListedSamples> lists_;  // of each tile
  TileOutputs outputs_;
  Buffer<T> harmonics_{0, cuda::DeviceAllocator()};  // of the rays
  // Of the tables, then of the MLPs.
  Buffer<cuda::AdamStepSettings> settings_{2, cuda::DeviceAllocator()};
  Buffer<cuda::AdamStepSettings> host_settings_{2, cuda::PinnedAllocator()};
};

template <typename T>
size_t FieldBytes(const TrainConfig& config, const SceneGeometry& geometry, size_t n_rays,
                  size_t n_samples) {
  MeasuringAllocator measure;
  const auto n_tiles = static_cast<size_t>(Ngp(config).tiles);
  for (size_t tile = 0; tile < n_tiles; ++tile) ListedSamples(n_samples, &measure);
  TileOutputs(n_samples, &measure);
  Buffer<T>(kDirectionWidth * n_rays, &measure);
  return measure.byte_size() +
         n_tiles *
             NgpCudaNetwork<T>::Bytes(config, NgpNetworkOf(config, geometry).shape, n_samples);
}

}  // namespace

std::unique_ptr<CudaField> NewJointCudaField(const TrainConfig& config,
                                             const SceneGeometry& geometry, const Scene& scene) {
  if (config.cuda_fp32 != 0)
    return std::make_unique<JointCudaField<float>>(config, geometry, scene);
  return std::make_unique<JointCudaField<Half>>(config, geometry, scene);
}

absl::StatusOr<std::unique_ptr<TrainingStep>> NewJointStepOnDevice(const StepRequest& request) {
  const TrainConfig& config = request.config;
  const int index = *request.cuda_device;
  cuda::UseDevice(index);
  if (absl::Status status = CheckNgpCudaTraining(config); !status.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("device cuda:{}: {}", index, std::string(status.message())));
  }
  return NewCudaFieldStep(
      request, [&] { return NewJointCudaField(config, request.geometry, request.scene); },
      [&](uint32_t n_rays, uint32_t n_samples) {
        return config.cuda_fp32 != 0
                   ? FieldBytes<float>(config, request.geometry, n_rays, n_samples)
                   : FieldBytes<Half>(config, request.geometry, n_rays, n_samples);
      });
}

}  // namespace nerf
