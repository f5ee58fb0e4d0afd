#include <memory>
#include <utility>
#include <vector>

#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/methods/ngp/cuda/cuda_render_device.h"
#include "engine/methods/ngp/cuda/cuda_view_network.h"
#include "engine/methods/ngp/field.h"
#include "engine/methods/ngp/proposal_model.h"
#include "engine/methods/ngp/proposals.h"

// Views of models with proposals on a device. The host places the samples.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// Up to `capacity` samples, each with a direction of its own.
template <typename T>
struct DeviceSamples final : RadianceField::Workspace {
  explicit DeviceSamples(size_t capacity, BufferAllocator* from = cuda::DeviceAllocator())
      : positions(capacity, from),
        rays(capacity, from),
        ray_of(capacity, from),
        harmonics(kDirectionWidth * capacity, from),
        encodings(kEncodingWidth * capacity, from),
        geometry(kGeometryWidth * capacity, from),
        sigmas(capacity, from),
        colors(capacity, from) {}
  Buffer<Vec3> positions;
  Buffer<Ray> rays;
  Buffer<uint32_t> ray_of;
  Buffer<T> harmonics, encodings, geometry;
  Buffer<float> sigmas;
  Buffer<Vec3> colors;
  std::vector<Vec3> unit;  // of the last call of Density
};

template <typename T>
class CudaNgpField final : public RadianceField {
 public:
  explicit CudaNgpField(const NgpField& field)
      : box_(field.network().box), network_(field.network(), stream_.get()) {}

  std::unique_ptr<Workspace> NewWorkspace(int max_samples) const override {
    auto workspace = std::make_unique<DeviceSamples<T>>(max_samples);
    std::vector<uint32_t> ray_of(max_samples);
    for (int i = 0; i < max_samples; ++i) ray_of[i] = i;
    cuda::CopyToDevice(workspace->ray_of.data(), ray_of.data(), workspace->ray_of.byte_size(),
                       stream_.get());
    cuda::Synchronize(stream_.get());
    return workspace;
  }
  void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const override {
    auto& w = static_cast<DeviceSamples<T>&>(*workspace);
    w.unit.resize(n);
    ToEncodedCube(network_.network(), n, positions, w.unit.data());
    Evaluate(n, w.unit.data(), &w);
    cuda::CopyToHost(sigmas, w.sigmas.data(), n * sizeof(float), stream_.get());
    cuda::Synchronize(stream_.get());
    for (int i = 0; i < n; ++i) {
      if (!box_.Contains(positions[i])) sigmas[i] = 0;
    }
  }
  // Evaluates these samples once more, with their directions.
  void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
             Workspace* workspace) const override {
    if (n == 0) return;
    auto& w = static_cast<DeviceSamples<T>&>(*workspace);
    std::vector<Vec3> unit(n);
    std::vector<Ray> rays(n);
    for (int i = 0; i < n; ++i) {
      unit[i] = w.unit[samples[i]];
      rays[i].direction = directions[i];
    }
    cuda::CopyToDevice(w.rays.data(), rays.data(), n * sizeof(Ray), stream_.get());
    cuda::SphericalHarmonics(cuda::SphericalHarmonicsParams<T>{.range = {static_cast<uint32_t>(n)},
                                                               .rays = w.rays.data(),
                                                               .harmonics = w.harmonics.data()},
                             stream_.get());
    Evaluate(n, unit.data(), &w);
    cuda::CopyToHost(colors, w.colors.data(), n * sizeof(Vec3), stream_.get());
    cuda::Synchronize(stream_.get());
  }

 private:
  void Evaluate(int n, const Vec3* unit, DeviceSamples<T>* w) const {
    cuda::CopyToDevice(w->positions.data(), unit, n * sizeof(Vec3), stream_.get());
    network_.Evaluate({.range = {static_cast<uint32_t>(n)},
                       .positions = w->positions.data(),
                       .ray_of = w->ray_of.data(),
                       .harmonics = w->harmonics.data(),
                       .encodings = w->encodings.data(),
                       .geometry = w->geometry.data(),
                       .sigmas = w->sigmas.data(),
                       .colors = w->colors.data()},
                      stream_.get());
    cuda::Synchronize(stream_.get());
  }

  const Aabb box_;
  cuda::OwnedStream stream_;
  const NgpViewNetwork<T> network_;
};

class ProposalRenderDevice final : public RenderDevice {
 public:
  explicit ProposalRenderDevice(std::unique_ptr<RenderDevice> marched)
      : marched_(std::move(marched)) {}

  std::unique_ptr<SceneRenderer> Load(std::unique_ptr<TrainedModel> model,
                                      const SceneGeometry& geometry,
                                      RenderPrecision precision) override {
    const auto new_field = [precision](const NgpField& network) -> std::unique_ptr<RadianceField> {
      if (precision == RenderPrecision::kSingle)
        return std::make_unique<CudaNgpField<float>>(network);
      return std::make_unique<CudaNgpField<Half>>(network);
    };
    if (EvaluateProposalsBy(new_field, TrainedModel::kMaxTileRays, model.get()))
      return host_->Load(std::move(model), geometry, precision);
    return marched_->Load(std::move(model), geometry, precision);
  }

 private:
  const std::unique_ptr<RenderDevice> marched_;
  ThreadPool pool_{1};  // the device is that of the calling thread
  const std::unique_ptr<RenderDevice> host_ = NewCpuRenderDevice(&pool_);
};

}  // namespace

std::unique_ptr<RenderDevice> NewProposalCudaRenderDevice(int index) {
  return std::make_unique<ProposalRenderDevice>(NewNgpCudaRenderDevice(index));
}

}  // namespace nerf
