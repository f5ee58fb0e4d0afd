#include "engine/views/render/renderer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/pixel_offset.h"
#include "engine/field/kernels/view_rays.h"

namespace nerf {
namespace {

constexpr int kTileSide = kernels::kViewTileSide;
constexpr int kTileRays = kernels::kViewTileRays;
static_assert(kTileRays <= TrainedModel::kMaxTileRays);
// Tiles of one call of ParallelFor, so that a render that often pauses does not look through the
// list of a large view each time.
constexpr size_t kTilesAtOnce = 1024;

// Two depths within this share of the nearer one are taken for those of one surface.
constexpr float kOneSurface = 0.01f;

// One thread's scratch for a tile.
struct TileWorkspace {
  explicit TileWorkspace(const TrainedModel& model) : model(model.NewWorkspace()) {}
  std::unique_ptr<TrainedModel::Workspace> model;
  Ray rays[kTileRays];
  RenderedRay shown[kTileRays];    // by the pixels
  RenderedRay of_rays[kTileRays];  // where pixels have several
  int pixels[kTileRays];
};

// What the tiles of a pass share.
struct RenderJob {
  const TrainedModel& model;
  float near;
  const Camera& camera;
  const RenderOptions& options;
  int stride;  // between two pixels of the pass; those of earlier passes are left out
};

int TilesAcross(int pixels, int stride) {
  const int side = kTileSide * stride;
  return (pixels + side - 1) / side;
}

int TilesOfPass(const Camera& camera, int stride) {
  return TilesAcross(camera.width, stride) * TilesAcross(camera.height, stride);
}

// Every stride-th pixel of every stride-th row of a tile of kTileSide x kTileSide such pixels, but
// those of earlier passes. Returns how many.
int PixelsOfTile(const Camera& camera, const RenderOptions& options, int stride, int tile,
                 int* pixels) {
  const int side = kTileSide * stride, tiles_x = TilesAcross(camera.width, stride);
  const int x0 = tile % tiles_x * side, x1 = std::min(x0 + side, camera.width);
  const int y0 = tile / tiles_x * side, y1 = std::min(y0 + side, camera.height);
  const bool is_first_pass = stride == options.first_stride;
  int n = 0;
  for (int y = y0; y < y1; y += stride) {
    for (int x = x0; x < x1; x += stride) {
      if (!is_first_pass && x % (2 * stride) == 0 && y % (2 * stride) == 0) continue;
      pixels[n++] = y * camera.width + x;
    }
  }
  return n;
}

void CheckRaysPerPixel(const RenderOptions& options) {
  NERF_CHECK(AreRaysOfView(options.rays_per_pixel));
}

// What a pixel shows of its rays.
RenderedRay MeanOfRays(std::span<const RenderedRay> rays) {
  RenderedRay mean = {};
  std::array<float, kMaxRaysOfView> depths = {};
  size_t n_depths = 0;
  const float share = 1.0f / static_cast<float>(rays.size());
  for (const RenderedRay& ray : rays) {
    mean.color = mean.color + ray.color * share;
    mean.opacity += ray.opacity * share;
    if (ray.depth > 0) depths[n_depths++] = ray.depth;
  }
  if (mean.opacity >= kernels::kMinDepthOpacity)
    mean.depth = MiddleDepth({depths.data(), n_depths});
  return mean;
}

// Into w->shown and w->pixels. Returns the number of pixels, or -1 when it was stopped on the
// way.
int RenderTile(const RenderJob& job, int tile, const std::stop_token& stop, TileWorkspace* w) {
  const int n_pixels = PixelsOfTile(job.camera, job.options, job.stride, tile, w->pixels);
  const int rays_per_pixel = job.options.rays_per_pixel;
  RayTile rays{.rays = {},
               .background = BehindRays(job.options),
               .own_background = ShowsOwnBackground(job.options),
               .is_cropped = job.options.crop.has_value(),
               .min_transmittance = job.options.min_transmittance,
               .time = job.camera.time,
               .axis = job.camera.camera_to_world.Column(2) * -1.0f};
  // As many pixels at a time as the workspace has rays for; a pixel's are neighbors.
  const int n_at_once = kTileRays / rays_per_pixel;
  for (int first = 0; first < n_pixels; first += n_at_once) {
    const int n = std::min(n_at_once, n_pixels - first);
    for (int r = 0; r < n * rays_per_pixel; ++r) {
      const int pixel = w->pixels[first + r / rays_per_pixel];
      const auto x = static_cast<float>(pixel % job.camera.width);
      const auto y = static_cast<float>(pixel / job.camera.width);
      const PixelOffset offset = OffsetInPixel(r % rays_per_pixel, rays_per_pixel);
      w->rays[r] = CameraRay(job.camera, x + 0.5f + offset.x, y + 0.5f + offset.y);
      w->rays[r].t_near = job.near;
      if (job.options.crop.has_value()) job.options.crop->Cut(&w->rays[r]);
    }
    rays.rays = {w->rays, static_cast<size_t>(n) * rays_per_pixel};
    RenderedRay* const rendered = rays_per_pixel == 1 ? w->shown : w->of_rays;
    if (!job.model.RenderRays(rays, stop, w->model.get(), rendered)) return -1;
    if (rays_per_pixel == 1) continue;
    for (int i = 0; i < n; ++i)
      w->shown[first + i] =
          MeanOfRays({rendered + i * rays_per_pixel, static_cast<size_t>(rays_per_pixel)});
  }
  return n_pixels;
}

void PlaceRays(const int* pixels, std::span<const RenderedRay> rays, RenderedView* view) {
  for (size_t r = 0; r < rays.size(); ++r) {
    const int pixel = pixels[r];
    view->colors[pixel] = rays[r].color;
    view->opacities[pixel] = rays[r].opacity;
    view->depths[pixel] = rays[r].depth;
  }
}

// Copies the pixels of a grid of `stride` to those below and to the right of them.
template <typename T>
void Spread(int width, int stride, std::vector<T>* values) {
  const int height = static_cast<int>(values->size()) / width;
  for (int y = 0; y < height; ++y) {
    const T* const from = values->data() + static_cast<size_t>(y - y % stride) * width;
    T* const to = values->data() + static_cast<size_t>(y) * width;
    for (int x = 0; x < width; ++x) to[x] = from[x - x % stride];
  }
}

}  // namespace

int RaysOfPixel(int of_picture, float picture_pixel, const Camera& camera) {
  // A view of half the size, rounded, counts as half.
  constexpr float kRounding = 0.95f;
  int n = of_picture;
  if (!(picture_pixel > 0) || !(camera.fl_x > 0)) return n;
  float wider = 1 / (camera.fl_x * picture_pixel);
  for (; wider >= 2 * kRounding && n * 4 <= kMaxRaysOfView; wider /= 2) n *= 4;
  return n;
}

float MiddleDepth(std::span<float> depths) {
  if (depths.empty()) return 0;
  std::ranges::sort(depths);
  const float near = depths[(depths.size() - 1) / 2], far = depths[depths.size() / 2];
  return far - near <= kOneSurface * near ? 0.5f * (near + far) : near;
}

struct TileRenderer::Scratch : TileWorkspace {
  using TileWorkspace::TileWorkspace;
};

TileRenderer::TileRenderer(const TrainedModel& model, float near) : model_(model), near_(near) {}
TileRenderer::~TileRenderer() = default;

std::vector<RenderedRay> TileRenderer::Render(const Camera& camera, const RenderOptions& options,
                                              const TileRange& tiles, ThreadPool* pool) {
  NERF_CHECK(0 <= tiles.begin && tiles.end <= TilesOfPass(camera, tiles.stride) && tiles.step > 0);
  CheckRaysPerPixel(options);
  const RenderJob job{model_, near_, camera, options, tiles.stride};
  scratch_.resize(pool->n_threads());
  const int64_t n_tiles =
      std::max<int64_t>(0, (int64_t{tiles.end} - tiles.begin + tiles.step - 1) / tiles.step);
  std::vector<std::vector<RenderedRay>> of_tiles(n_tiles);
  pool->ParallelFor(n_tiles, [&](int64_t i, int thread) {
    std::unique_ptr<Scratch>& scratch = scratch_[thread];
    if (!scratch) scratch = std::make_unique<Scratch>(model_);
    const int tile = tiles.begin + static_cast<int>(i) * tiles.step;
    const int n_pixels = RenderTile(job, tile, std::stop_token(), scratch.get());
    of_tiles[i].assign(scratch->shown, scratch->shown + n_pixels);
  });
  std::vector<RenderedRay> rays;
  for (const auto& tile : of_tiles) rays.insert(rays.end(), tile.begin(), tile.end());
  return rays;
}

struct ViewRender::Work {
  const TrainedModel& model;
  const float near;
  const Camera camera;
  const RenderOptions options;
  RenderedView view = {};
  int stride;                   // of the pass at work; 0 behind the last
  std::vector<int> tiles = {};  // of the pass, those left
  std::vector<std::unique_ptr<TileWorkspace>> workspaces = {};  // of threads

