#include "engine/methods/dynamic/cuda_warp.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/base/check.h"
#include "engine/base/layouts/warp_layers.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/hash_position_gradient.h"
#include "engine/field/kernels/point_warp.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/methods/dynamic/field.h"
#include "engine/methods/dynamic/model.h"
#include "engine/methods/dynamic/time_range.h"
#include "engine/methods/ngp/cuda/cuda_step_shape.h"
#include "engine/methods/ngp/describe/ngp_settings.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// The arrays on a device, each set taken from one allocator.
struct WarpParameters {  // what files store
  explicit WarpParameters(BufferAllocator* from)
      : arrays{Buffer<float>(kWarpWeights, from), Buffer<float>(kWarpWeights, from),
               Buffer<float>(kWarpWeights, from), Buffer<float>(kWarpWeights, from)} {}
  Buffer<float> arrays[4];  // as DenseParameters::Arrays has them

  Buffer<float>& values() { return arrays[0]; }
  Buffer<float>& first() { return arrays[1]; }
  Buffer<float>& second() { return arrays[2]; }
  Buffer<float>& averages() { return arrays[3]; }
};

// T is Half, of which there are copies of the weights, or float.
template <typename T>
struct WarpTraining {
  WarpTraining(int n_blocks, size_t n_views, BufferAllocator* from)
      : copies(std::is_same_v<T, Half> ? kWarpWeights : 0, from),
        gradients(size_t{kWarpWeights} * n_blocks, from),
        times(n_views, from),
        settings(1, from) {}
  Buffer<Half> copies;
  Buffer<float> gradients;  // one row a block of the backward pass
  Buffer<float> times;      // of the views
  Buffer<cuda::AdamStepSettings> settings;
};

struct WarpSamples {
  WarpSamples(size_t capacity, BufferAllocator* from)
      : warped(capacity, from), grad_warped(capacity, from) {}
  Buffer<Vec3> warped, grad_warped;
};

template <typename T>
class DynamicCudaWarp final : public NgpCudaWarp {
 public:
  DynamicCudaWarp(const TrainConfig& config, const SceneGeometry& geometry,
                  std::span<const View> views)
      : config_(config),
        geometry_(geometry),
        times_(TimesOf(views)),
        host_(WarpBlocks(), 1),
        n_blocks_(cuda::PointWarpBackwardBlocks<T>()),
        training_(n_blocks_, views.size(), cuda::DeviceAllocator()) {
    InitializeWarp(config.seed, &host_);
    std::vector<float> times;
    for (const View& view : views) times.push_back(view.camera.time);
    const cuda::OwnedStream stream;
    cuda::CopyToDevice(training_.times.data(), times.data(), training_.times.byte_size(),
                       stream.get());
    cuda::Synchronize(stream.get());
  }

  void Reserve(uint32_t sample_capacity) override {
    samples_ = WarpSamples(0, cuda::DeviceAllocator());
    samples_ = WarpSamples(sample_capacity, cuda::DeviceAllocator());
  }
  const Vec3* positions() const override { return samples_.warped.data(); }

  void RecordBegin(kernels::Stream stream) override {
    cuda::CopyToDevice(training_.settings.data(), host_settings_.data(), host_settings_.byte_size(),
                       stream);
  }
  void WriteSettings(const cuda::AdamStepSettings& settings) override {
    host_settings_[0] = settings;
  }

  void Move(const kernels::DeviceRange& range, const Vec3* unit, const uint32_t* ray_of,
            const int32_t* views, kernels::Stream stream) override {
    cuda::PointWarp(cuda::PointWarpParams<T>{.range = range,
                                             .weights = weights(),
                                             .times = TimesOfRays(ray_of, views),
                                             .unit = unit,
                                             .warped = samples_.warped.data()},
                    stream);
  }
  void MoveProbes(const kernels::DeviceRange& range, const Vec3* unit,
                  kernels::Stream stream) override {
    cuda::PointWarp(
        cuda::PointWarpParams<T>{
            .range = range,
            .weights = weights(),
            .times = {.seed = config_.seed, .first = times_.first, .last = times_.last},
            .unit = unit,
            .warped = samples_.warped.data()},
        stream);
  }

