#include "engine/export/mesh/texture_atlas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "common/status_macros.h"
#include "engine/export/mesh/vertex_colors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kTexelsAtOnce = 1 << 18;
constexpr int kScaleSteps = 30;  // of the bisection for texels per unit
constexpr int kTurns = 32;       // of a chart that are tried, in a quarter circle
// Texels with centers so near a triangle, in texels, have a color of their own: interpolation
// inside of it takes them.
constexpr float kRim = 1.5f;

// The vertices of a chart in its plane, at its turn. Corner (0, 0) is the lowest of each.
struct FlatChart {
  std::vector<std::array<float, 2>> points;  // of the chart's vertices, in units
  float width = 0, height = 0;
};

// Turns the points to the rectangle of the smallest area, and it to lie.
FlatChart Flattened(const std::vector<std::array<double, 2>>& points) {
  struct Extent {
    double x0, x1, y0, y1, cosine, sine;
    double Area() const { return (x1 - x0) * (y1 - y0); }
  } best{};
  for (int turn = 0; turn < kTurns; ++turn) {
    const double angle = 0.5 * 3.14159265358979 * turn / kTurns;
    Extent extent{1e300, -1e300, 1e300, -1e300, std::cos(angle), std::sin(angle)};
    for (const auto& [x, y] : points) {
      const double along = extent.cosine * x + extent.sine * y;
      const double across = extent.cosine * y - extent.sine * x;
      extent.x0 = std::min(extent.x0, along), extent.x1 = std::max(extent.x1, along);
      extent.y0 = std::min(extent.y0, across), extent.y1 = std::max(extent.y1, across);
    }
    if (turn == 0 || extent.Area() < best.Area() * (1 - 1e-6)) best = extent;
  }
  // One more quarter where it stands.
  const bool stands = best.y1 - best.y0 > best.x1 - best.x0;
  FlatChart flat;
  for (const auto& [x, y] : points) {
    const double along = best.cosine * x + best.sine * y - best.x0;
    const double across = best.cosine * y - best.sine * x - best.y0;
    const double height = best.y1 - best.y0;
    if (stands) {
      flat.points.push_back({static_cast<float>(height - across), static_cast<float>(along)});
    } else {
      flat.points.push_back({static_cast<float>(along), static_cast<float>(across)});
    }
  }
  flat.width = static_cast<float>(stands ? best.y1 - best.y0 : best.x1 - best.x0);
  flat.height = static_cast<float>(stands ? best.x1 - best.x0 : best.y1 - best.y0);
  return flat;
}

// Tries to place the charts, in the order that is given, at `scale` texels a unit: in rows.
bool TryPlaces(const std::vector<FlatChart>& charts, const std::vector<uint32_t>& order, int size,
               int gutter, double scale, std::vector<ChartPlace>* places) {
  const auto texels = [&](float length) {
    return static_cast<int>(std::min(std::ceil(scale * length), double(size))) + 1 + 2 * gutter;
  };
  int x = 0, y = 0, row_height = 0;
  for (const uint32_t chart : order) {
    const int width = texels(charts[chart].width), height = texels(charts[chart].height);
    if (x + width > size) {
      x = 0;
      y += row_height;
      row_height = 0;
    }
    row_height = std::max(row_height, height);
    if (width > size || y + height > size) return false;
    (*places)[chart] = {x, y, width, height};
    x += width;
  }
  return true;
}

// A texel and the point of the mesh that it shows.
struct TexelBatch {
  std::vector<size_t> texels;  // numbers in the picture
  std::vector<Vec3> positions, normals, colors;
  size_t size() const { return texels.size(); }
};

// The triangle that a texel of a chart shows: one that holds its center, or the nearest.
struct Shown {
  float distance = kRim;  // in texels; 0 inside
  uint32_t triangle = UINT32_MAX;
  float shares[3] = {};  // of the corners
};

// Shows the triangle at the center of a texel where it is nearer than what is shown there.
void ShowTriangle(const float (&px)[3], const float (&py)[3], float x, float y, uint32_t triangle,
                  Shown* texel) {
  const float area = (px[1] - px[0]) * (py[2] - py[0]) - (px[2] - px[0]) * (py[1] - py[0]);
  if (area != 0) {
    float shares[3];
    for (size_t k = 0; k < 3; ++k) {
      const size_t a = (k + 1) % 3, b = (k + 2) % 3;
      shares[k] = ((px[a] - x) * (py[b] - y) - (px[b] - x) * (py[a] - y)) / area;
    }
    if (std::min({shares[0], shares[1], shares[2]}) >= 0) {
      *texel = {0, triangle, {shares[0], shares[1], shares[2]}};
      return;
    }
  }
  for (size_t k = 0; k < 3; ++k) {
    const size_t next = (k + 1) % 3;
    const float dx = px[next] - px[k], dy = py[next] - py[k], length2 = dx * dx + dy * dy;
    const float along =
        length2 > 0 ? std::clamp(((x - px[k]) * dx + (y - py[k]) * dy) / length2, 0.0f, 1.0f) : 0;
    const float distance = std::hypot(px[k] + along * dx - x, py[k] + along * dy - y);
    if (distance >= texel->distance) continue;
    // Above 0: a triangle that holds the center comes first.
    *texel = {std::max(distance, 1e-6f), triangle, {0, 0, 0}};
    texel->shares[k] = 1 - along;
    texel->shares[next] = along;
  }
}

