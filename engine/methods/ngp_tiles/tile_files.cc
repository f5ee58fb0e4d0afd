#include "engine/methods/ngp_tiles/tile_files.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "engine/field/parameters/dense_parameters.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// Those entries of a map whose keys begin with the prefix, without it.
template <typename Map>
Map Stripped(const Map& entries, const std::string& prefix) {
  Map found;
  for (auto i = entries.lower_bound(prefix); i != entries.end(); ++i) {
    if (!i->first.starts_with(prefix)) break;
    found.emplace(i->first.substr(prefix.size()), i->second);
  }
  return found;
}

}  // namespace

void AddTile(int tile, TensorFile part, TensorFile* file) {
  const std::string prefix = TilePrefix(tile);
  for (auto& [name, tensor] : part.tensors) file->tensors[prefix + name] = std::move(tensor);
  for (auto& [key, value] : part.metadata) file->metadata[prefix + key] = std::move(value);
}

TensorFile TileOf(const TensorFile& file, int tile) {
  const std::string prefix = TilePrefix(tile);
  return {Stripped(file.tensors, prefix), Stripped(file.metadata, prefix)};
}

void StoreCuts(const TileCuts& cuts, TensorFile* file) {
  std::vector<float> values;
  for (const TileCut& cut : cuts.cuts()) {
    values.push_back(static_cast<float>(cut.axis));
    values.push_back(cut.position);
  }
  file->tensors[kTileCutsName] =
      TensorFromFloats(values.data(), {static_cast<uint32_t>(cuts.cuts().size()), 2}, DType::kF32);
}

absl::StatusOr<TileCuts> LoadCuts(const TensorFile& file, int n_tiles) {
  NERF_ASSIGN_OR_RETURN(const std::vector<float> values,
                        ReadFloats(file, kTileCutsName, {static_cast<uint32_t>(n_tiles - 1), 2}));
  std::vector<TileCut> cuts;
  for (size_t i = 0; i < values.size(); i += 2) {
    const float axis = values[i], position = values[i + 1];
    if ((axis != 0 && axis != 1 && axis != 2) || !std::isfinite(position)) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: cut {} has no axis or no position", kTileCutsName, i / 2));
    }
    cuts.push_back({static_cast<int>(axis), position});
  }
  return TileCuts(std::move(cuts));
}

}  // namespace nerf
