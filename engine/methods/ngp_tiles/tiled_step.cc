#include "engine/methods/ngp_tiles/tiled_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "engine/field/files/metadata_reader.h"
#include "engine/field/kernels/ray_sampling.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "engine/methods/ngp_tiles/tiled_model.h"
#include "engine/train/ray_step.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr const char* kStepsName = "tiles.steps";
constexpr int kRaysPerTask = 1024;
// Rays that are drawn once, to find cuts and how many rays meet a tile: enough for 1%.
constexpr int kProbedRays = 16384;
constexpr uint32_t kProbeStep = UINT32_MAX;  // of the random numbers: no step of a training
constexpr size_t kFewPoints = 1000;
constexpr int kMaxPixels = 1 << 20;  // of a batch
constexpr float kMinShare = 0.01f;   // of rays that meet a tile; a rarer one has smaller steps

Aabb OuterBox(const SceneGeometry& geometry) {
  return geometry.box.Scaled(static_cast<float>(1 << (geometry.n_levels - 1)));
}

// The rays through all views' pixels.
class ViewRays {
 public:
  ViewRays(std::span<const View> views, const SceneGeometry& geometry)
      : near_(geometry.near), far_(geometry.far) {
    first_pixels_.push_back(0);
    for (const View& view : views) {
      cameras_.push_back(LensOf(view.camera));
      widths_.push_back(view.camera.width);
      first_pixels_.push_back(first_pixels_.back() +
                              static_cast<uint64_t>(view.camera.width) * view.camera.height);
    }
  }

  bool empty() const { return first_pixels_.back() == 0; }

  Ray Of(const Pixel& pixel) const {
    Ray ray = kernels::PixelRay(cameras_[pixel.view], pixel.x, pixel.y, near_);
    ray.t_far = far_;
    return ray;
  }

  // Rays through pixels that are drawn as those of batches are.
  std::vector<Ray> Probes(uint64_t seed) const {
    std::vector<Ray> rays;
    if (empty()) return rays;
    kernels::PictureSet set;
    set.n_pictures = static_cast<int>(cameras_.size());
    set.first_pixels = first_pixels_.data();
    set.seed = seed;
    for (uint32_t i = 0; i < kProbedRays; ++i) {
      const kernels::SampledPixel drawn = kernels::DrawPixel(set, kProbeStep, i);
      const auto width = static_cast<uint64_t>(widths_[drawn.picture]);
      rays.push_back(Of({drawn.picture, static_cast<int32_t>(drawn.offset % width),
                         static_cast<int32_t>(drawn.offset / width)}));
    }
    return rays;
  }

 private:
  const float near_, far_;
  std::vector<LensCamera> cameras_;
  std::vector<int> widths_;
  std::vector<uint64_t> first_pixels_;
};

// A point anywhere on the part of a ray in a box, if there is such a part; share in [0, 1).
bool PointInBox(const Ray& ray, const Aabb& box, float share, Vec3* point) {
  float enter = 0, exit = 0;
  if (!Meets(ray, box, &enter, &exit)) return false;
  *point = ray.origin + ray.direction * (enter + (exit - enter) * share);
  return true;
}

TrainConfig ConfigOfTile(const TrainConfig& config) {
  TrainConfig tile = config;
  tile.method = "ngp";
  return tile;
}

class TiledStep final : public TrainingStep {
 public:
  TiledStep(const TrainConfig& config, const SceneGeometry& geometry, const Scene& scene,
            ThreadPool* pool, bool on_cuda)
      : config_(config),
        geometry_(geometry),
        views_(scene.train),
        rays_(scene.train, geometry),
        pool_(pool),
        on_cuda_(on_cuda),
        cuts_(CutsOf(config, geometry, scene)),
        tiles_(NewTiles()),
        n_steps_(first_step()) {
    FindReaches();
  }

  StepResult Run(const PixelBatch& batch) override {
    const uint32_t tile = n_steps_ % n_tiles();
    Select(batch, reaches_[tile]);
    part_.step = n_steps_ / n_tiles();
    n_steps_ += Share().stride;
    const StepResult result = tiles_[tile]->Run(part_);
    // It counts the step now, not before its next one: a checkpoint in between holds the count.
    tiles_[tile]->NextPixels(batch.fraction);
    return result;
  }

