#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/methods/mlp/cuda_mlp.h"
#include "engine/methods/mlp/cuda_network.h"
#include "engine/methods/mlp/field.h"
#include "engine/methods/mlp/pair_model.h"
#include "engine/methods/ngp/cuda/cuda_render_device.h"

// Views of method mlp on a device.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// A view's samples are evaluated one wave after another; so many tiles keep a device busy.
constexpr uint32_t kMlpViewTiles = 64;

// A network for views of one time after another.
template <typename T>
class TimedNetwork {
 public:
  TimedNetwork(const MlpNetwork& network, kernels::Stream stream)
      : layout_(*network.layout),
        parameters_(network.parameters, network.parameters + network.layout->size),
        network_(layout_.WithoutTime(), /*with_backward=*/false) {
    SetTime(0, stream);
  }

  // Arrays keep their place: graphs hold it. At time 0 a warp moves nothing.
  void SetTime(float time, kernels::Stream stream) {
    if (!layout_.reads_time && !weights_.empty()) return;
    float encoding[kMlpTimeWidth];
    MlpEncodeTime(time, encoding);
    std::vector<float> values =
        layout_.reads_time ? layout_.AtTime(parameters_.data(), encoding) : parameters_;
    if (layout_.outputs == MlpOutputs::kShift && time == 0)
      std::fill(values.begin(), values.end(), 0.0f);
    Buffer<T> weights = ParametersOnDevice<T>(values, stream);
    if (weights_.empty()) {
      weights_ = std::move(weights);
      return;
    }
    cuda::CopyOnDevice(weights_.data(), weights.data(), weights_.byte_size(), stream);
    cuda::Synchronize(stream);
  }

  MlpCudaNetwork<T>& network() { return network_; }
  const T* weights() const { return weights_.data(); }

 private:
  const MlpLayout layout_;
  const std::vector<float> parameters_;
  MlpCudaNetwork<T> network_;
  Buffer<T> weights_;
};

template <typename T>
class MlpViewField final : public CudaViewField {
 public:
  MlpViewField(const MlpField& field, kernels::Stream stream)
      : placement_(field.network().placement), field_(field.network(), stream) {
    if (field.warp().has_value()) warp_.emplace(*field.warp(), stream);
  }

  CudaFieldFrame frame() const override { return MlpFrame(placement_); }
  uint32_t tiles_at_once() const override { return kMlpViewTiles; }
  void Reserve(uint32_t ray_capacity, uint32_t sample_capacity) override {
    field_.network().Reserve(ray_capacity, sample_capacity);
    if (!warp_.has_value()) return;
    warp_->network().Reserve(0, sample_capacity);
    moved_ = Buffer<Vec3>(sample_capacity, cuda::DeviceAllocator());
  }
  void SetTime(float time, kernels::Stream stream) override {
    field_.SetTime(time, stream);
    if (warp_.has_value()) warp_->SetTime(time, stream);
  }
  void Begin(const kernels::DeviceRange& range, const kernels::ViewRay* rays,
             kernels::Stream stream) override {
    field_.network().EncodeDirections(range, &rays->march.direction, sizeof(kernels::ViewRay),
                                      stream);
  }
  void Evaluate(const Samples& samples, kernels::Stream stream) override {
    const Vec3* positions = samples.positions;
    if (warp_.has_value()) {
      warp_->network().Move(samples.range, positions, warp_->weights(), moved_.data(), stream);
      positions = moved_.data();
    }
    field_.network().Density({.range = samples.range, .sigmas = samples.sigmas}, positions,
                             field_.weights(), placement_.scale, stream);
    field_.network().Color({samples.range, nullptr, samples.ray_of}, field_.weights(),
                           samples.colors, stream);
  }

 private:
  const MlpPlacement placement_;
  TimedNetwork<T> field_;
  std::optional<TimedNetwork<T>> warp_;
  Buffer<Vec3> moved_;
};

NgpViewParts PartsOfMlpField(const RadianceField& field, RenderPrecision precision,
                             kernels::Stream stream) {
  const auto* mlp = dynamic_cast<const MlpField*>(&field);
  NERF_CHECK(mlp != nullptr);
  NgpViewParts parts;
  if (precision == RenderPrecision::kSingle)
    parts.field = std::make_unique<MlpViewField<float>>(*mlp, stream);
  else
    parts.field = std::make_unique<MlpViewField<Half>>(*mlp, stream);
  return parts;
}