// Appends the points of all texels that a chart covers, or that touch it.
void AppendTexels(const TriangleMesh& mesh, const TextureLayout& layout, size_t chart, int size,
                  TexelBatch* batch) {
  const ChartPlace& place = layout.places[chart];
  std::vector<Shown> shown(static_cast<size_t>(place.width) * place.height);
  for (const uint32_t triangle : layout.charts[chart].triangles) {
    float px[3], py[3];
    for (size_t k = 0; k < 3; ++k) {
      const TextureVertex& vertex = layout.vertices[layout.indices[3 * size_t{triangle} + k]];
      px[k] = vertex.x - static_cast<float>(place.x) - 0.5f;
      py[k] = vertex.y - static_cast<float>(place.y) - 0.5f;
    }
    const auto first = [](float low) { return static_cast<int>(std::ceil(low - kRim)); };
    const auto last = [](float high) { return static_cast<int>(std::floor(high + kRim)); };
    const int x0 = std::max(0, first(std::min({px[0], px[1], px[2]})));
    const int x1 = std::min(place.width - 1, last(std::max({px[0], px[1], px[2]})));
    const int y0 = std::max(0, first(std::min({py[0], py[1], py[2]})));
    const int y1 = std::min(place.height - 1, last(std::max({py[0], py[1], py[2]})));
    for (int y = y0; y <= y1; ++y) {
      for (int x = x0; x <= x1; ++x) {
        Shown& texel = shown[static_cast<size_t>(y) * place.width + x];
        if (texel.distance == 0) continue;
        ShowTriangle(px, py, static_cast<float>(x), static_cast<float>(y), triangle, &texel);
      }
    }
  }
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i].triangle == UINT32_MAX) continue;
    const uint32_t* const corners = mesh.indices.data() + 3 * size_t{shown[i].triangle};
    const auto mixed = [&](const std::vector<Vec3>& values) {
      return values[corners[0]] * shown[i].shares[0] + values[corners[1]] * shown[i].shares[1] +
             values[corners[2]] * shown[i].shares[2];
    };
    const Vec3 normal = mixed(mesh.normals);
    const float length = Norm(normal);
    const size_t column = place.x + i % place.width, row = place.y + i / place.width;
    batch->texels.push_back(row * size + column);
    batch->positions.push_back(mixed(mesh.positions));
    batch->normals.push_back(length > 0 ? normal * (1 / length) : mesh.normals[corners[0]]);
  }
}

void SetTexels(const TexelBatch& batch, ImageU8* picture, std::vector<bool>* is_set) {
  for (size_t i = 0; i < batch.size(); ++i) {
    (*is_set)[batch.texels[i]] = true;
    for (int channel = 0; channel < 3; ++channel) {
      const float byte = std::clamp(batch.colors[i][channel], 0.0f, 1.0f) * 255;
      picture->pixels[3 * batch.texels[i] + channel] = static_cast<uint8_t>(std::lround(byte));
    }
  }
}

// Texels without a color take the mean of their neighbors', ring after ring.
void FillOutward(std::vector<bool> is_set, ImageU8* picture) {
  const int size = picture->width;
  const auto visit = [&](size_t texel, const auto& each) {
    const int x = static_cast<int>(texel % size), y = static_cast<int>(texel / size);
    for (int row = std::max(0, y - 1); row <= std::min(size - 1, y + 1); ++row) {
      for (int column = std::max(0, x - 1); column <= std::min(size - 1, x + 1); ++column)
        each(static_cast<size_t>(row) * size + column);
    }
  };
  std::vector<bool> is_queued = is_set;
  std::vector<size_t> ring;
  const auto queue_around = [&](size_t texel, std::vector<size_t>* next) {
    visit(texel, [&](size_t neighbor) {
      if (is_queued[neighbor]) return;
      is_queued[neighbor] = true;
      next->push_back(neighbor);
    });
  };
  for (size_t i = 0; i < is_set.size(); ++i) {
    if (is_set[i]) queue_around(i, &ring);
  }
  while (!ring.empty()) {
    std::vector<size_t> next;
    for (const size_t texel : ring) {
      int sums[3] = {}, n = 0;
      visit(texel, [&](size_t neighbor) {
        if (!is_set[neighbor]) return;
        ++n;
        for (size_t c = 0; c < 3; ++c) sums[c] += picture->pixels[3 * neighbor + c];
      });
      for (size_t c = 0; c < 3; ++c)
        picture->pixels[3 * texel + c] = static_cast<uint8_t>((sums[c] + n / 2) / n);
    }
    for (const size_t texel : ring) is_set[texel] = true;
    for (const size_t texel : ring) queue_around(texel, &next);
    ring = std::move(next);
  }
}

