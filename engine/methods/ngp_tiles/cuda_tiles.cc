#include "engine/methods/ngp_tiles/cuda_tiles.h"

#include <string>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/tile_samples.h"
#include "engine/methods/ngp/cuda/cuda_view_network.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/field.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_tiles/tiled_field.h"
#include "engine/methods/ngp_tiles/tiled_step.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// The samples that have a part in a tile, of up to `capacity`.
template <typename T>
struct TileSamples {
  explicit TileSamples(size_t capacity, BufferAllocator* from = cuda::DeviceAllocator())
      : count(1, from),
        rows(capacity, from),
        ray_of(capacity, from),
        weights(capacity, from),
        sigmas(capacity, from),
        positions(capacity, from),
        colors(capacity, from),
        encodings(kEncodingWidth * capacity, from),
        geometry(kGeometryWidth * capacity, from) {}
  Buffer<uint32_t> count, rows, ray_of;
  Buffer<float> weights, sigmas;
  Buffer<Vec3> positions, colors;
  Buffer<T> encodings, geometry;
};

// One tile after another adds what it has of a wave's samples.
template <typename T>
class TiledViewField final : public CudaViewField {
 public:
  TiledViewField(const TiledField& field, kernels::Stream stream)
      : cuts_(field.cuts().cuts().size(), cuda::DeviceAllocator()), samples_(0) {
    for (const auto& model : field.models()) {
      const auto* const ngp = dynamic_cast<const NgpField*>(&model->field());
      NERF_CHECK(ngp != nullptr);
      tiles_.push_back(std::make_unique<NgpViewNetwork<T>>(ngp->network(), stream));
    }
    // In the unit cube of the outermost box.
    const Aabb& box = tiles_[0]->network().box;
    const Vec3 size = box.Size();
    std::vector<cuda::DeviceTileCut> cuts;
    for (const TileCut& cut : field.cuts().cuts()) {
      cuts.push_back({cut.axis, (cut.position - box.min[cut.axis]) / size[cut.axis],
                      field.margin() / size[cut.axis]});
    }
    cuda::CopyToDevice(cuts_.data(), cuts.data(), cuts_.byte_size(), stream);
    cuda::Synchronize(stream);
  }

  CudaFieldFrame frame() const override {
    const Aabb& box = tiles_[0]->network().box;
    const Vec3 size = box.Size();
    return {box.min, {1 / size.x, 1 / size.y, 1 / size.z}};
  }
  uint32_t tiles_at_once() const override { return UINT32_MAX; }
  void Reserve(uint32_t /*ray_capacity*/, uint32_t sample_capacity) override {
    samples_ = TileSamples<T>(0);
    samples_ = TileSamples<T>(sample_capacity);
  }
  void Begin(const kernels::DeviceRange&, const kernels::ViewRay*, kernels::Stream) override {}
  void Evaluate(const Samples& samples, kernels::Stream stream) override {
    const uint32_t capacity = samples.range.capacity;
    cuda::Fill(samples.sigmas, 0, capacity * sizeof(float), stream);
    cuda::Fill(samples.colors, 0, capacity * sizeof(Vec3), stream);
    const kernels::DeviceRange listed{capacity, samples_.count.data()};
    for (size_t tile = 0; tile < tiles_.size(); ++tile) {
      cuda::Fill(samples_.count.data(), 0, sizeof(uint32_t), stream);
      cuda::SelectTile({.range = samples.range,
                        .n_tiles = static_cast<int>(tiles_.size()),
                        .tile = static_cast<int>(tile),
                        .cuts = cuts_.data(),
                        .positions = samples.positions,
                        .ray_of = samples.ray_of,
                        .count = samples_.count.data(),
                        .rows = samples_.rows.data(),
                        .weights = samples_.weights.data(),
                        .tile_positions = samples_.positions.data(),
                        .tile_ray_of = samples_.ray_of.data()},
                       stream);
      tiles_[tile]->Evaluate({.range = listed,
                              .positions = samples_.positions.data(),
                              .ray_of = samples_.ray_of.data(),
                              .harmonics = static_cast<const T*>(samples.harmonics),
                              .encodings = samples_.encodings.data(),
                              .geometry = samples_.geometry.data(),
                              .sigmas = samples_.sigmas.data(),
                              .colors = samples_.colors.data()},
                             stream);
      cuda::AddTile({.range = listed,
                     .rows = samples_.rows.data(),
                     .weights = samples_.weights.data(),
                     .tile_sigmas = samples_.sigmas.data(),
                     .tile_colors = samples_.colors.data(),
                     .sigmas = samples.sigmas,
                     .colors = samples.colors},
                    stream);
    }
  }

 private:
  std::vector<std::unique_ptr<NgpViewNetwork<T>>> tiles_;
  Buffer<cuda::DeviceTileCut> cuts_;
  TileSamples<T> samples_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingStep>> NewTiledStepOnDevice(const StepRequest& request) {
  TrainConfig config = request.config;
  // Masks may come as files, too, where the setting is off.
  if (request.scene.alpha_is_mask) config.alpha_is_mask = 1;
  const int index = *request.cuda_device;
  cuda::UseDevice(index);
  if (absl::Status status = CheckNgpCudaTraining(config); !status.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("device cuda:{}: {}", index, std::string(status.message())));
  }
  // A state that is loaded lies beside the one that it replaces.
  const size_t n_tiles = Ngp(config).tile == kAllTiles ? Ngp(config).tiles : 1;
  const size_t needed = 2 * n_tiles * NgpCudaStepBytes(config, request.geometry);
  const size_t free = cuda::DescribeDevice(index).free_bytes;
  if (needed > free) {
    return WithReason(absl::ResourceExhaustedError(fmt::format(
                          "training needs {} MiB on device cuda:{} and {} MiB are free; a lower "
                          "log2_hashmap_size, target_samples or number of tiles needs less",
                          needed >> 20, index, free >> 20)),
                      reason::kGpuOutOfMemory);
  }
  return NewTiledStep(config, request.geometry, request.scene, request.pool, /*on_cuda=*/true);
}

NgpViewParts TiledViewParts(const RadianceField& field, RenderPrecision precision,
                            kernels::Stream stream) {
  const auto* tiled = dynamic_cast<const TiledField*>(&field);
  NERF_CHECK(tiled != nullptr);
  NgpViewParts parts;
  if (precision == RenderPrecision::kSingle)
    parts.field = std::make_unique<TiledViewField<float>>(*tiled, stream);
  else
    parts.field = std::make_unique<TiledViewField<Half>>(*tiled, stream);
  return parts;
}

}  // namespace nerf
