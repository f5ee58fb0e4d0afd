#include "engine/export/mesh/texture_atlas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "engine/base/export_bytes.h"
#include "engine/export/mesh/vertex_colors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kTexelsAtOnce = 1 << 18;
constexpr int kScaleSteps = 30;  // of the bisection for texels per unit

// Two sides of a triangle that meet at a corner.
struct Legs {
  uint8_t first = 0;  // the corner
  float longer = 0;
};

Legs LegsOf(const TriangleMesh& mesh, size_t triangle) {
  std::array<float, 3> opposite;  // the length of the side opposite of each corner
  for (size_t corner = 0; corner < 3; ++corner) {
    const Vec3 a = mesh.positions[mesh.indices[3 * triangle + (corner + 1) % 3]];
    const Vec3 b = mesh.positions[mesh.indices[3 * triangle + (corner + 2) % 3]];
    opposite[corner] = Norm(a - b);
  }
  const auto first =
      static_cast<uint8_t>(std::max_element(opposite.begin(), opposite.end()) - opposite.begin());
  return {first, std::max(opposite[(first + 1) % 3], opposite[(first + 2) % 3])};
}

// Tries to place the triangles, in the order that is given, at `scale` texels a unit.
bool TryPlaces(const std::vector<Legs>& legs, const std::vector<uint32_t>& order, int size,
               double scale, std::vector<AtlasPlace>* places) {
  int x = 0, y = 0, row_height = 0;
  for (size_t i = 0; i < order.size(); i += 2) {
    const double wanted = std::min(std::ceil(scale * legs[order[i]].longer), double(size));
    const int leg = std::max(1, static_cast<int>(wanted));
    const int width = leg - 1 + kMinTextureCellWidth, height = leg - 1 + kMinTextureCellHeight;
    if (x + width > size) {
      x = 0;
      y += row_height;
      row_height = 0;
    }
    row_height = std::max(row_height, height);
    if (width > size || y + height > size) return false;
    (*places)[order[i]] = {x, y, leg, 1, legs[order[i]].first};
    if (i + 1 < order.size()) {
      (*places)[order[i + 1]] = {x + width - 1, y + height - 1, leg, -1, legs[order[i + 1]].first};
    }
    x += width;
  }
  return true;
}

// Texels whose colors are asked together.
struct TexelBatch {
  std::vector<Vec3> positions, normals, colors;
  size_t size() const { return positions.size(); }
};

// Appends the points whose colors the texels of a triangle need, row by row: rows of leg + 1 texels
// and fewer, each followed by one on the longest side, half a texel before the one beyond it.
void AppendTexels(const TriangleMesh& mesh, size_t triangle, const AtlasPlace& place,
                  TexelBatch* batch) {
  std::array<uint32_t, 3> corners;
  for (size_t i = 0; i < 3; ++i) corners[i] = mesh.indices[3 * triangle + (place.first + i) % 3];
  const auto append = [&](float u, float v) {
    const float w = 1 - u - v;
    const auto mixed = [&](const std::vector<Vec3>& values) {
      return values[corners[0]] * w + values[corners[1]] * u + values[corners[2]] * v;
    };
    const Vec3 normal = mixed(mesh.normals);
    const float length = Norm(normal);
    batch->positions.push_back(mixed(mesh.positions));
    batch->normals.push_back(length > 0 ? normal * (1 / length) : mesh.normals[corners[0]]);
  };
  const float texel = 1 / static_cast<float>(place.leg);
  for (int j = 0; j <= place.leg; ++j) {
    const auto row = static_cast<float>(j);
    for (int i = 0; i <= place.leg - j; ++i) append(static_cast<float>(i) * texel, row * texel);
    const float beyond = static_cast<float>(place.leg - j) + 0.5f;
    append(std::min(1.0f, beyond * texel), j == 0 ? 0 : (row - 0.5f) * texel);
  }
}

