#include "engine/methods/ngp/cuda/cuda_render_device.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/kernels/contract_positions.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/field/kernels/view_rays.h"
#include "engine/field/marched_model.h"
#include "engine/methods/ngp/cuda/cuda_view_network.h"
#include "engine/methods/ngp/cuda/cuda_view_shape.h"
#include "engine/methods/ngp/field.h"
#include "engine/views/render/render_device.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// Waves between two checks of how many rays are left and of the request to stop. Even, so that each
// round begins with the same list of rays.
constexpr int kRoundWaves = 8;

// Each ray's picture, 8 bytes a pixel, stays until the mean is made. CheckViewFits counts four; a
// view has more only where they take 1 GiB at most.
constexpr uint64_t kMostSmallViewRays = uint64_t{1} << 27;
RenderOptions Affordable(const Camera& camera, RenderOptions options) {
  const uint64_t n_pixels = uint64_t{1} * camera.width * camera.height;
  while (options.rays_per_pixel > kMaxRaysPerPixel &&
         n_pixels * options.rays_per_pixel > kMostSmallViewRays) {
    options.rays_per_pixel /= 4;
  }
  return options;
}
static_assert(kRoundWaves % 2 == 0);

// What one view after another is rendered with, whatever the model: kept, because allocations wait
// for the device.
template <typename T>
class Workspace {
 public:
  explicit Workspace(int device_index) : device_index_(device_index) {}

  // Makes room for views of so many tiles.
  void Prepare(uint32_t n_tiles) {
    const CudaViewShape whole = CudaViewShapeFor<T>(n_tiles, SIZE_MAX);
    if (whole.ray_capacity <= shape_.ray_capacity) return;
    const size_t free = cuda::DescribeDevice(device_index_).free_bytes + CudaViewBytes<T>(shape_);
    const CudaViewShape wanted = CudaViewShapeFor<T>(n_tiles, free);
    if (wanted.ray_capacity <= shape_.ray_capacity) return;
    Release();
    arrays_ = CudaViewArrays<T>(wanted, cuda::DeviceAllocator());
    rgba_ = Buffer<uint32_t>(wanted.ray_capacity, cuda::PinnedAllocator());
    depths_ = Buffer<float>(wanted.ray_capacity, cuda::PinnedAllocator());
    shape_ = wanted;
  }
  void Release() {
    if (shape_ == CudaViewShape()) return;
    shape_ = {};
    ++generation_;
    arrays_ = CudaViewArrays<T>({}, cuda::DeviceAllocator());
    rgba_ = {};
    depths_ = {};
  }

  const CudaViewShape& shape() const { return shape_; }
  // Changes when arrays move.
  int generation() const { return generation_; }
  CudaViewArrays<T>& arrays() { return arrays_; }
  // The host's ends of copies.
  Buffer<cuda::ViewControl>& control() { return control_; }
  Buffer<cuda::ViewCounts>& counts() { return counts_; }
  Buffer<uint32_t>& rgba() { return rgba_; }
  Buffer<float>& depths() { return depths_; }

 private:
  const int device_index_;
  CudaViewShape shape_;
  int generation_ = 0;
  CudaViewArrays<T> arrays_{{}, cuda::DeviceAllocator()};
  Buffer<cuda::ViewControl> control_{1, cuda::PinnedAllocator()};
  Buffer<cuda::ViewCounts> counts_{1, cuda::PinnedAllocator()};
  Buffer<uint32_t> rgba_;
  Buffer<float> depths_;
};

template <typename T>
Buffer<T> OnDevice(const std::vector<T>& values, kernels::Stream stream) {
  Buffer<T> buffer(values.size(), cuda::DeviceAllocator());
  if (!values.empty()) {
    cuda::CopyToDevice(buffer.data(), values.data(), buffer.byte_size(), stream);
    cuda::Synchronize(stream);
  }
  return buffer;
}

template <typename T>
class CudaSceneRenderer final : public SceneRenderer {
 public:
  CudaSceneRenderer(const MarchedModel& model, NgpViewParts parts, const SceneGeometry& geometry,
                    kernels::Stream stream, Workspace<T>* workspace);
  std::unique_ptr<PictureRender> Begin(const Camera& camera, const RenderOptions& options) override;
  Aabb OccupiedBox() const override { return grid_.OccupiedBox(); }
  std::optional<double> OccupiedShare() const override { return grid_.OccupiedFraction(); }

 private:
  class Picture;