  void Backward(const Samples& samples, kernels::Stream stream) override {
    cuda::HashPositionGradient({.shape = samples.shape,
                                .range = samples.kept,
                                .table = samples.table,
                                .rows = samples.rows,
                                .positions = samples_.warped.data(),
                                .grad_features = samples.grad_features,
                                .stride = samples.stride,
                                .grad_positions = samples_.grad_warped.data()},
                               stream);
    cuda::PointWarpBackward(
        cuda::PointWarpBackwardParams<T>{.range = samples.kept,
                                         .n_blocks = n_blocks_,
                                         .weights = weights(),
                                         .times = TimesOfRays(samples.ray_of, samples.views),
                                         .rows = samples.rows,
                                         .unit = samples.unit,
                                         .warped = samples_.warped.data(),
                                         .grad_warped = samples_.grad_warped.data(),
                                         .weight_gradients = training_.gradients.data()},
        stream);
  }

  void Update(const uint32_t* skip, uint32_t* not_finite, kernels::Stream stream) override {
    cuda::AdamDense({.settings = training_.settings.data(),
                     .skip = skip,
                     .n = kWarpWeights,
                     .n_parts = n_blocks_,
                     .gradients = training_.gradients.data(),
                     .parameters = parameters_.values().data(),
                     .first_moments = parameters_.first().data(),
                     .second_moments = parameters_.second().data(),
                     .half_copies = training_.copies.data(),
                     .not_finite = not_finite},
                    stream);
  }
  void UpdateAverages(float decay, kernels::Stream stream) override {
    cuda::MovingAverage({.decay = decay,
                         .n = kWarpWeights,
                         .parameters = parameters_.values().data(),
                         .averages = parameters_.averages().data()},
                        stream);
  }

  void Upload(kernels::Stream stream) override {
    ForEachArray([&](std::span<float> host, Buffer<float>& device, Buffer<float>&) {
      cuda::CopyToDevice(device.data(), host.data(), device.byte_size(), stream);
    });
    std::vector<Half> rounded(training_.copies.size());
    std::transform(host_.values(), host_.values() + rounded.size(), rounded.begin(), HalfFromFloat);
    cuda::CopyToDevice(training_.copies.data(), rounded.data(), training_.copies.byte_size(),
                       stream);
    cuda::Synchronize(stream);
  }
  void Download(kernels::Stream stream) override {
    ForEachArray([&](std::span<float> host, Buffer<float>& device, Buffer<float>&) {
      cuda::CopyToHost(host.data(), device.data(), device.byte_size(), stream);
    });
    cuda::Synchronize(stream);
  }
  void Remember(kernels::Stream stream) override {
    ForEachArray([&](std::span<float>, Buffer<float>& device, Buffer<float>& remembered) {
      cuda::CopyOnDevice(remembered.data(), device.data(), device.byte_size(), stream);
    });
  }
  void Restore(kernels::Stream stream) override {
    ForEachArray([&](std::span<float> host, Buffer<float>&, Buffer<float>& remembered) {
      cuda::CopyToHost(host.data(), remembered.data(), remembered.byte_size(), stream);
    });
    cuda::Synchronize(stream);
  }

  void Save(TensorFile* file) const override {
    host_.Save(file);
    SaveTimeRange(times_, file);
  }
  absl::Status Load(const TensorFile& file) override { return host_.Load(file); }
  void SaveModel(TensorFile* file) const override {
    host_.SaveModel(file);
    SaveTimeRange(times_, file);
  }
  absl::Status Initialize(const TensorFile& file) override { return host_.Initialize(file); }
  std::unique_ptr<TrainedModel> NewModel(const NgpState& state) const override {
    return NewDynamicModel(
        config_, geometry_,
        {state.parameters.EvaluationTable(), state.parameters.EvaluationWeights()},
        host_.Evaluation(), times_, state.occupancy.grid());
  }

 private:
  const T* weights() {
    if constexpr (std::is_same_v<T, Half>)
      return training_.copies.data();
    else
      return parameters_.values().data();
  }
  cuda::PointTimes TimesOfRays(const uint32_t* ray_of, const int32_t* views) const {
    return {.times = training_.times.data(), .views = views, .ray_of = ray_of};
  }
  // body(of the host, of the device, remembered there) of each array that files store.
  template <typename Body>
  void ForEachArray(Body body) {
    const DenseParameters::Arrays host = host_.arrays();
    const std::span<float> on_host[] = {host.values, host.first, host.second, host.averages};
    for (int i = 0; i < 4; ++i) body(on_host[i], parameters_.arrays[i], remembered_.arrays[i]);
  }