// The vertices of a chart, in the order of its triangles, and its triangles' indices.
void AddVertices(const TriangleMesh& mesh, const MeshChart& chart, TextureLayout* layout,
                 std::vector<std::array<double, 2>>* points) {
  const auto along = [](Vec3 axis, Vec3 p) {
    return double{axis.x} * p.x + double{axis.y} * p.y + double{axis.z} * p.z;
  };
  std::unordered_map<uint32_t, uint32_t> numbers;
  for (const uint32_t triangle : chart.triangles) {
    for (size_t k = 0; k < 3; ++k) {
      const uint32_t vertex = mesh.indices[3 * size_t{triangle} + k];
      const auto [it, is_new] =
          numbers.emplace(vertex, static_cast<uint32_t>(layout->vertices.size()));
      if (is_new) {
        layout->vertices.push_back({vertex, 0, 0});
        // Rows go down: the picture shows the surface as it is seen from outside.
        const Vec3 position = mesh.positions[vertex];
        points->push_back({along(chart.right, position), -along(chart.up, position)});
      }
      layout->indices[3 * size_t{triangle} + k] = it->second;
    }
  }
}

// Wide where charts are large, so that most of the picture is theirs.
int GutterOf(size_t n_charts, int size) {
  const double side = size / std::sqrt(static_cast<double>(std::max<size_t>(1, n_charts)));
  return static_cast<int>(std::clamp(side / 16, 1.0, double{kMaxChartGutter}));
}

absl::Status TooManyCharts(size_t n_charts, size_t n_triangles, int size) {
  const size_t side = 3, fit = (static_cast<size_t>(size) / side) * (size / side);
  const auto needed = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(n_charts))));
  const double share = 0.9 * static_cast<double>(fit) / static_cast<double>(n_charts);
  return absl::InvalidArgumentError(fmt::format(
      "a texture of {0}x{0} holds at most {1} charts, the mesh of {2} triangles has {3}: take "
      "--texture {4}, or about --triangles {5}",
      size, fit, n_triangles, n_charts, side * needed,
      static_cast<size_t>(share * static_cast<double>(n_triangles))));
}

}  // namespace

absl::StatusOr<TextureLayout> LayOut(const TriangleMesh& mesh, int size) {
  TextureLayout layout;
  layout.charts = ChartsOf(mesh);
  layout.indices.resize(mesh.indices.size());
  const size_t n = layout.charts.size();
  std::vector<FlatChart> flat;
  float longest = 0;
  for (const MeshChart& chart : layout.charts) {
    std::vector<std::array<double, 2>> points;
    AddVertices(mesh, chart, &layout, &points);
    flat.push_back(Flattened(points));
    longest = std::max(longest, flat.back().width);
  }
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return flat[a].height > flat[b].height; });
  layout.places.resize(n);
  const int gutter = layout.gutter = GutterOf(n, size);
  if (!TryPlaces(flat, order, size, gutter, 0, &layout.places))
    return TooManyCharts(n, mesh.n_triangles(), size);
  double low = 0, high = longest > 0 ? size / longest : 0;
  for (int step = 0; step < kScaleSteps; ++step) {
    const double middle = 0.5 * (low + high);
    (TryPlaces(flat, order, size, gutter, middle, &layout.places) ? low : high) = middle;
  }
  TryPlaces(flat, order, size, gutter, low, &layout.places);
  size_t vertex = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto place = [&](int begin, float along) {
      return static_cast<float>(begin + gutter + 0.5 + low * along);
    };
    for (const auto& [x, y] : flat[i].points) {
      layout.vertices[vertex].x = place(layout.places[i].x, x);
      layout.vertices[vertex++].y = place(layout.places[i].y, y);
    }
  }
  return layout;
}

absl::StatusOr<MeshTexture> MakeTexture(const MarchedModel& model, const TriangleMesh& mesh,
                                        int size, float cell, float time, ThreadPool* pool,
                                        const std::stop_token& stop,
                                        const std::function<void(double share)>& progress) {
  MeshTexture texture;
  NERF_ASSIGN_OR_RETURN(texture.layout, LayOut(mesh, size));
  const size_t n_texels = static_cast<size_t>(size) * size, n = texture.layout.charts.size();
  texture.picture = {size, size, 3, std::vector<uint8_t>(3 * n_texels)};
  std::vector<bool> is_set(n_texels);
  size_t n_triangles = 0;
  for (size_t begin = 0, end = 0; begin < n; begin = end) {
    progress(static_cast<double>(n_triangles) / static_cast<double>(mesh.n_triangles()));
    TexelBatch batch;
    for (end = begin; end < n && batch.size() < kTexelsAtOnce; ++end) {
      AppendTexels(mesh, texture.layout, end, size, &batch);
      n_triangles += texture.layout.charts[end].triangles.size();
    }
    batch.colors.resize(batch.size());
    if (!ColorPoints(model, batch.positions, batch.normals, cell, time, pool, stop,
                     batch.colors.data())) {
      return absl::CancelledError("the export was interrupted");
    }
    SetTexels(batch, &texture.picture, &is_set);
  }
  FillOutward(std::move(is_set), &texture.picture);
  return texture;
}

}  // namespace nerf