  // With one ray for each pixel, `offset` from its center.
  bool RenderPicture(const Camera& camera, const RenderOptions& options, PixelOffset offset,
                     const std::function<bool()>& pause, const std::stop_token& stop,
                     ViewPicture* picture);
  bool RenderTiles(const cuda::ViewControl& control, const std::function<bool()>& pause,
                   const std::stop_token& stop);
  void RecordRound();
  void RunWave(const cuda::ViewParams<T>& view, int wave);
  void Evaluate(const kernels::DeviceRange& range);
  void ShowHorizons();
  cuda::ViewParams<T> View();

  const OccupancyGrid grid_;
  const SceneGeometry geometry_;
  const NgpViewNetwork<T> network_;
  const std::unique_ptr<NgpViewWarp> warp_;     // null but for moving scenes
  const std::unique_ptr<CudaViewField> field_;  // in place of the network, or null
  const kernels::Stream stream_;
  Workspace<T>* const workspace_;
  const Buffer<uint64_t> blocks_;
  const Buffer<uint8_t> empty_distances_;
  std::unique_ptr<cuda::Graph> round_;  // kRoundWaves waves in the workspace of generation_
  int generation_ = -1;
};

NgpViewParts PartsOfNgpField(const RadianceField& field, RenderPrecision, kernels::Stream) {
  const auto* ngp = dynamic_cast<const NgpField*>(&field);
  NERF_CHECK(ngp != nullptr);
  return {ngp->network(), nullptr, nullptr};
}

template <typename T>
CudaSceneRenderer<T>::CudaSceneRenderer(const MarchedModel& model, NgpViewParts parts,
                                        const SceneGeometry& geometry, kernels::Stream stream,
                                        Workspace<T>* workspace)
    : grid_(model.grid()),
      geometry_(geometry),
      network_(parts.network, stream),
      warp_(std::move(parts.warp)),
      field_(std::move(parts.field)),
      stream_(stream),
      workspace_(workspace),
      blocks_(OnDevice(grid_.occupied_blocks, stream)),
      empty_distances_(OnDevice(model.empty_distances(), stream)) {}

template <typename T>
class CudaSceneRenderer<T>::Picture final : public PictureRender {
 public:
  Picture(CudaSceneRenderer* renderer, const Camera& camera, const RenderOptions& options)
      : renderer_(renderer), camera_(camera), options_(Affordable(camera, options)) {}
  bool Advance(const std::function<bool()>& pause, const std::stop_token& stop) override {
    std::vector<ViewPicture> of_rays(options_.rays_per_pixel);
    for (int i = 0; i < options_.rays_per_pixel; ++i) {
      const PixelOffset offset = OffsetInPixel(i, options_.rays_per_pixel);
      if (!renderer_->RenderPicture(camera_, options_, offset, pause, stop, &of_rays[i]))
        return false;
    }
    picture_ = MeanOfPictures(std::move(of_rays), options_.straight_alpha);
    finished_ = true;
    return true;
  }
  bool finished() const override { return finished_; }
  ViewPicture TakePicture() override { return std::move(picture_); }

 private:
  CudaSceneRenderer* const renderer_;
  const Camera camera_;
  const RenderOptions options_;
  ViewPicture picture_;
  bool finished_ = false;
};

template <typename T>
std::unique_ptr<PictureRender> CudaSceneRenderer<T>::Begin(const Camera& camera,
                                                           const RenderOptions& options) {
  return std::make_unique<Picture>(this, camera, options);
}

template <typename T>
bool CudaSceneRenderer<T>::RenderPicture(const Camera& camera, const RenderOptions& options,
                                         PixelOffset offset, const std::function<bool()>& pause,
                                         const std::stop_token& stop, ViewPicture* picture) {
  constexpr int kSide = kernels::kViewTileSide;
  const uint32_t tiles_x = (camera.width + kSide - 1) / kSide;
  const uint32_t n_tiles = tiles_x * ((camera.height + kSide - 1) / kSide);
  const size_t n_pixels = static_cast<size_t>(camera.width) * camera.height;
  picture->rgba = {camera.width, camera.height, 4, {}};
  picture->rgba.pixels.resize(4 * n_pixels);
  picture->depths.resize(n_pixels);
  workspace_->Prepare(field_ != nullptr ? std::min(n_tiles, field_->tiles_at_once()) : n_tiles);
  if (warp_ != nullptr) warp_->SetTime(camera.time, stream_);
  if (field_ != nullptr) field_->SetTime(camera.time, stream_);
  const uint32_t tiles_at_once = workspace_->shape().ray_capacity / kernels::kViewTileRays;

  cuda::ViewControl control{.camera = LensOf(camera),
                            .width = camera.width,
                            .height = camera.height,
                            .offset = offset,
                            .near = geometry_.near,
                            .far = geometry_.far,
                            .min_transmittance = options.min_transmittance,
                            .background = BehindRays(options),
                            .own_background = ShowsOwnBackground(options),
                            .straight_alpha = options.straight_alpha,
                            .has_crop = options.crop.has_value(),
                            .crop = options.crop.value_or(CropBox())};
  for (uint32_t first = 0; first < n_tiles; first += tiles_at_once) {
    control.first_tile = first;
    control.n_rays = std::min(tiles_at_once, n_tiles - first) * kernels::kViewTileRays;
    if (!RenderTiles(control, pause, stop)) return false;
    // From tiles to rows.
    for (uint32_t r = 0; r < control.n_rays; r += kSide) {
      const uint32_t tile = first + r / kernels::kViewTileRays;
      const auto x = static_cast<int>(tile % tiles_x * kSide);
      const auto y = static_cast<int>(tile / tiles_x * kSide + r % kernels::kViewTileRays / kSide);
      if (y >= camera.height) continue;
      const size_t n = std::min(kSide, camera.width - x);
      const size_t pixel = static_cast<size_t>(y) * camera.width + x;
      std::memcpy(picture->rgba.pixels.data() + 4 * pixel, workspace_->rgba().data() + r, 4 * n);
      std::copy_n(workspace_->depths().data() + r, n, picture->depths.data() + pixel);
    }
  }
  return true;
}

