#include "engine/methods/ngp/cuda_render_device.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/field/marched_model.h"
#include "engine/kernels/contract_positions.h"
#include "engine/kernels/cuda/device.h"
#include "engine/kernels/hash_encoding.h"
#include "engine/kernels/ngp_mlp.h"
#include "engine/kernels/view_rays.h"
#include "engine/methods/ngp/cuda_view_shape.h"
#include "engine/methods/ngp/field.h"
#include "engine/render/render_device.h"

namespace nerf {
namespace {

namespace cuda = kernels::cuda;

// Waves between two checks of how many rays are left and of the request to stop. Even, so that each
// round begins with the same list of rays.
constexpr int kRoundWaves = 8;
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

float AsFloat(float value) { return value; }
float AsFloat(Half value) { return FloatFromHalf(value); }

template <typename T, typename From>
std::vector<T> Converted(const From* values, size_t n) {
  std::vector<T> converted(n);
  std::transform(values, values + n, converted.begin(), [](From value) -> T {
    if constexpr (std::is_same_v<T, Half>)
      return HalfFromFloat(AsFloat(value));
    else
      return AsFloat(value);
  });
  return converted;
}

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

  bool RenderPicture(const Camera& camera, const RenderOptions& options,
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
  const NgpNetwork network_;                 // its parameters are the model's, which is gone
  const std::unique_ptr<NgpViewWarp> warp_;  // null but for moving scenes
  const kernels::Stream stream_;
  Workspace<T>* const workspace_;
  const Buffer<T> table_, weights_;
  const Buffer<float> appearance_;  // NgpNetwork::appearance, or empty
  const Buffer<uint64_t> blocks_;
  const Buffer<uint8_t> empty_distances_;
  std::unique_ptr<cuda::Graph> round_;  // kRoundWaves waves in the workspace of generation_
  int generation_ = -1;
};

NgpViewParts PartsOfNgpField(const RadianceField& field, RenderPrecision, kernels::Stream) {
  const auto* ngp = dynamic_cast<const NgpField*>(&field);
  NERF_CHECK(ngp != nullptr);
  return {ngp->network(), nullptr};
}

NgpNetwork WithoutParameters(NgpNetwork network) {
  network.table = network.weights = network.appearance = nullptr;
  network.half_table = nullptr;
  network.weight_pairs = nullptr;
  return network;
}

std::vector<float> AppearanceOf(const NgpNetwork& network) {
  if (network.appearance == nullptr) return {};
  return {network.appearance, network.appearance + kHiddenWidth};
}

template <typename T>
CudaSceneRenderer<T>::CudaSceneRenderer(const MarchedModel& model, NgpViewParts parts,
                                        const SceneGeometry& geometry, kernels::Stream stream,
                                        Workspace<T>* workspace)
    : grid_(model.grid()),
      geometry_(geometry),
      network_(WithoutParameters(parts.network)),
      warp_(std::move(parts.warp)),
      stream_(stream),
      workspace_(workspace),
      table_(OnDevice(Converted<T>(parts.network.half_table,
                                   network_.shape.level_size() * network_.shape.n_levels),
                      stream)),
      weights_(OnDevice(Converted<T>(parts.network.weights, kNgpWeights), stream)),
      appearance_(OnDevice(AppearanceOf(parts.network), stream)),
      blocks_(OnDevice(grid_.occupied_blocks, stream)),
      empty_distances_(OnDevice(model.empty_distances(), stream)) {}

template <typename T>
class CudaSceneRenderer<T>::Picture final : public PictureRender {
 public:
  Picture(CudaSceneRenderer* renderer, const Camera& camera, const RenderOptions& options)
      : renderer_(renderer), camera_(camera), options_(options) {}
  bool Advance(const std::function<bool()>& pause, const std::stop_token& stop) override {
    finished_ = renderer_->RenderPicture(camera_, options_, pause, stop, &picture_);
    return finished_;
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
                                         const std::function<bool()>& pause,
                                         const std::stop_token& stop, ViewPicture* picture) {
  constexpr int kSide = kernels::kViewTileSide;
  const uint32_t tiles_x = (camera.width + kSide - 1) / kSide;
  const uint32_t n_tiles = tiles_x * ((camera.height + kSide - 1) / kSide);
  const size_t n_pixels = static_cast<size_t>(camera.width) * camera.height;
  picture->rgba = {camera.width, camera.height, 4, {}};
  picture->rgba.pixels.resize(4 * n_pixels);
  picture->depths.resize(n_pixels);
  workspace_->Prepare(n_tiles);
  if (warp_ != nullptr) warp_->SetTime(camera.time, stream_);
  const uint32_t tiles_at_once = workspace_->shape().ray_capacity / kernels::kViewTileRays;

  cuda::ViewControl control{.camera = LensOf(camera),
                            .width = camera.width,
                            .height = camera.height,
                            .near = geometry_.near,
                            .far = geometry_.far,
                            .min_transmittance = options.min_transmittance,
                            .background = options.background};
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
  do {
    round_->Launch(stream_);
    cuda::CopyToHost(w.counts().data(), arrays.counts.data(), arrays.counts.byte_size(), stream_);
    cuda::Synchronize(stream_);
    if (stop.stop_requested()) return false;
    if (pause) pause();
  } while (w.counts()[0].alive_even > 0);
  if (network_.learns_background) ShowHorizons();
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
  if (network_.contraction != Contraction::kNone) {
    const Aabb& inner = network_.inner_box;
    cuda::ContractPositions({.range = found,
                             .kind = network_.contraction,
                             .center = inner.Center(),
                             .inverse_half_side = 2 / inner.Size().x,
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
  const uint32_t capacity = range.capacity;
  cuda::HashEncodeForward(cuda::HashEncodeForwardParams<T>{.shape = network_.shape,
                                                           .table = table_.data(),
                                                           .range = range,
                                                           .positions = arrays.positions.data(),
                                                           .features = arrays.encodings.data(),
                                                           .stride = capacity},
                          stream_);
  cuda::NgpDensity(cuda::NgpDensityParams<T>{.range = range,
                                             .weights = weights_.data(),
                                             .encodings = arrays.encodings.data(),
                                             .stride = capacity,
                                             .shift = network_.density_shift,
                                             .sigmas = arrays.sigmas.data(),
                                             .geometry = arrays.geometry.data()},
                   stream_);
  cuda::NgpColor(cuda::NgpColorParams<T>{.range = range,
                                         .weights = weights_.data(),
                                         .ray_of = arrays.ray_of.data(),
                                         .harmonics = arrays.harmonics.data(),
                                         .geometry = arrays.geometry.data(),
                                         .colors = arrays.colors.data(),
                                         .terms = {appearance_.data()}},
                 stream_);
}

template <typename T>
cuda::ViewParams<T> CudaSceneRenderer<T>::View() {
  CudaViewArrays<T>& arrays = workspace_->arrays();
  const bool contracted = network_.contraction != Contraction::kNone;
  // Contracted positions are those of the training frame before.
  const Aabb box = contracted ? Aabb{{0, 0, 0}, {1, 1, 1}} : network_.box;
  const Vec3 size = box.Size();
  cuda::ViewParams<T> view;
  view.grid = MarchGridOf(grid_);
  view.grid.blocks = blocks_.data();
  view.grid.empty_distances = empty_distances_.data();
  view.steps = {geometry_.step, geometry_.cone};
  view.box_min = box.min;
  view.inverse_box_size = {1 / size.x, 1 / size.y, 1 / size.z};
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
  view.has_horizons = network_.learns_background;
  view.contraction = network_.contraction;
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