// The networks of a pair, whose samples the host places: they are few and their networks wide.
template <typename T>
class CudaPairEvaluator final : public PairEvaluator {
 public:
  CudaPairEvaluator(const MlpNetwork& network, int max_samples)
      : placement_(network.placement),
        network_(*network.layout, /*with_backward=*/false),
        weights_(ParametersOnDevice<T>({network.parameters, network.layout->size}, stream_)),
        directions_(TrainedModel::kMaxTileRays, cuda::DeviceAllocator()),
        positions_(max_samples, cuda::DeviceAllocator()),
        ray_of_(max_samples, cuda::DeviceAllocator()),
        sigmas_(max_samples, cuda::DeviceAllocator()),
        colors_(max_samples, cuda::DeviceAllocator()) {
    network_.Reserve(TrainedModel::kMaxTileRays, max_samples);
  }

  void Density(std::span<const Vec3> positions, float* sigmas) override {
    n_ = static_cast<uint32_t>(positions.size());
    std::vector<Vec3> placed;
    for (const Vec3& position : positions)
      placed.push_back((position - placement_.center) * placement_.scale);
    cuda::CopyToDevice(positions_.data(), placed.data(), n_ * sizeof(Vec3), stream_);
    network_.Density({.range = {n_}, .sigmas = sigmas_.data()}, positions_.data(), weights_.data(),
                     placement_.scale, stream_);
    cuda::CopyToHost(sigmas, sigmas_.data(), n_ * sizeof(float), stream_);
    cuda::Synchronize(stream_);
  }
  // Of all samples: the layers read them in a row.
  void Color(std::span<const Vec3> directions, std::span<const int> rows,
             std::span<const int> /*ray_of*/, Vec3* colors) override {
    const auto n_rays = static_cast<uint32_t>(directions.size());
    std::vector<uint32_t> ray_of(n_);
    for (uint32_t i = 0; i < n_; ++i) ray_of[i] = i / (n_ / n_rays);
    std::vector<Vec3> all(n_);
    cuda::CopyToDevice(directions_.data(), directions.data(), directions.size_bytes(), stream_);
    cuda::CopyToDevice(ray_of_.data(), ray_of.data(), n_ * sizeof(uint32_t), stream_);
    network_.EncodeDirections({n_rays}, directions_.data(), sizeof(Vec3), stream_);
    network_.Color({{n_}, nullptr, ray_of_.data()}, weights_.data(), colors_.data(), stream_);
    cuda::CopyToHost(all.data(), colors_.data(), n_ * sizeof(Vec3), stream_);
    cuda::Synchronize(stream_);
    for (size_t i = 0; i < rows.size(); ++i) colors[i] = all[rows[i]];
  }

 private:
  const MlpPlacement placement_;
  cuda::OwnedStream owned_stream_;
  const kernels::Stream stream_ = owned_stream_.get();
  MlpCudaNetwork<T> network_;
  const Buffer<T> weights_;
  Buffer<Vec3> directions_, positions_;
  Buffer<uint32_t> ray_of_;
  Buffer<float> sigmas_;
  Buffer<Vec3> colors_;
  uint32_t n_ = 0;  // samples of the last call of Density
};

class MlpCudaRenderDevice final : public RenderDevice {
 public:
  explicit MlpCudaRenderDevice(int index)
      : marched_(NewNgpCudaRenderDevice(index, PartsOfMlpField)) {}

  std::unique_ptr<SceneRenderer> Load(std::unique_ptr<TrainedModel> model,
                                      const SceneGeometry& geometry,
                                      RenderPrecision precision) override {
    auto* const pair = dynamic_cast<MlpPairModel*>(model.get());
    if (pair == nullptr) return marched_->Load(std::move(model), geometry, precision);
    const auto make = [precision](const MlpField& network,
                                  int max_samples) -> std::unique_ptr<PairEvaluator> {
      if (precision == RenderPrecision::kSingle)
        return std::make_unique<CudaPairEvaluator<float>>(network.network(), max_samples);
      return std::make_unique<CudaPairEvaluator<Half>>(network.network(), max_samples);
    };
    pair->EvaluateBy({TrainedModel::kMaxTileRays, make});
    return host_->Load(std::move(model), geometry, precision);
  }

 private:
  const std::unique_ptr<RenderDevice> marched_;
  ThreadPool pool_{1};  // the device is that of the calling thread
  const std::unique_ptr<RenderDevice> host_ = NewCpuRenderDevice(&pool_);
};

}  // namespace

std::unique_ptr<RenderDevice> NewMlpCudaRenderDevice(int index) {
  cuda::UseDevice(index);
  return std::make_unique<MlpCudaRenderDevice>(index);
}

}  // namespace nerf