// Leaves what its rays show in the workspace.
template <typename T>
bool CudaSceneRenderer<T>::RenderTiles(const cuda::ViewControl& control,
                                       const std::function<bool()>& pause,
                                       const std::stop_token& stop) {
  if (stop.stop_requested()) return false;
  Workspace<T>& w = *workspace_;
  CudaViewArrays<T>& arrays = w.arrays();
  w.control()[0] = control;
  cuda::CopyToDevice(arrays.control.data(), w.control().data(), sizeof(control), stream_);
  cuda::Fill(arrays.counts.data(), 0, arrays.counts.byte_size(), stream_);
  cuda::StartView(View(), stream_);
  if (round_ == nullptr || generation_ != w.generation()) RecordRound();
  if (field_ != nullptr) {
    field_->Begin({w.shape().ray_capacity, &arrays.control.data()->n_rays}, arrays.rays.data(),
                  stream_);
  }
  do {
    round_->Launch(stream_);
    cuda::CopyToHost(w.counts().data(), arrays.counts.data(), arrays.counts.byte_size(), stream_);
    cuda::Synchronize(stream_);
    if (stop.stop_requested()) return false;
    if (pause) pause();
  } while (w.counts()[0].alive_even > 0);
  if (network_.network().learns_background) ShowHorizons();
  cuda::CopyToHost(w.rgba().data(), arrays.rgba.data(), control.n_rays * sizeof(uint32_t), stream_);
  cuda::CopyToHost(w.depths().data(), arrays.depths.data(), control.n_rays * sizeof(float),
                   stream_);
  cuda::Synchronize(stream_);
  return true;
}

template <typename T>
void CudaSceneRenderer<T>::RecordRound() {
  round_.reset();
  generation_ = workspace_->generation();
  const CudaViewShape& shape = workspace_->shape();
  if (field_ != nullptr) field_->Reserve(shape.ray_capacity, shape.sample_capacity);
  round_ = std::make_unique<cuda::Graph>(stream_, [this] {
    const cuda::ViewParams<T> view = View();
    for (int wave = 0; wave < kRoundWaves; ++wave) RunWave(view, wave);
  });
}

template <typename T>
void CudaSceneRenderer<T>::RunWave(const cuda::ViewParams<T>& view, int wave) {
  // The counts of samples and of rays alive after the wave. The latter is stored before or behind
  // the former (ViewCounts).
  uint32_t* const cleared = wave % 2 == 0 ? &view.counts->samples : &view.counts->alive_even;
  cuda::Fill(cleared, 0, 2 * sizeof(uint32_t), stream_);
  cuda::MarchView(view, wave, stream_);
  const kernels::DeviceRange found{view.sample_capacity, &view.counts->samples};
  if (network_.network().contraction != Contraction::kNone) {
    cuda::ContractPositions({.range = found,
                             .space = SpaceOf(network_.network()),
                             .positions = workspace_->arrays().positions.data()},
                            stream_);
  }
  if (warp_ != nullptr) warp_->Move(found, workspace_->arrays().positions.data(), stream_);
  Evaluate(found);
  cuda::CompositeView(view, wave, stream_);
}

// After the last wave: what lies behind the rays that still have light.
template <typename T>
void CudaSceneRenderer<T>::ShowHorizons() {
  const cuda::ViewParams<T> view = View();
  cuda::Fill(&view.counts->samples, 0, sizeof(uint32_t), stream_);
  cuda::ListHorizons(view, stream_);
  Evaluate({view.sample_capacity, &view.counts->samples});
  cuda::FinishHorizons(view, stream_);
}

