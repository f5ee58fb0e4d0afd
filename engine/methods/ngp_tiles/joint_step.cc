#include "engine/methods/ngp_tiles/joint_step.h"

#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/field/kernels/spherical_harmonics.h"
#include "engine/field/parameters/gradient_lanes.h"
#include "engine/methods/ngp/chunk.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/parameters.h"
#include "engine/methods/ngp/row_evaluator.h"
#include "engine/methods/ngp/state.h"
#include "engine/methods/ngp_tiles/joint_tiles.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "engine/methods/ngp_tiles/tiled_model.h"
#include "engine/methods/ngp_tiles/tiled_step.h"
#include "engine/train/field_step.h"
#include "engine/train/occupancy_file.h"

namespace nerf {
namespace {

// What all threads read: the tiles, and the gradients of their samples by lane.
struct JointState {
  NgpNetwork Network(int tile) const { return tiles.Network(tile); }
  // Once the tiles have other parameters.
  void PointLanes() {
    lanes.resize(tiles.size());
    for (int tile = 0; tile < tiles.size(); ++tile) {
      lanes[tile].resize(kGradientLanes);
      for (int lane = 0; lane < kGradientLanes; ++lane)
        lanes[tile][lane].weight_gradients = tiles.parameters(tile).weight_gradients(lane);
    }
  }

  JointTiles tiles;
  std::vector<std::vector<LaneOutput>> lanes;
};

// The points of a call that lie in one tile.
struct TilePoints {
  std::vector<int> rows;   // of the call
  std::vector<Vec3> unit;  // [rows]: in the unit cube of the outermost box
  std::vector<float> sigmas;
};

// The fields of all tiles as one: a row is kept by the evaluator of its tile.
class JointChunkField final : public ChunkField {
 public:
  explicit JointChunkField(JointState* state) : state_(*state), parts_(state->tiles.size()) {}

  void Begin(int n_rays, const Ray* rays, const float* /*times*/) override {
    n_rays_ = n_rays;
    n_settled_ = 0;
    for (TilePart& part : parts_) part.n_rows = 0;
    harmonics_.resize(size_t{kDirectionWidth} * n_rays);
    for (int r = 0; r < n_rays; ++r) {
      kernels::SphericalHarmonics4(rays[r].direction,
                                   harmonics_.data() + size_t{kDirectionWidth} * r);
    }
  }

  void Reserve(int n_rows, int /*n_kept*/) override { places_.resize(n_rows); }

  void Density(int begin, int n, const Vec3* positions, const int* /*ray_of*/,
               float* sigmas) override {
    Settle(begin);
    for (TilePart& part : parts_) {
      part.rows.clear();
      part.unit.clear();
    }
    for (int i = 0; i < n; ++i) {
      const int tile = state_.tiles.cuts().TileAt(positions[i]);
      TilePart& part = parts_[tile];
      places_[begin + i] = {tile, part.n_rows + static_cast<int>(part.rows.size())};
      part.rows.push_back(i);
      part.unit.push_back(positions[i]);
    }
    for (size_t tile = 0; tile < parts_.size(); ++tile) {
      TilePart& part = parts_[tile];
      const int n_new = static_cast<int>(part.rows.size());
      if (n_new == 0) continue;
      part.evaluator.Reserve(part.n_rows + n_new, part.n_rows);
      part.sigmas.resize(n_new);
      ToUnitCube(state_.tiles.network().box, n_new, part.unit.data(), part.unit.data());
      part.evaluator.Density(state_.Network(static_cast<int>(tile)), part.n_rows, n_new,
                             part.unit.data(), part.sigmas.data());
      for (int i = 0; i < n_new; ++i) sigmas[part.rows[i]] = part.sigmas[i];
    }
  }

  void MoveRow(int from, int to) override { places_[to] = places_[from]; }

  void Color(int n, const int* ray_of, Vec3* colors) override {
    Settle(n);
    for (TilePart& part : parts_) {
      part.rows.clear();
      part.ray_of.clear();
    }
    for (int row = 0; row < n; ++row) {
      TilePart& part = parts_[places_[row].tile];
      part.rows.push_back(row);
      part.ray_of.push_back(ray_of[row]);
    }
    for (size_t tile = 0; tile < parts_.size(); ++tile) {
      TilePart& part = parts_[tile];
      part.colors.resize(part.n_rows);
      part.evaluator.Color(state_.Network(static_cast<int>(tile)), part.n_rows, nullptr,
                           part.ray_of.data(), n_rays_, harmonics_.data(), part.colors.data());
      for (int i = 0; i < part.n_rows; ++i) colors[part.rows[i]] = part.colors[i];
    }
  }

