#include "engine/scene/posing/photographs/one_spot.h"

#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <string_view>

namespace nerf {
namespace {

using Matrix = std::array<double, 9>;

constexpr double kMostParallax = 0.025;  // 1.4 degrees; coarse features alone leave half of it
constexpr double kMinTurnedShare = 0.9;  // of the verified pairs
constexpr size_t kMinPairsPerPhoto = 1;
constexpr int64_t kMinMatches = 15;
// Kinds of pairs, as COLMAP's TwoViewGeometry has them.
constexpr int64_t kPlanar = 4, kPanoramic = 5, kPlanarOrPanoramic = 6, kWatermark = 7;
constexpr int64_t kMaxId = 2147483647;

struct CloseSqlite {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

Matrix Times(const Matrix& a, const Matrix& b) {
  Matrix c{};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) c[3 * i + j] += a[3 * i + k] * b[3 * k + j];
    }
  }
  return c;
}

// The singular values of a matrix, largest first, by the angles of the cubic of M^T M.
std::array<double, 3> SingularValues(const Matrix& m) {
  Matrix transposed;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) transposed[3 * i + j] = m[3 * j + i];
  }
  const Matrix a = Times(transposed, m);
  const double q = (a[0] + a[4] + a[8]) / 3;
  const double off = a[1] * a[1] + a[2] * a[2] + a[5] * a[5];
  const double p = std::sqrt(
      ((a[0] - q) * (a[0] - q) + (a[4] - q) * (a[4] - q) + (a[8] - q) * (a[8] - q) + 2 * off) / 6);
  if (p < 1e-12) return {std::sqrt(q), std::sqrt(q), std::sqrt(q)};
  Matrix b = a;
  for (int i : {0, 4, 8}) b[i] -= q;
  for (double& value : b) value /= p;
  const double determinant = b[0] * (b[4] * b[8] - b[5] * b[7]) -
                             b[1] * (b[3] * b[8] - b[5] * b[6]) +
                             b[2] * (b[3] * b[7] - b[4] * b[6]);
  const double angle = std::acos(std::clamp(determinant / 2, -1.0, 1.0)) / 3;
  const double largest = q + 2 * p * std::cos(angle);
  const double smallest = q + 2 * p * std::cos(angle + 2 * std::numbers::pi / 3);
  const double middle = 3 * q - largest - smallest;
  return {std::sqrt(std::max(0.0, largest)), std::sqrt(std::max(0.0, middle)),
          std::sqrt(std::max(0.0, smallest))};
}

double ParallaxOf(const TurnedPair& pair, double factor) {
  const auto& [f1, x1, y1] = pair.first;
  const auto& [f2, x2, y2] = pair.second;
  const double s1 = f1 * factor, s2 = f2 * factor;
  const Matrix to_pixels = {s1, 0, x1, 0, s1, y1, 0, 0, 1};
  const Matrix to_rays = {1 / s2, 0, -x2 / s2, 0, 1 / s2, -y2 / s2, 0, 0, 1};
  const std::array<double, 3> values =
      SingularValues(Times(to_rays, Times(pair.homography, to_pixels)));
  return values[1] > 0 ? (values[0] - values[2]) / values[1] : 1;
}

// A row of blobs is a strange file's: its sizes are checked.
bool TakeDoubles(sqlite3_stmt* row, int column, size_t n, double* out) {
  if (sqlite3_column_bytes(row, column) < static_cast<int>(n * sizeof(double))) return false;
  std::memcpy(out, sqlite3_column_blob(row, column), n * sizeof(double));
  return std::all_of(out, out + n, [](double value) { return std::isfinite(value); });
}

std::unique_ptr<sqlite3_stmt, CloseSqlite> Prepare(sqlite3* database, const char* query) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, query, -1, &statement, nullptr) != SQLITE_OK)
    statement = nullptr;
  return std::unique_ptr<sqlite3_stmt, CloseSqlite>(statement);
}

struct Cameras {
  std::map<int64_t, std::array<double, 3>> by_image;  // focal length, principal point
  bool known = true;                                  // all focal lengths, by EXIF
};

Cameras ReadCameras(sqlite3* database) {
  Cameras cameras;
  const auto rows = Prepare(database,
                            "SELECT i.image_id, c.width, c.height, c.params, c.prior_focal_length "
                            "FROM images i JOIN cameras c ON c.camera_id = i.camera_id");
  while (rows != nullptr && sqlite3_step(rows.get()) == SQLITE_ROW) {
    double focal = 0;
    if (!TakeDoubles(rows.get(), 3, 1, &focal) || focal <= 0) continue;
    cameras.by_image[sqlite3_column_int64(rows.get(), 0)] = {
        focal, static_cast<double>(sqlite3_column_int64(rows.get(), 1)) / 2,
        static_cast<double>(sqlite3_column_int64(rows.get(), 2)) / 2};
    cameras.known = cameras.known && sqlite3_column_int64(rows.get(), 4) != 0;
  }
  return cameras;
}

}  // namespace

double ParallaxLeft(const std::vector<TurnedPair>& pairs, bool focal_lengths_known) {
  constexpr double kStep = 1.02;
  // EXIF names the focal length to some percent. COLMAP's guess is that of a longer lens than most.
  const double from = focal_lengths_known ? 0.9 : 0.5, to = focal_lengths_known ? 1.1 : 1.5;
  double least = 1;
  for (double factor = from; factor <= to; factor *= kStep) {
    std::vector<double> parallax;
    for (const TurnedPair& pair : pairs) parallax.push_back(ParallaxOf(pair, factor));
    const auto middle = parallax.begin() + static_cast<std::ptrdiff_t>(parallax.size() / 2);
    std::nth_element(parallax.begin(), middle, parallax.end());
    least = std::min(least, *middle);
  }
  return least;
}

bool IsOneSpot(const std::string& path) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
  const std::unique_ptr<sqlite3, CloseSqlite> database(opened);
  if (code != SQLITE_OK) return false;
  const Cameras cameras = ReadCameras(opened);
  const auto camera_of = [&](int64_t image) { return cameras.by_image.find(image); };
  const auto rows = Prepare(opened, "SELECT pair_id, rows, config, H FROM two_view_geometries");
  std::vector<TurnedPair> turned;
  size_t n_pairs = 0;
  while (rows != nullptr && sqlite3_step(rows.get()) == SQLITE_ROW) {
    if (sqlite3_column_int64(rows.get(), 1) < kMinMatches) continue;
    const int64_t kind = sqlite3_column_int64(rows.get(), 2);
    if (kind == kWatermark) continue;
    ++n_pairs;
    if (kind != kPlanar && kind != kPanoramic && kind != kPlanarOrPanoramic) continue;
    const int64_t id = sqlite3_column_int64(rows.get(), 0);
    const auto first = camera_of(id / kMaxId), second = camera_of(id % kMaxId);
    TurnedPair pair;
    if (first == cameras.by_image.end() || second == cameras.by_image.end() ||
        !TakeDoubles(rows.get(), 3, pair.homography.size(), pair.homography.data())) {
      continue;
    }
    pair.first = first->second;
    pair.second = second->second;
    turned.push_back(pair);
  }
  if (n_pairs < kMinPairsPerPhoto * cameras.by_image.size() || turned.empty()) return false;
  if (static_cast<double>(turned.size()) < kMinTurnedShare * static_cast<double>(n_pairs)) {
    return false;
  }
  return ParallaxLeft(turned, cameras.known) < kMostParallax;
}

}  // namespace nerf
