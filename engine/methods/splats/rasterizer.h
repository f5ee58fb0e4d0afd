#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/base/parallel_for.h"
#include "engine/field/kernels/splat_tiles.h"
#include "engine/methods/splats/flatten.h"
#include "engine/methods/splats/splat_cloud.h"
#include "engine/scene/camera.h"

namespace nerf {

// A square of the picture, for one thread. Pixels right of or below the picture are to be left
// aside.
struct SplatTile {
  int left, top;
  int width, height;  // of it that lies in the picture
};

// Draws splats as pictures, and brings gradients back. Keeps its memory from picture to picture.
// Results do not depend on the pool's size. Used from one thread.
class SplatRasterizer {
 public:
  explicit SplatRasterizer(ThreadPool* pool) : pool_(pool) {}

  // Prepares a picture: which splats each tile shows, nearest first. Borrows the cloud.
  // Requires: a pinhole camera.
  void Begin(const SplatCloud& cloud, const Camera& camera);

  // Draws the picture tile by tile; `take` gets each of them, from any thread. Colors on black.
  using TakeTile = std::function<void(const SplatTile&, const kernels::SplatTilePixels& drawn)>;
  void Draw(const TakeTile& take);

  // Draws the picture and finds the gradients. `loss` gets each tile and sets the derivatives of
  // the loss by what was drawn, of every pixel, to 0 beyond the picture; from any thread.
  using LossOfTile = std::function<void(const SplatTile&, const kernels::SplatTilePixels& drawn,
                                        kernels::SplatTilePixels* gradients)>;
  void DrawAndDifferentiate(const LossOfTile& loss);

  // After DrawAndDifferentiate: the derivatives by each splat that the picture shows, from any
  // thread, one call a splat. Shape: row_gradient [row size]; it may be changed.
  using TakeGradient = std::function<void(size_t splat, float* row_gradient)>;
  void ForGradients(const TakeGradient& take);

 private:
  SplatTile TileAt(int64_t index) const;
  kernels::SplatTileParams ParamsOf(int64_t index) const;
  void SortByDepth();
  void FillTiles();
  void TilesOf(const kernels::FlatSplat& flat, int* first_x, int* last_x, int* first_y,
               int* last_y) const;

  ThreadPool* const pool_;
  const SplatCloud* cloud_ = nullptr;
  SplatCamera camera_{Camera()};
  int tiles_x_ = 0, tiles_y_ = 0;
  std::vector<kernels::FlatSplat> flats_;              // [cloud size]
  std::vector<uint32_t> depth_keys_;                   // [cloud size]; 0: not shown
  std::vector<uint32_t> shown_;                        // the splats of the picture, nearest first
  std::vector<uint32_t> sorted_;                       // scratch
  std::vector<uint32_t> tile_begins_;                  // [tiles + 1] into entries_
  std::vector<uint32_t> entries_;                      // splats by tiles, nearest first
  std::vector<uint32_t> splat_begins_;                 // [shown + 1] into places_
  std::vector<uint32_t> places_;                       // of each shown splat's entries
  std::vector<int> n_drawn_;                           // [tiles]
  std::vector<kernels::FlatSplatGradient> gradients_;  // of entries
};

}  // namespace nerf
