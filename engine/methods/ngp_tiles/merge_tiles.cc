#include "engine/methods/ngp_tiles/merge_tiles.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp/steps.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxCount = uint64_t{1'000'000'000'000'000'000};  // in a file

absl::Status Refused(const ModelPart& part, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", part.path, why));
}

// What parts of one model share, by the names that files have for it.
std::map<std::string, std::string> SharedFacts(TrainState state) {
  Ngp(state.config).tile = kAllTiles;
  state.geometry.frustum = {};  // of no use to tiles
  state.n_trained = state.n_marched = state.n_rays = 0;
  // Other budgets end when a tile has had its samples or its time.
  if (state.config.budget.kind != BudgetKind::kSteps) state.step = 0;
  TensorFile file;
  StoreTrainState(state, TrainFileKind::kModel, &file);
  return std::move(file.metadata);
}

// That `part` is of the model that `first` is of.
absl::Status CheckBelongs(const ModelPart& part, const ModelPart& first) {
  if (Ngp(part.state.config).tile == kAllTiles)
    return Refused(part, "has all tiles (tile=all); only models of one tile are merged");
  constexpr size_t kMaxShown = 64;
  const auto value = [](const std::map<std::string, std::string>& facts, const std::string& key) {
    const auto found = facts.find(key);
    return found == facts.end() ? "unset" : "'" + found->second.substr(0, kMaxShown) + "'";
  };
  const auto wanted = SharedFacts(first.state), found = SharedFacts(part.state);
  auto keys = wanted;
  keys.insert(found.begin(), found.end());
  for (const auto& [key, ignored] : keys) {
    if (wanted.contains(key) && found.contains(key) && wanted.at(key) == found.at(key)) continue;
    return Refused(part, fmt::format("{} is {}, in {} {}", key, value(found, key), first.path,
                                     value(wanted, key)));
  }
  const absl::StatusOr<TileCuts> cuts = LoadCuts(part.file, Ngp(part.state.config).tiles);
  if (!cuts.ok()) return Refused(part, std::string(cuts.status().message()));
  // Its own were checked first.
  NERF_ASSIGN_OR_RETURN(const TileCuts wanted_cuts,
                        LoadCuts(first.file, Ngp(first.state.config).tiles));
  if (*cuts == wanted_cuts) return absl::OkStatus();
  return Refused(part, fmt::format("{} are others than those of {}", kTileCutsName, first.path));
}

uint64_t Sum(uint64_t a, int64_t b) { return std::min(kMaxCount, a + static_cast<uint64_t>(b)); }

}  // namespace

absl::StatusOr<TensorFile> MergeTiles(std::vector<ModelPart> parts) {
  if (parts.empty()) return absl::InvalidArgumentError("no models to merge");
  const int n_tiles = Ngp(parts[0].state.config).tiles;
  std::vector<const ModelPart*> of_tile(static_cast<size_t>(n_tiles));
  for (const ModelPart& part : parts) {
    NERF_RETURN_IF_ERROR(CheckBelongs(part, parts[0]));
    const int tile = Ngp(part.state.config).tile;
    const ModelPart*& found = of_tile[tile];
    if (found != nullptr) return Refused(part, fmt::format("tile {} is in {}", tile, found->path));
    const absl::Status whole =
        LoadNgpModel(TileOf(part.file, tile), part.state.config, part.state.geometry).status();
    if (!whole.ok()) return Refused(part, std::string(whole.message()));
    found = &part;
  }
  for (int tile = 0; tile < n_tiles; ++tile) {
    if (of_tile[tile] != nullptr) continue;
    return absl::InvalidArgumentError(fmt::format("tile {} of {} is missing", tile, n_tiles));
  }
  TensorFile merged;
  NERF_ASSIGN_OR_RETURN(const TileCuts cuts, LoadCuts(parts[0].file, n_tiles));
  StoreCuts(cuts, &merged);
  TrainState state = parts[0].state;
  Ngp(state.config).tile = kAllTiles;
  uint64_t n_trained = 0, n_marched = 0, n_rays = 0;
  for (int tile = 0; tile < n_tiles; ++tile) {
    const ModelPart& part = *of_tile[tile];
    AddTile(tile, TileOf(part.file, tile), &merged);
    state.step = std::max(state.step, part.state.step);
    n_trained = Sum(n_trained, part.state.n_trained);
    n_marched = Sum(n_marched, part.state.n_marched);
    n_rays = Sum(n_rays, part.state.n_rays);
  }
  state.n_trained = static_cast<int64_t>(n_trained);
  state.n_marched = static_cast<int64_t>(n_marched);
  state.n_rays = static_cast<int64_t>(n_rays);
  StoreTrainState(state, TrainFileKind::kModel, &merged);
  return merged;
}

}  // namespace nerf