  void BeginPass() {
    tiles.resize(TilesOfPass(camera, stride));
    std::iota(tiles.begin(), tiles.end(), 0);
  }

  // Returns true where the pass has no more tiles: then the next one begins.
  bool EndPass() {
    if (!tiles.empty()) return false;
    stride /= 2;
    if (stride > 0) BeginPass();
    return true;
  }
};

ViewRender::ViewRender(const TrainedModel& model, float near, const Camera& camera,
                       const RenderOptions& options)
    : work_(new Work{.model = model,
                     .near = near,
                     .camera = camera,
                     .options = options,
                     .stride = options.first_stride}) {
  NERF_CHECK(std::has_single_bit(static_cast<unsigned>(options.first_stride)));
  CheckRaysPerPixel(options);
  const size_t n_pixels = static_cast<size_t>(camera.width) * camera.height;
  work_->view.width = camera.width;
  work_->view.height = camera.height;
  work_->view.straight_alpha = options.straight_alpha;
  work_->view.colors.resize(n_pixels);
  work_->view.opacities.resize(n_pixels);
  work_->view.depths.resize(n_pixels);
  work_->BeginPass();
}

ViewRender::ViewRender(ViewRender&&) noexcept = default;
ViewRender::~ViewRender() = default;

bool ViewRender::Advance(ThreadPool* pool, const std::function<bool()>& pause,
                         const std::stop_token& stop) {
  Work& work = *work_;
  NERF_CHECK(!finished());
  const RenderJob job{work.model, work.near, work.camera, work.options, work.stride};
  work.workspaces.resize(pool->n_threads());
  std::atomic<bool> paused = false;
  const auto render = [&](int64_t i, int thread) {
    if (paused || stop.stop_requested()) return;
    std::unique_ptr<TileWorkspace>& workspace = work.workspaces[thread];
    if (!workspace) workspace = std::make_unique<TileWorkspace>(work.model);
    int& tile = work.tiles[i];
    const int n_pixels = RenderTile(job, tile, stop, workspace.get());
    if (n_pixels >= 0) {
      PlaceRays(workspace->pixels, {workspace->shown, static_cast<size_t>(n_pixels)}, &work.view);
      tile = -1;
    }
    if (thread == 0 && pause && pause()) paused = true;
  };
  while (!work.tiles.empty()) {
    if (paused || stop.stop_requested()) return false;
    const size_t n = std::min(kTilesAtOnce, work.tiles.size());
    pool->ParallelFor(static_cast<int64_t>(n), render);
    const auto end = work.tiles.begin() + static_cast<ptrdiff_t>(n);
    work.tiles.erase(std::remove(work.tiles.begin(), end, -1), end);
  }
  return work.EndPass();
}

TileRange ViewRender::NextTiles(int n) const {
  NERF_CHECK(!finished());
  const int begin = work_->tiles.front(), end = work_->tiles.back() + 1;
  return {.stride = work_->stride, .begin = begin, .end = std::min(end, begin + n)};
}

bool ViewRender::Place(const TileRange& tiles, std::span<const RenderedRay> rays) {
  int pixels[kTileRays];
  for (int tile = tiles.begin; tile < tiles.end; tile += tiles.step) {
    const auto n = static_cast<size_t>(
        PixelsOfTile(work_->camera, work_->options, tiles.stride, tile, pixels));
    if (n > rays.size()) return false;
    PlaceRays(pixels, rays.first(n), &work_->view);
    rays = rays.subspan(n);
  }
  return rays.empty();
}

bool ViewRender::EndTiles(const TileRange& tiles) {
  std::vector<int>& left = work_->tiles;
  left.erase(left.begin(), std::lower_bound(left.begin(), left.end(), tiles.end));
  return work_->EndPass();
}

bool ViewRender::finished() const { return work_->stride == 0; }

RenderedView ViewRender::TakeView() {
  if (finished()) return std::move(work_->view);
  RenderedView view = work_->view;
  const int done = 2 * work_->stride;
  Spread(view.width, done, &view.colors);
  Spread(view.width, done, &view.opacities);
  Spread(view.width, done, &view.depths);
  return view;
}

}  // namespace nerf
