#include "engine/methods/splats/rasterizer.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace nerf {
namespace {

constexpr int kTile = kernels::kSplatTile;
constexpr size_t kChunk = 256;  // splats of a task

int64_t ChunksOf(size_t n) { return static_cast<int64_t>((n + kChunk - 1) / kChunk); }

}  // namespace

void SplatRasterizer::Begin(const SplatCloud& cloud, const Camera& camera) {
  cloud_ = &cloud;
  camera_ = SplatCamera(camera);
  tiles_x_ = (camera.width + kTile - 1) / kTile;
  tiles_y_ = (camera.height + kTile - 1) / kTile;
  flats_.resize(cloud.size());
  depth_keys_.resize(cloud.size());
  pool_->ParallelFor(ChunksOf(cloud.size()), [&](int64_t chunk, int /*thread*/) {
    const size_t begin = static_cast<size_t>(chunk) * kChunk;
    const size_t end = std::min(begin + kChunk, cloud.size());
    for (size_t i = begin; i < end; ++i) {
      float depth = 0;
      const bool is_shown =
          FlattenSplat(cloud.row(i), cloud.degree, cloud.widths[i], camera_, &flats_[i], &depth);
      depth_keys_[i] = is_shown ? std::bit_cast<uint32_t>(depth) : 0;
    }
  });
  SortByDepth();
  FillTiles();
}

// Positive floats have the order of their bits: two passes over halves of them.
void SplatRasterizer::SortByDepth() {
  shown_.clear();
  for (uint32_t i = 0; i < depth_keys_.size(); ++i) {
    if (depth_keys_[i] != 0) shown_.push_back(i);
  }
  sorted_.resize(shown_.size());
  constexpr int kBits = 16;
  std::vector<uint32_t> places(size_t{1} << kBits);
  for (int shift = 0; shift < 32; shift += kBits) {
    const auto digit = [&](uint32_t splat) {
      return depth_keys_[splat] >> shift & ((1u << kBits) - 1);
    };
    std::fill(places.begin(), places.end(), 0);
    for (const uint32_t splat : shown_) ++places[digit(splat)];
    uint32_t before = 0;
    for (uint32_t& place : places) before += std::exchange(place, before);
    for (const uint32_t splat : shown_) sorted_[places[digit(splat)]++] = splat;
    shown_.swap(sorted_);
  }
}

void SplatRasterizer::TilesOf(const kernels::FlatSplat& flat, int* first_x, int* last_x,
                              int* first_y, int* last_y) const {
  const auto clamped = [](float pixel, int n_tiles) {
    return static_cast<int>(
        std::clamp(pixel * (1.0f / kTile), 0.0f, static_cast<float>(n_tiles - 1)));
  };
  *first_x = clamped(flat.x - flat.reach_x, tiles_x_);
  *last_x = clamped(flat.x + flat.reach_x, tiles_x_);
  *first_y = clamped(flat.y - flat.reach_y, tiles_y_);
  *last_y = clamped(flat.y + flat.reach_y, tiles_y_);
}

void SplatRasterizer::FillTiles() {
  const size_t n_tiles = static_cast<size_t>(tiles_x_) * tiles_y_;
  tile_begins_.assign(n_tiles + 1, 0);
  splat_begins_.resize(shown_.size() + 1);
  const auto for_tiles = [&](uint32_t splat, const auto& visit) {
    int first_x, last_x, first_y, last_y;
    TilesOf(flats_[splat], &first_x, &last_x, &first_y, &last_y);
    for (int y = first_y; y <= last_y; ++y) {
      for (int x = first_x; x <= last_x; ++x) visit(static_cast<size_t>(y) * tiles_x_ + x);
    }
  };
  uint32_t n_places = 0;
  for (size_t i = 0; i < shown_.size(); ++i) {
    splat_begins_[i] = n_places;
    for_tiles(shown_[i], [&](size_t tile) {
      ++tile_begins_[tile + 1];
      ++n_places;
    });
  }
  splat_begins_[shown_.size()] = n_places;
  for (size_t tile = 0; tile < n_tiles; ++tile) tile_begins_[tile + 1] += tile_begins_[tile];
  entries_.resize(n_places);
  places_.resize(n_places);
  std::vector<uint32_t> next(tile_begins_.begin(), tile_begins_.end() - 1);
  uint32_t place = 0;
  for (const uint32_t splat : shown_) {
    for_tiles(splat, [&](size_t tile) {
      places_[place++] = next[tile];
      entries_[next[tile]++] = splat;
    });
  }
}