  int NextPixels(double fraction) override {
    const uint32_t tile = n_steps_ % n_tiles();
    const auto wanted = static_cast<float>(tiles_[tile]->NextPixels(fraction));
    return static_cast<int>(
        std::min(std::ceil(wanted / shares_[tile]), static_cast<float>(kMaxPixels)));
  }

  StepShare Share() const override {
    if (config_tile() == kAllTiles) return {};
    return {first_step(), n_tiles()};
  }

  double TimeFraction(double fraction) const override {
    return tiles_[first_step()]->TimeFraction(fraction);
  }

  void Save(TensorFile* file) const override {
    StoreCuts(cuts_, file);
    file->metadata[kStepsName] = MetadataText(n_steps_);
    ForTiles([&](int tile, const RayStep& step) {
      TensorFile part;
      step.Save(&part);
      AddTile(tile, std::move(part), file);
    });
  }

  absl::Status Load(const TensorFile& file) override {
    MetadataReader reader(file);
    uint32_t n_steps = 0;
    reader.One<uint32_t>(kStepsName, 0, UINT32_MAX, &n_steps);
    NERF_RETURN_IF_ERROR(reader.status);
    if (config_tile() != kAllTiles && n_steps % n_tiles() != first_step()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} is no step of tile {}", kStepsName, n_steps, config_tile()));
    }
    NERF_RETURN_IF_ERROR(
        Take(file, [](const TensorFile& part, RayStep* tile) { return tile->Load(part); }));
    n_steps_ = n_steps;
    return absl::OkStatus();
  }

  absl::Status Initialize(const TensorFile& file) override {
    NERF_RETURN_IF_ERROR(
        Take(file, [](const TensorFile& part, RayStep* tile) { return tile->Initialize(part); }));
    n_steps_ = first_step();
    return absl::OkStatus();
  }

  void SaveModel(TensorFile* file) const override {
    StoreCuts(cuts_, file);
    ForTiles([&](int tile, const RayStep& step) {
      TensorFile part;
      step.SaveModel(&part);
      AddTile(tile, std::move(part), file);
    });
  }

  std::unique_ptr<TrainedModel> Snapshot() const override {
    std::vector<std::unique_ptr<TrainedModel>> models;
    ForTiles([&](int, const RayStep& step) { models.push_back(step.Snapshot()); });
    return NewTiledModel(ShownCuts(cuts_, config_), config_, geometry_, std::move(models));
  }

  // The emptiest tile's: one whose cells are all clear learns nothing.
  double OccupiedFraction() const override {
    double least = 1;
    ForTiles([&](int, const RayStep& step) { least = std::min(least, step.OccupiedFraction()); });
    return least;
  }
  void ReopenGrid() override {
    for (const auto& tile : tiles_) {
      if (tile != nullptr && tile->OccupiedFraction() == 0) tile->ReopenGrid();
    }
  }

 private:
  using Tiles = std::vector<std::unique_ptr<RayStep>>;

  int config_tile() const { return Ngp(config_).tile; }
  uint32_t n_tiles() const { return static_cast<uint32_t>(cuts_.n_tiles()); }
  // Steps go round the tiles, so this is also the first tile that is trained here.
  uint32_t first_step() const {
    return config_tile() == kAllTiles ? 0 : static_cast<uint32_t>(config_tile());
  }

  // Calls f(tile, step) for each tile that is trained here.
  template <typename F>
  void ForTiles(const F& f) const {
    for (size_t tile = 0; tile < tiles_.size(); ++tile) {
      if (tiles_[tile] != nullptr) f(static_cast<int>(tile), *tiles_[tile]);
    }
  }

  Tiles NewTiles() const {
    Tiles tiles(n_tiles());
    for (int tile = 0; tile < cuts_.n_tiles(); ++tile) {
      if (config_tile() == kAllTiles || config_tile() == tile) tiles[tile] = NewTile();
    }
    return tiles;
  }

  // The host draws the rays: those that meet the tile.
  std::unique_ptr<RayStep> NewTile() const {
    const TrainConfig config = ConfigOfTile(config_);
    if (on_cuda_) return NewNgpCudaStep(config, geometry_, nullptr, views_, pool_);
    return NewNgpCpuStep(config, geometry_, pool_, views_);
  }

  // Takes cuts and tiles of a file, all or none.
  template <typename Read>
  absl::Status Take(const TensorFile& file, const Read& read) {
    NERF_ASSIGN_OR_RETURN(TileCuts cuts, LoadCuts(file, cuts_.n_tiles()));
    Tiles tiles = NewTiles();
    for (size_t tile = 0; tile < tiles.size(); ++tile) {
      if (tiles[tile] == nullptr) continue;
      NERF_RETURN_IF_ERROR(read(TileOf(file, static_cast<int>(tile)), tiles[tile].get()));
    }
    cuts_ = std::move(cuts);
    tiles_ = std::move(tiles);
    FindReaches();
    return absl::OkStatus();
  }

  void FindReaches() {
    const std::vector<Ray> probes = rays_.Probes(config_.seed);
    const Aabb outer = OuterBox(geometry_);
    const float margin = TileMargin(config_, geometry_);
    reaches_.clear();
    shares_.clear();
    for (const Aabb& box : cuts_.boxes()) {
      const Aabb reach = TileReach(box, margin, outer);
      const auto n_met = std::count_if(probes.begin(), probes.end(),
                                       [&](const Ray& ray) { return Meets(ray, reach); });
      reaches_.push_back(reach);
      shares_.push_back(
          probes.empty()
              ? 1
              : std::max(kMinShare, static_cast<float>(n_met) / static_cast<float>(probes.size())));
    }
  }

  // part_ = the batch's pixels whose rays meet `reach`.
  void Select(const PixelBatch& batch, const Aabb& reach) {
    const int n = batch.n_pixels;
    meets_.resize(static_cast<size_t>(n));
    pool_->ParallelFor((n + kRaysPerTask - 1) / kRaysPerTask, [&](int64_t task, int) {
      const int begin = static_cast<int>(task) * kRaysPerTask;
      for (int i = begin; i < std::min(n, begin + kRaysPerTask); ++i)
        meets_[i] = Meets(rays_.Of(batch.pixels[i]), reach) ? 1 : 0;
    });
    // A step needs a ray, whatever it shows.
    if (n > 0 && std::find(meets_.begin(), meets_.end(), 1) == meets_.end()) meets_[0] = 1;
    part_.fraction = batch.fraction;
    part_.rate_factor = batch.rate_factor;
    part_.pixels.clear();
    part_.targets.clear();
    part_.backgrounds.clear();
    part_.weights.clear();
    for (int i = 0; i < n; ++i) {
      if (meets_[i] == 0) continue;
      part_.pixels.push_back(batch.pixels[i]);
      part_.targets.push_back(batch.targets[i]);
      part_.backgrounds.push_back(batch.backgrounds[i]);
      if (!batch.weights.empty()) part_.weights.push_back(batch.weights[i]);
    }
    part_.n_pixels = static_cast<int>(part_.pixels.size());
  }

  const TrainConfig config_;
  const SceneGeometry geometry_;
  const std::span<const View> views_;
  const ViewRays rays_;
  ThreadPool* const pool_;
  const bool on_cuda_;
  TileCuts cuts_;
  Tiles tiles_;                 // null for those that are trained elsewhere
  uint32_t n_steps_;            // of all tiles
  std::vector<Aabb> reaches_;   // of the tiles, with margins
  std::vector<float> shares_;   // of all rays, those that meet a reach
  std::vector<uint8_t> meets_;  // of a batch's pixels
  PixelBatch part_;
};

}  // namespace

TileCuts CutsOf(const TrainConfig& config, const SceneGeometry& geometry, const Scene& scene) {
  std::vector<Vec3> points;
  for (const SeenPoint& point : scene.points) points.push_back(point.position);
  if (points.size() < kFewPoints) {
    points.clear();
    const std::vector<Ray> rays = ViewRays(scene.train, geometry).Probes(config.seed);
    for (size_t i = 0; i < rays.size(); ++i) {
      Vec3 point;
      const float share = kernels::RayJitter(config.seed, kProbeStep, static_cast<uint32_t>(i));
      if (PointInBox(rays[i], geometry.box, share, &point)) points.push_back(point);
    }
  }
  return TileCuts::AtMedians(Ngp(config).tiles, geometry.box, std::move(points));
}

std::unique_ptr<TrainingStep> NewTiledStep(const TrainConfig& config, const SceneGeometry& geometry,
                                           const Scene& scene, ThreadPool* pool, bool on_cuda) {
  return std::make_unique<TiledStep>(config, geometry, scene, pool, on_cuda);
}

}  // namespace nerf