  const TrainConfig config_;
  const SceneGeometry geometry_;
  const TimeRange times_;
  DenseParameters host_;
  const int n_blocks_;
  WarpParameters parameters_{cuda::DeviceAllocator()}, remembered_{cuda::DeviceAllocator()};
  WarpTraining<T> training_;
  WarpSamples samples_{0, cuda::DeviceAllocator()};
  Buffer<cuda::AdamStepSettings> host_settings_{1, cuda::PinnedAllocator()};
};

template <typename T>
size_t WarpBytes(const TrainConfig& config, size_t n_views) {
  const CudaStepShape largest = LargestCudaStepShape(config);
  MeasuringAllocator measure;
  for (int copy = 0; copy < 2; ++copy) WarpParameters{&measure};
  WarpTraining<T>(cuda::PointWarpBackwardBlocks<T>(), n_views, &measure);
  WarpSamples(largest.sample_capacity, &measure);
  Buffer<int32_t>(largest.ray_capacity, &measure);  // the rays' views
  return measure.byte_size();
}

template <typename T>
class DynamicViewWarp final : public NgpViewWarp {
 public:
  DynamicViewWarp(const DynamicField& field, kernels::Stream stream)
      : times_(field.times()), weights_(kWarpWeights, cuda::DeviceAllocator()) {
    std::vector<T> weights(kWarpWeights);
    std::transform(field.warp_weights(), field.warp_weights() + kWarpWeights, weights.begin(),
                   [](float weight) {
                     if constexpr (std::is_same_v<T, Half>)
                       return HalfFromFloat(weight);
                     else
                       return weight;
                   });
    cuda::CopyToDevice(weights_.data(), weights.data(), weights_.byte_size(), stream);
    cuda::Synchronize(stream);
  }

  void SetTime(float time, kernels::Stream stream) override {
    host_time_[0] = times_.Clamp(time);
    cuda::CopyToDevice(time_.data(), host_time_.data(), sizeof(float), stream);
    cuda::Synchronize(stream);
  }
  void Move(const kernels::DeviceRange& range, Vec3* points, kernels::Stream stream) override {
    cuda::PointWarp(cuda::PointWarpParams<T>{.range = range,
                                             .weights = weights_.data(),
                                             .times = {.times = time_.data()},
                                             .unit = points,
                                             .warped = points},
                    stream);
  }

 private:
  const TimeRange times_;
  Buffer<T> weights_;
  Buffer<float> time_{1, cuda::DeviceAllocator()};
  Buffer<float> host_time_{1, cuda::PinnedAllocator()};
};

}  // namespace

NgpCudaWarpMaker DynamicCudaWarpMaker(const TrainConfig& config, const SceneGeometry& geometry,
                                      std::span<const View> views) {
  NgpCudaWarpMaker maker;
  maker.make = [config, geometry, views]() -> std::unique_ptr<NgpCudaWarp> {
    if (config.cuda_fp32 != 0)
      return std::make_unique<DynamicCudaWarp<float>>(config, geometry, views);
    return std::make_unique<DynamicCudaWarp<Half>>(config, geometry, views);
  };
  maker.byte_size = [config, n_views = views.size()] {
    return config.cuda_fp32 != 0 ? WarpBytes<float>(config, n_views)
                                 : WarpBytes<Half>(config, n_views);
  };
  return maker;
}

NgpViewParts DynamicViewParts(const RadianceField& field, RenderPrecision precision,
                              kernels::Stream stream) {
  const auto* dynamic = dynamic_cast<const DynamicField*>(&field);
  NERF_CHECK(dynamic != nullptr);
  NgpViewParts parts{dynamic->ngp().network(), nullptr, nullptr};
  if (precision == RenderPrecision::kSingle)
    parts.warp = std::make_unique<DynamicViewWarp<float>>(*dynamic, stream);
  else
    parts.warp = std::make_unique<DynamicViewWarp<Half>>(*dynamic, stream);
  return parts;
}

}  // namespace nerf