  // After Color of the same rows. Each tile's gradients are those of the whole rays' loss; nothing
  // is divided by the number of tiles.
  void Backward(int /*n*/, const int* /*ray_of*/, const float* grad_sigmas, const Vec3* grad_colors,
                int lane) override {
    for (size_t tile = 0; tile < parts_.size(); ++tile) {
      TilePart& part = parts_[tile];
      part.sigmas.resize(part.n_rows);
      for (int i = 0; i < part.n_rows; ++i) {
        part.sigmas[i] = grad_sigmas[part.rows[i]];
        part.colors[i] = grad_colors[part.rows[i]];
      }
      NgpParameters& trained = state_.tiles.parameters(static_cast<int>(tile));
      part.evaluator.Backward({state_.Network(static_cast<int>(tile)), trained.transposed_weights(),
                               trained.transposed_pairs()},
                              part.n_rows, part.ray_of.data(), harmonics_.data(),
                              part.sigmas.data(), part.colors.data(), &state_.lanes[tile][lane],
                              nullptr);
    }
  }

 private:
  struct TilePart : TilePoints {
    NgpRowEvaluator evaluator;
    int n_rows = 0;           // that it keeps
    std::vector<int> ray_of;  // of `rows`, as those below
    std::vector<Vec3> colors;
  };
  struct Place {
    int tile, row;  // row of the tile's evaluator
  };

  // Rows up to `end` stay: those of a tile move together, where others of it were dropped.
  void Settle(int end) {
    for (; n_settled_ < end; ++n_settled_) {
      Place& place = places_[n_settled_];
      TilePart& part = parts_[place.tile];
      if (place.row != part.n_rows) part.evaluator.MoveRow(place.row, part.n_rows);
      place.row = part.n_rows++;
    }
  }

  JointState& state_;
  std::vector<TilePart> parts_;
  std::vector<Place> places_;  // of the chunk's rows
  int n_settled_ = 0;
  int n_rays_ = 0;
  std::vector<float> harmonics_;  // of the chunk's rays
};

class JointTileStep final : public FieldStep {
 public:
  JointTileStep(const TrainConfig& config, const SceneGeometry& geometry, const Scene& scene,
                ThreadPool* pool)
      : FieldStep(config, geometry, scene.train, pool, {.n_lanes = kGradientLanes}),
        state_{JointTiles(config, geometry, CutsOf(config, geometry, scene)), {}},
        probes_(static_cast<size_t>(pool->n_threads())) {
    state_.PointLanes();
    for (int thread = 0; thread < pool->n_threads(); ++thread) {
      level_gradients_.emplace_back(state_.tiles.network().shape);
      probes_[thread].resize(state_.tiles.size());
    }
  }

  StepResult RunRays(const RayBatch& batch) override {
    for (std::vector<LaneOutput>& lanes : state_.lanes) {
      for (LaneOutput& lane : lanes) lane.Clear();
    }
    return FieldStep::RunRays(batch);
  }

  void Save(TensorFile* file) const override {
    state_.tiles.Save(file);
    SaveCommon(file);
  }
  absl::Status Load(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(JointTiles tiles, state_.tiles.Loaded(file));
    NERF_RETURN_IF_ERROR(LoadCommon(file));
    Take(std::move(tiles));
    return absl::OkStatus();
  }
  void SaveModel(TensorFile* file) const override {
    state_.tiles.SaveModel(file);
    StoreOccupancyBits(occupancy().grid(), file);
  }
  absl::Status Initialize(const TensorFile& file) override {
    NERF_ASSIGN_OR_RETURN(JointTiles tiles, state_.tiles.Initialized(file));
    Take(std::move(tiles));
    InitializeCommon(file);
    return absl::OkStatus();
  }
  std::unique_ptr<TrainedModel> Snapshot() const override {
    return state_.tiles.NewModel(occupancy().grid());
  }