// Densities and colors of encoded positions.
template <typename T>
void CudaSceneRenderer<T>::Evaluate(const kernels::DeviceRange& range) {
  CudaViewArrays<T>& arrays = workspace_->arrays();
  if (field_ != nullptr) {
    field_->Evaluate({range, arrays.positions.data(), arrays.ray_of.data(), arrays.rays.data(),
                      arrays.harmonics.data(), arrays.sigmas.data(), arrays.colors.data()},
                     stream_);
    return;
  }
  network_.Evaluate(
      {range, arrays.positions.data(), arrays.ray_of.data(), arrays.harmonics.data(),
       arrays.encodings.data(), arrays.geometry.data(), arrays.sigmas.data(), arrays.colors.data()},
      stream_);
}

template <typename T>
cuda::ViewParams<T> CudaSceneRenderer<T>::View() {
  CudaViewArrays<T>& arrays = workspace_->arrays();
  const bool contracted = network_.network().contraction != Contraction::kNone;
  // Contracted positions are those of the training frame before.
  const Aabb box = contracted ? Aabb{{0, 0, 0}, {1, 1, 1}} : network_.network().box;
  const Vec3 size = box.Size();
  cuda::ViewParams<T> view;
  view.grid = MarchGridOf(grid_);
  view.grid.blocks = blocks_.data();
  view.grid.empty_distances = empty_distances_.data();
  view.steps = {geometry_.step, geometry_.cone};
  const CudaFieldFrame frame = field_ != nullptr
                                   ? field_->frame()
                                   : CudaFieldFrame{box.min, {1 / size.x, 1 / size.y, 1 / size.z}};
  view.box_min = frame.origin;
  view.inverse_box_size = frame.scale;
  view.control = arrays.control.data();
  view.counts = arrays.counts.data();
  view.ray_capacity = workspace_->shape().ray_capacity;
  view.rays = arrays.rays.data();
  view.harmonics = arrays.harmonics.data();
  view.alive_even = arrays.alive_even.data();
  view.alive_odd = arrays.alive_odd.data();
  view.segments = arrays.segments.data();
  view.sample_capacity = workspace_->shape().sample_capacity;
  view.t_middles = arrays.t_middles.data();
  view.deltas = arrays.deltas.data();
  view.ray_of = arrays.ray_of.data();
  view.positions = arrays.positions.data();
  view.sigmas = arrays.sigmas.data();
  view.colors = arrays.colors.data();
  view.has_horizons = network_.network().learns_background;
  view.space = SpaceOf(network_.network());
  view.rgba = arrays.rgba.data();
  view.depths = arrays.depths.data();
  return view;
}

class CudaRenderDevice final : public RenderDevice {
 public:
  CudaRenderDevice(int index, NgpViewPartsOf parts_of)
      : parts_of_(std::move(parts_of)), half_(index), single_(index) {}

  // The host's copy of the model is freed at the end.
  std::unique_ptr<SceneRenderer> Load(std::unique_ptr<TrainedModel> model,
                                      const SceneGeometry& geometry,
                                      RenderPrecision precision) override {
    const auto* marched = dynamic_cast<const MarchedModel*>(model.get());
    NERF_CHECK(marched != nullptr);
    NgpViewParts parts = parts_of_(marched->field(), precision, stream_.get());
    if (precision == RenderPrecision::kSingle)
      return NewRenderer(*marched, std::move(parts), geometry, &single_);
    return NewRenderer(*marched, std::move(parts), geometry, &half_);
  }

 private:
  template <typename T>
  std::unique_ptr<SceneRenderer> NewRenderer(const MarchedModel& model, NgpViewParts parts,
                                             const SceneGeometry& geometry,
                                             Workspace<T>* workspace) {
    return std::make_unique<CudaSceneRenderer<T>>(model, std::move(parts), geometry, stream_.get(),
                                                  workspace);
  }

  const NgpViewPartsOf parts_of_;
  cuda::OwnedStream stream_;
  Workspace<Half> half_;
  Workspace<float> single_;
};

}  // namespace

std::unique_ptr<RenderDevice> NewNgpCudaRenderDevice(int index) {
  return NewNgpCudaRenderDevice(index, PartsOfNgpField);
}

std::unique_ptr<RenderDevice> NewNgpCudaRenderDevice(int index, NgpViewPartsOf parts_of) {
  cuda::UseDevice(index);
  return std::make_unique<CudaRenderDevice>(index, std::move(parts_of));
}

}  // namespace nerf
