#include "engine/methods/ngp/cuda/cuda_ngp_step.h"

#include "engine/field/kernels/contract_positions.h"
#include "engine/field/kernels/hash_encoding.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/train/schedule.h"

// What a step's graph holds up to the samples that count.
namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// Where a march leaves positions that are contracted before they are encoded: in the training
// frame.
constexpr Aabb kUnitCube = {{0, 0, 0}, {1, 1, 1}};

}  // namespace

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
                      .rays_per_pixel = &control_.data()->rays_per_pixel,
                      .rays = rays_.batch.rays.data(),
                      .jitters = rays_.batch.jitters.data(),
                      .targets = rays_.batch.targets.data(),
                      .backgrounds = rays_.batch.backgrounds.data(),
                      .weights = rays_.batch.weights.data(),
                      .views = rays_.batch.views.data()},
                     stream_);
  } else {
    UploadRays(host_batch_, &rays_.batch, stream_);
    copy(rays_.batch.views, host_batch_.views);
    copy(rays_.batch.depths, host_batch_.depths);
  }
  views_.RecordBegin(stream_);
  if (warp_ != nullptr) warp_->RecordBegin(stream_);
  cuda::Fill(counts_.data(), 0, counts_.byte_size(), stream_);

  cuda::SphericalHarmonics(
      cuda::SphericalHarmonicsParams<T>{
          .range = rays, .rays = rays_.batch.rays.data(), .harmonics = rays_.harmonics.data()},
      stream_);
  const Aabb box = IsContracted() ? kUnitCube : state_->OuterBox();
  const Vec3 size = box.Size();
  const CudaRayWork work{config_, state_->steps(), control_.data(), rays_.batch,
                         rays_,   samples_,        counts_.data()};
  cuda::MarchParams march =
      work.March(grid_.MarchGrid(), box.min, {1 / size.x, 1 / size.y, 1 / size.z});
  march.horizons = needs_.horizons ? rays_.horizons.data() : nullptr;
  march.space = SpaceOf(NgpNetworkOf(config_, state_->geometry));
  for (int wave = 0; wave < cuda::kWaves; ++wave) {
    cuda::MarchWave(march, wave, stream_);
    const kernels::DeviceRange found{shape_.sample_capacity, march.counts, wave};
    if (IsContracted()) Contract(found, kUnitCube);
    if (warp_ != nullptr) {
      warp_->Move(found, samples_.positions.data(), samples_.ray_of.data(),
                  rays_.batch.views.data(), stream_);
    }
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
  TrainSamples(work, kept);
  if (needs_.gradients) FindRayGradients();
  if (warp_ != nullptr) BackwardWarp(kept);
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
  cuda::ContractPositions({.range = range,
                           .space = SpaceOf(NgpNetworkOf(config_, state_->geometry)),
                           .origin = from.min,
                           .scale = from.Size(),
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

// The levels of the encoding that take part.
template <typename T>
kernels::HashGridShape NgpCudaStep<T>::ActiveShape() const {
  kernels::HashGridShape shape = state_->parameters.shape();
  shape.n_levels = shape_.n_levels;
  return shape;
}

template <typename T>
void NgpCudaStep<T>::Encode(const kernels::DeviceRange& range) {
  cuda::HashEncodeForward(
      cuda::HashEncodeForwardParams<T>{.shape = ActiveShape(),
                                       .table = Trained(arrays_.table, training_.table_copies),
                                       .fp32_table = training_.Fp32Table(arrays_.table),
                                       .range = range,
                                       .positions = EncodedPositions(),
                                       .features = samples_.encodings.data(),
                                       .stride = shape_.sample_capacity},
      stream_);
}

// All ranks probe all cells: they have the same field, and then the same grid.
template <typename T>
void NgpCudaStep<T>::UpdateGrid(uint32_t step) {
  if (!ranks_.alone()) ranks_.ShareGrid(&arrays_, stream_);
  const Aabb outer = state_->OuterBox();
  const auto find = [&](const kernels::DeviceRange& points) {
    if (IsContracted()) Contract(points, outer);
    if (warp_ != nullptr) warp_->MoveProbes(points, samples_.positions.data(), stream_);
    Encode(points);
    cuda::NgpDensityParams<T> density = Density(points);
    density.cells = samples_.cells.data();
    density.step_length = state_->occupancy.step_length();
    density.values = arrays_.grid_values.data();
    cuda::NgpDensity(density, stream_);
  };
  grid_.Update(step, outer.min, outer.Size(), &samples_, find, stream_);
}

template void NgpCudaStep<float>::RecordGraphs();
template void NgpCudaStep<Half>::RecordGraphs();
template void NgpCudaStep<float>::UpdateGrid(uint32_t);
template void NgpCudaStep<Half>::UpdateGrid(uint32_t);
template kernels::HashGridShape NgpCudaStep<float>::ActiveShape() const;
template kernels::HashGridShape NgpCudaStep<Half>::ActiveShape() const;

}  // namespace nerf