SplatTile SplatRasterizer::TileAt(int64_t index) const {
  SplatTile tile;
  tile.left = static_cast<int>(index % tiles_x_) * kTile;
  tile.top = static_cast<int>(index / tiles_x_) * kTile;
  tile.width = std::min(kTile, camera_.width - tile.left);
  tile.height = std::min(kTile, camera_.height - tile.top);
  return tile;
}

kernels::SplatTileParams SplatRasterizer::ParamsOf(int64_t index) const {
  const SplatTile tile = TileAt(index);
  const uint32_t begin = tile_begins_[index];
  return {tile.left, tile.top, static_cast<int>(tile_begins_[index + 1] - begin),
          entries_.data() + begin, flats_.data()};
}

void SplatRasterizer::Draw(const TakeTile& take) {
  pool_->ParallelFor(int64_t{tiles_x_} * tiles_y_, [&](int64_t index, int /*thread*/) {
    kernels::SplatTilePixels drawn;
    kernels::cpu::DrawSplatTile(ParamsOf(index), &drawn);
    take(TileAt(index), drawn);
  });
}

void SplatRasterizer::DrawAndDifferentiate(const LossOfTile& loss) {
  const int64_t n_tiles = int64_t{tiles_x_} * tiles_y_;
  n_drawn_.resize(n_tiles);
  gradients_.resize(entries_.size());
  pool_->ParallelFor(n_tiles, [&](int64_t index, int /*thread*/) {
    kernels::SplatTilePixels drawn, gradients;
    kernels::SplatTileParams params = ParamsOf(index);
    const int n_entries = params.n;
    params.n = kernels::cpu::DrawSplatTile(params, &drawn);
    loss(TileAt(index), drawn, &gradients);
    kernels::FlatSplatGradient* const own = gradients_.data() + tile_begins_[index];
    kernels::cpu::BackwardSplatTile(params, drawn, gradients, own);
    std::fill(own + params.n, own + n_entries, kernels::FlatSplatGradient());
  });
}

void SplatRasterizer::ForGradients(const TakeGradient& take) {
  pool_->ParallelFor(ChunksOf(shown_.size()), [&](int64_t chunk, int /*thread*/) {
    const size_t begin = static_cast<size_t>(chunk) * kChunk;
    const size_t end = std::min(begin + kChunk, shown_.size());
    float row_gradient[SplatCloud::kMaxRow] = {};
    for (size_t i = begin; i < end; ++i) {
      kernels::FlatSplatGradient sum;
      for (uint32_t place = splat_begins_[i]; place < splat_begins_[i + 1]; ++place) {
        const kernels::FlatSplatGradient& part = gradients_[places_[place]];
        sum.x += part.x;
        sum.y += part.y;
        sum.a += part.a;
        sum.b += part.b;
        sum.c += part.c;
        sum.opacity += part.opacity;
        sum.color = sum.color + part.color;
      }
      if (sum == kernels::FlatSplatGradient()) continue;  // it lies behind others
      const size_t splat = shown_[i];
      BackwardFlatten(cloud_->row(splat), cloud_->degree, cloud_->widths[splat], camera_, sum,
                      row_gradient);
      take(splat, row_gradient);
    }
  });
}

}  // namespace nerf