 protected:
  std::unique_ptr<ChunkField> NewChunkField() override {
    return std::make_unique<JointChunkField>(&state_);
  }
  // A probe is asked of the tile that it lies in, as samples are.
  OccupancyUpdater::Density ProbedDensity() override {
    return [this](int n, const Vec3* unit, float* sigmas, int thread) {
      std::vector<TilePoints>& parts = probes_[thread];
      for (TilePoints& part : parts) {
        part.rows.clear();
        part.unit.clear();
      }
      const Aabb& box = state_.tiles.network().box;
      for (int i = 0; i < n; ++i) {
        TilePoints& part = parts[state_.tiles.cuts().TileAt(box.min + unit[i] * box.Size())];
        part.rows.push_back(i);
        part.unit.push_back(unit[i]);
      }
      for (size_t tile = 0; tile < parts.size(); ++tile) {
        TilePoints& part = parts[tile];
        part.sigmas.resize(part.rows.size());
        NgpDensities(state_.Network(static_cast<int>(tile)), static_cast<int>(part.rows.size()),
                     part.unit.data(), part.sigmas.data());
        for (size_t i = 0; i < part.rows.size(); ++i) sigmas[part.rows[i]] = part.sigmas[i];
      }
    };
  }
  bool UpdateParameters(const RayBatch& batch, int t) override;

 private:
  void Take(JointTiles tiles) {
    state_.tiles = std::move(tiles);
    state_.PointLanes();
  }
  void UpdateLevel(int level, const RayBatch& batch, int t, int tile, LevelGradients* gradients);
  void UpdateWeights(const RayBatch& batch, int t, int tile);

  JointState state_;
  std::vector<std::vector<TilePoints>> probes_;  // of each thread, by tile
  std::vector<LevelGradients> level_gradients_;  // one a thread
};

bool JointTileStep::UpdateParameters(const RayBatch& batch, int t) {
  const int n_tiles = state_.tiles.size();
  const bool trains_tables = Ngp(config()).frozen != Frozen::kTable;
  const int n_levels = trains_tables ? state_.tiles.network().shape.n_levels : 0;
  // Levels from the finest, which miss the caches most; then the weights.
  pool()->ParallelFor(int64_t{n_tiles} * (n_levels + 1), [&](int64_t task, int thread) {
    const int tile = static_cast<int>(task % n_tiles);
    const int level = n_levels - 1 - static_cast<int>(task / n_tiles);
    if (level >= 0) {
      UpdateLevel(level, batch, t, tile, &level_gradients_[thread]);
    } else {
      UpdateWeights(batch, t, tile);
    }
  });
  bool finite = true;
  for (int tile = 0; tile < n_tiles; ++tile) {
    NgpParameters& parameters = state_.tiles.parameters(tile);
    if (t % kNgpAverageInterval == 0) parameters.UpdateAverages(kNgpAverageInterval, pool());
    finite = finite && parameters.WeightsAreFinite();
  }
  return finite;
}

void JointTileStep::UpdateLevel(int level, const RayBatch& batch, int t, int tile,
                                LevelGradients* gradients) {
  for (const LaneOutput& lane : state_.lanes[tile])
    lane.Scatter(state_.tiles.network().shape, level, gradients);
  state_.tiles.parameters(tile).UpdateTableLevel(level, batch.learning_rate, t, gradients);
}

void JointTileStep::UpdateWeights(const RayBatch& batch, int t, int tile) {
  NgpParameters& parameters = state_.tiles.parameters(tile);
  if (Ngp(config()).frozen == Frozen::kMlp) {
    parameters.DropWeightGradients();
    return;
  }
  SumLanes({0, kGradientLanes}, kGradientLanes, kNgpWeights, parameters.weight_gradients(0));
  parameters.UpdateWeights(batch.learning_rate, t);
}

}  // namespace

std::unique_ptr<RayStep> NewJointTileStep(const TrainConfig& config, const SceneGeometry& geometry,
                                          const Scene& scene, ThreadPool* pool) {
  return std::make_unique<JointTileStep>(config, geometry, scene, pool);
}

absl::StatusOr<std::unique_ptr<TrainedModel>> LoadJointTiles(const TensorFile& file,
                                                             const TrainConfig& config,
                                                             const SceneGeometry& geometry) {
  NERF_ASSIGN_OR_RETURN(const TileCuts cuts, LoadCuts(file, Ngp(config).tiles));
  NERF_ASSIGN_OR_RETURN(const OccupancyGrid grid,
                        LoadModelGrid(file, geometry, GridResolution(config)));
  const kernels::HashGridShape shape = NgpNetworkOf(config, geometry).shape;
  std::vector<std::unique_ptr<TrainedModel>> models;
  for (int tile = 0; tile < cuts.n_tiles(); ++tile) {
    NERF_ASSIGN_OR_RETURN(NgpEvaluationParameters parameters,
                          ReadNgpEvaluationParameters(TileOf(file, tile), shape));
    models.push_back(NewNgpModel(config, geometry, std::move(parameters), grid));
  }
  return NewTiledModel(cuts, config, geometry, std::move(models));
}

}  // namespace nerf