void SetTexel(const AtlasPlace& place, int i, int j, Vec3 color, ImageU8* picture) {
  const int x = place.x + place.sign * i, y = place.y + place.sign * j;
  uint8_t* const pixel = picture->pixels.data() + 3 * (static_cast<size_t>(y) * picture->width + x);
  for (int channel = 0; channel < 3; ++channel) {
    const float byte = std::clamp(color[channel], 0.0f, 1.0f) * 255;
    pixel[channel] = static_cast<uint8_t>(std::lround(byte));
  }
}

// Takes the colors of AppendTexels; returns how many.
size_t SetTexels(const AtlasPlace& place, const Vec3* colors, ImageU8* picture) {
  const Vec3* next = colors;
  const Vec3* before = nullptr;  // the row before
  for (int j = 0; j <= place.leg; ++j) {
    const Vec3* const row = next;
    const int n = place.leg - j + 1;
    for (int i = 0; i < n; ++i) SetTexel(place, i, j, row[i], picture);
    // Beyond the longest side colors go on as they come to it, so that between texels they are
    // right up to it.
    const Vec3 on_side = row[n];
    SetTexel(place, n, j, j == 0 ? on_side : on_side * 2.0f - before[n - 1], picture);
    before = row;
    next += n + 1;
  }
  return static_cast<size_t>(next - colors);
}

}  // namespace

absl::StatusOr<std::vector<AtlasPlace>> PlaceTriangles(const TriangleMesh& mesh, int size) {
  const size_t n = mesh.n_triangles();
  std::vector<Legs> legs(n);
  float longest = 0;
  for (size_t i = 0; i < n; ++i) {
    legs[i] = LegsOf(mesh, i);
    longest = std::max(longest, legs[i].longer);
  }
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return legs[a].longer > legs[b].longer; });
  std::vector<AtlasPlace> places(n);
  if (!TryPlaces(legs, order, size, 0, &places)) {
    return absl::InvalidArgumentError(fmt::format(
        "a texture of {0}x{0} holds at most {1} triangles, the mesh has {2}: take --texture {3} or "
        "fewer --triangles",
        size, MaxTexturedTriangles(static_cast<size_t>(size)), n, MinTextureSize(n)));
  }
  double low = 0, high = longest > 0 ? size / longest : 0;
  for (int step = 0; step < kScaleSteps; ++step) {
    const double middle = 0.5 * (low + high);
    (TryPlaces(legs, order, size, middle, &places) ? low : high) = middle;
  }
  TryPlaces(legs, order, size, low, &places);
  return places;
}

absl::StatusOr<MeshTexture> MakeTexture(const MarchedModel& model, const TriangleMesh& mesh,
                                        int size, float cell, float time, ThreadPool* pool,
                                        const std::stop_token& stop,
                                        const std::function<void(double share)>& progress) {
  MeshTexture texture;
  NERF_ASSIGN_OR_RETURN(texture.places, PlaceTriangles(mesh, size));
  texture.picture = {size, size, 3, std::vector<uint8_t>(3 * static_cast<size_t>(size) * size)};
  const size_t n = mesh.n_triangles();
  for (size_t begin = 0, end = 0; begin < n; begin = end) {
    progress(static_cast<double>(begin) / static_cast<double>(n));
    TexelBatch batch;
    for (end = begin; end < n && batch.size() < kTexelsAtOnce; ++end) {
      AppendTexels(mesh, end, texture.places[end], &batch);
    }
    batch.colors.resize(batch.size());
    if (!ColorPoints(model, batch.positions, batch.normals, cell, time, pool, stop,
                     batch.colors.data())) {
      return absl::CancelledError("the export was interrupted");
    }
    const Vec3* colors = batch.colors.data();
    for (size_t i = begin; i < end; ++i) {
      colors += SetTexels(texture.places[i], colors, &texture.picture);
    }
  }
  return texture;
}

}  // namespace nerf
