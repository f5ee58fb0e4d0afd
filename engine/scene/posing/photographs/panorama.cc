#include "engine/scene/posing/photographs/panorama.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "engine/scene/pictures/image_io.h"

namespace nerf {
namespace {

using Vector = std::array<double, 3>;

constexpr double kPi = std::numbers::pi;
constexpr double kTilt = 20 * kPi / 180;  // of faces, up and down in turn
constexpr int kFaceQuality = 95;          // of a JPEG
constexpr double kSameTurn = 2 * kPi / 180;
// Of the panoramas' extent: faces that agree lie closer together.
constexpr double kSamePlace = 0.05;

double DotOf(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector Unit(Vector v) {
  const double length = std::sqrt(DotOf(v, v));
  for (double& x : v) x /= length;
  return v;
}

Matrix3 Product(const Matrix3& a, const Matrix3& b) {
  Matrix3 c{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 3; ++k) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

Matrix3 Transposed(const Matrix3& a) {
  Matrix3 t;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) t[i][j] = a[j][i];
  }
  return t;
}

// Radians between two rotations.
double TurnBetween(const Matrix3& a, const Matrix3& b) {
  double trace = 0;
  for (size_t i = 0; i < 3; ++i) trace += DotOf(a[i], b[i]);
  return std::acos(std::clamp((trace - 1) / 2, -1.0, 1.0));
}

double DistanceOf(const Vector& a, const Vector& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

// The closest rotation to a mean of nearly equal ones, by Newton's iteration for the polar factor.
Matrix3 NearestRotation(Matrix3 m) {
  constexpr int kSteps = 8;
  const auto cross = [](const Vector& a, const Vector& b) {
    return Vector{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  };
  for (int step = 0; step < kSteps; ++step) {
    const Matrix3 cofactors = {cross(m[1], m[2]), cross(m[2], m[0]), cross(m[0], m[1])};
    const double determinant = DotOf(m[0], cofactors[0]);
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) m[i][j] = (m[i][j] + cofactors[i][j] / determinant) / 2;
    }
  }
  return m;
}

// Median distance of the centers from their median: the extent of the panoramas.
double ExtentOf(const PosedModel& model) {
  const auto median = [](std::vector<double> values) {
    const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  if (model.photos.empty()) return 0;
  Vector center{};
  for (size_t i = 0; i < 3; ++i) {
    std::vector<double> values;
    for (const auto& [name, photo] : model.photos) values.push_back(photo.center[i]);
    center[i] = median(std::move(values));
  }
  std::vector<double> distances;
  for (const auto& [name, photo] : model.photos)
    distances.push_back(DistanceOf(photo.center, center));
  return median(std::move(distances));
}

int FaceOf(std::string_view file) {
  const size_t at = file.find('f');
  return at + 1 < file.size() ? file[at + 1] - '0' : 0;
}

absl::Status CutOne(const Photo& panorama, const CutOptions& options, Photo* faces) {
  NERF_ASSIGN_OR_RETURN(ImageU8 image,
                        DecodeImage(absl::StrCat(options.images, "/", panorama.file)));
  if (image.n_channels == 4) image = WithoutAlphaChannel(image);
  const int side = FaceSide(image.width);
  const std::string mask_file = absl::StrCat(options.masks, "/", panorama.file, ".png");
  std::error_code ignored;
  ImageU8 mask;
  if (!options.masks.empty() && std::filesystem::exists(mask_file, ignored)) {
    NERF_ASSIGN_OR_RETURN(mask, DecodeImage(mask_file));
  }
  for (int face = 0; face < kPanoramaFaces; ++face) {
    Photo& photo = faces[face];
    photo = panorama;
    photo.file = FaceFile(panorama, face);
    photo.width = photo.height = side;
    photo.lens = panorama.lens * kPanoramaFaces + face;
    NERF_ASSIGN_OR_RETURN(const std::string jpeg, EncodeJpeg(CutFace(image, face), kFaceQuality));
    NERF_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(options.faces, "/", photo.file), jpeg));
    if (mask.pixels.empty()) continue;
    NERF_RETURN_IF_ERROR(
        WritePng(absl::StrCat(options.face_masks, "/", photo.file, ".png"), CutFace(mask, face)));
  }
  return absl::OkStatus();
}

}  // namespace

Matrix3 FaceAxes(int face) {
  const double turn = 2 * kPi * face / kPanoramaFaces, tilt = face % 2 == 0 ? kTilt : -kTilt;
  const Vector forward = {std::sin(turn) * std::cos(tilt), -std::sin(tilt),
                          std::cos(turn) * std::cos(tilt)};
  const Vector right = {std::cos(turn), 0, -std::sin(turn)};
  const Vector down = {forward[1] * right[2] - forward[2] * right[1],
                       forward[2] * right[0] - forward[0] * right[2],
                       forward[0] * right[1] - forward[1] * right[0]};
  return {right, down, forward};
}

int FaceSide(int panorama_width) {
  return std::max(2, static_cast<int>(std::lround(panorama_width / kPi)));
}

std::array<double, 3> FaceDirection(int face, int side, double x, double y) {
  const Matrix3 axes = FaceAxes(face);
  const double u = 2 * x / side - 1, v = 2 * y / side - 1;
  Vector direction;
  for (size_t i = 0; i < 3; ++i) direction[i] = u * axes[0][i] + v * axes[1][i] + axes[2][i];
  return Unit(direction);
}

std::array<double, 2> PanoramaPosition(int width, int height, const std::array<double, 3>& toward) {
  const double longitude = std::atan2(toward[0], toward[2]);
  const double latitude = std::asin(std::clamp(toward[1], -1.0, 1.0));
  return {(longitude / (2 * kPi) + 0.5) * width, (latitude / kPi + 0.5) * height};
}

ImageU8 CutFace(const ImageU8& panorama, int face) {
  const int side = FaceSide(panorama.width), n = panorama.n_channels;
  ImageU8 image{side, side, n, {}};
  image.pixels.resize(static_cast<size_t>(side) * side * n);
  uint8_t* pixel = image.pixels.data();
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const auto [u, v] = PanoramaPosition(panorama.width, panorama.height,
                                           FaceDirection(face, side, x + 0.5, y + 0.5));
      const double left = std::floor(u - 0.5), top = std::floor(v - 0.5);
      const double p = u - 0.5 - left, q = v - 0.5 - top;
      const auto column = [&](int offset) {
        const int at = static_cast<int>(left) + offset;
        return (at % panorama.width + panorama.width) % panorama.width;
      };
      const auto row = [&](int offset) {
        return std::clamp(static_cast<int>(top) + offset, 0, panorama.height - 1);
      };
      const uint8_t* corners[] = {
          panorama.Pixel(column(0), row(0)), panorama.Pixel(column(1), row(0)),
          panorama.Pixel(column(0), row(1)), panorama.Pixel(column(1), row(1))};
      for (int c = 0; c < n; ++c) {
        *pixel++ = static_cast<uint8_t>(
            std::lround((corners[0][c] * (1 - p) + corners[1][c] * p) * (1 - q) +
                        (corners[2][c] * (1 - p) + corners[3][c] * p) * q));
      }
    }
  }
  return image;
}

bool ClosesAround(const GrayImage& gray) {
  const int width = gray.width, height = gray.height;
  if (width != 2 * height || height < 16) return false;
  const auto at = [&](int x, int y) {
    return double{gray.values[static_cast<size_t>(y) * width + x]};
  };
  // Mean difference of neighbors in a row.
  const auto change_in = [&](int y) {
    double change = 0;
    for (int x = 0; x + 1 < width; ++x) change += std::abs(at(x, y) - at(x + 1, y)) / (width - 1);
    return change;
  };
  double seam = 0, inner = 0, across = 0, sum = 0, squares = 0;
  for (int y = 0; y < height; ++y) {
    seam += std::abs(at(0, y) - at(width - 1, y)) / height;
    across += std::abs(at(0, y) - at(width / 2, y)) / height;
    inner += change_in(y) / height;
    sum += at(0, y) / height;
    squares += at(0, y) * at(0, y) / height;
  }
  // A border of one color, as a frame has, tells nothing.
  constexpr double kLeastDeviation = 4;
  const bool is_border_known = squares - sum * sum > kLeastDeviation * kLeastDeviation;
  return is_border_known && seam < 2 * inner + 1 && seam < across / 2 &&
         std::max(change_in(0), change_in(height - 1)) < inner / 3;
}

bool SaysEquirectangular(std::string_view file) {
  constexpr std::string_view kKey = "GPano:ProjectionType", kValue = "equirectangular";
  constexpr size_t kHead = size_t{1} << 18, kNear = 8;  // of quotes or a tag's end between them
  const std::string_view head = file.substr(0, kHead);
  for (size_t at = head.find(kKey); at != head.npos; at = head.find(kKey, at + 1)) {
    const std::string_view rest = head.substr(at + kKey.size(), kNear + kValue.size());
    if (rest.find(kValue) != rest.npos) return true;
  }
  return false;
}

bool ArePanoramas(const std::vector<Photo>& photos, CameraKind kind) {
  if (kind != CameraKind::kAuto) return kind == CameraKind::kEquirectangular;
  int n_more = 0;
  for (const Photo& photo : photos) {
    if (!photo.file.empty()) n_more += photo.is_panorama ? 1 : -1;
  }
  return n_more > 0;
}

std::vector<std::string> LeaveOutOthers(std::vector<Photo>* photos) {
  std::vector<std::string> left_out;
  for (Photo& photo : *photos) {
    if (photo.file.empty() || photo.width == 2 * photo.height) continue;
    photo.error = absl::StrCat("is no panorama as the others are: ", photo.width, "x", photo.height,
                               " pixels are not twice as wide as high");
    left_out.push_back(std::exchange(photo.file, ""));
  }
  return left_out;
}

std::string FaceFile(const Photo& panorama, int face) {
  return absl::StrCat("l", panorama.lens, "f", face, "/", panorama.file, ".jpg");
}

std::string PanoramaOfFace(std::string_view face_file) {
  const std::string_view name = face_file.substr(face_file.find('/') + 1);
  return std::string(name.substr(0, name.rfind('.')));
}

absl::StatusOr<std::vector<Photo>> CutPanoramas(const std::vector<Photo>& panoramas,
                                                const CutOptions& options,
                                                const PrepareOptions& prepare) {
  std::vector<const Photo*> used;
  for (const Photo& panorama : panoramas) {
    if (!panorama.file.empty()) used.push_back(&panorama);
  }
  std::error_code error;
  for (const Photo* panorama : used) {
    for (int face = 0; face < kPanoramaFaces; ++face) {
      for (const std::string& folder : {options.faces, options.face_masks}) {
        if (folder.empty()) continue;
        const std::string file = absl::StrCat(folder, "/", FaceFile(*panorama, face));
        std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
        if (error) return absl::InternalError(absl::StrCat("cannot make ", folder));
      }
    }
  }
  std::vector<Photo> faces(used.size() * kPanoramaFaces);
  Mutex mu;
  absl::Status first_error;
  size_t n_done = 0;
  std::vector<std::string> paths;
  for (const Photo* photo : used) paths.push_back(options.images + "/" + photo->file);
  ForEachPicture(used.size(), paths, prepare, [&](int64_t i, int thread) {
    if (prepare.stop.stop_requested()) return;
    const auto at = static_cast<size_t>(i);
    absl::Status status = CutOne(*used[at], options, &faces[at * kPanoramaFaces]);
    size_t done = 0;
    {
      MutexLock lock(mu);
      if (!status.ok() && first_error.ok()) first_error = std::move(status);
      done = ++n_done;
    }
    if (thread == 0 && prepare.on_progress) prepare.on_progress(done, used.size());
  });
  if (prepare.stop.stop_requested()) {
    return absl::CancelledError("interrupted while cutting panoramas");
  }
  NERF_RETURN_IF_ERROR(first_error);
  return faces;
}

ImageU8 PanoramaMask(int width, int height, double below) {
  ImageU8 mask{width, height, 1, {}};
  for (int y = 0; y < height; ++y) {
    const double latitude = ((y + 0.5) / height - 0.5) * 180;  // downwards
    mask.pixels.insert(mask.pixels.end(), static_cast<size_t>(width), latitude > below ? 0 : 255);
  }
  return mask;
}

absl::Status MaskPole(const Photo& panorama, double below, const std::string& masks) {
  ImageU8 mask = PanoramaMask(panorama.width, panorama.height, below);
  const std::string file = absl::StrCat(masks, "/", panorama.file, ".png");
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    NERF_ASSIGN_OR_RETURN(const ImageU8 own, DecodeImage(file));
    for (size_t i = 0; i < mask.pixels.size(); ++i)
      mask.pixels[i] = std::min(mask.pixels[i], own.pixels[i * own.n_channels]);
  }
  return WritePng(file, mask);
}

std::vector<ColmapPair> PairsOfFaces(const std::vector<Photo>& faces) {
  std::vector<ColmapPair> pairs;
  for (size_t i = 0; i < faces.size(); ++i) {
    for (size_t j = 0; j < i - i % kPanoramaFaces; ++j)
      pairs.push_back({faces[j].file, faces[i].file, 0});
  }
  return pairs;
}

ColmapDatabase JoinFaces(const ColmapDatabase& faces) {
  ColmapDatabase joined;
  for (const auto& [face, n] : faces.n_features) joined.n_features[PanoramaOfFace(face)] += n;
  std::map<std::pair<std::string, std::string>, uint64_t> pairs;
  for (const ColmapPair& pair : faces.pairs) {
    std::string first = PanoramaOfFace(pair.first), second = PanoramaOfFace(pair.second);
    if (first == second) continue;
    if (second < first) std::swap(first, second);
    pairs[{first, second}] += pair.n_inliers;
  }
  for (const auto& [names, n] : pairs) joined.pairs.push_back({names.first, names.second, n});
  return joined;
}

std::vector<std::string> JoinFaces(const std::vector<std::string>& faces) {
  std::vector<std::string> panoramas;
  for (const std::string& face : faces) panoramas.push_back(PanoramaOfFace(face));
  std::sort(panoramas.begin(), panoramas.end());
  panoramas.erase(std::unique(panoramas.begin(), panoramas.end()), panoramas.end());
  return panoramas;
}

PosedPhoto PanoramaPose(const std::vector<std::pair<int, PosedPhoto>>& faces, double tolerance) {
  std::vector<PosedPhoto> said;
  for (const auto& [face, photo] : faces) {
    said.push_back(photo);
    said.back().axes = Product(Transposed(FaceAxes(face)), photo.axes);
  }
  const auto agrees = [&](const PosedPhoto& a, const PosedPhoto& b) {
    return TurnBetween(a.axes, b.axes) <= kSameTurn && DistanceOf(a.center, b.center) <= tolerance;
  };
  const PosedPhoto* best = nullptr;
  std::pair<size_t, uint64_t> most{0, 0};
  for (const PosedPhoto& photo : said) {
    std::pair<size_t, uint64_t> support{0, 0};
    for (const PosedPhoto& other : said) {
      if (!agrees(photo, other)) continue;
      ++support.first;
      support.second += other.n_points;
    }
    if (best == nullptr || support > most) best = &photo, most = support;
  }
  PosedPhoto mean;
  double total = 0;
  for (const PosedPhoto& photo : said) {
    if (!agrees(*best, photo)) continue;
    const double weight = 1 + static_cast<double>(photo.n_points);
    total += weight;
    mean.n_points += photo.n_points;
    for (size_t i = 0; i < 3; ++i) {
      mean.center[i] += weight * photo.center[i];
      for (size_t j = 0; j < 3; ++j) mean.axes[i][j] += weight * photo.axes[i][j];
    }
  }
  for (double& c : mean.center) c /= total;
  for (Vector& row : mean.axes) {
    for (double& a : row) a /= total;
  }
  mean.axes = NearestRotation(mean.axes);
  return mean;
}

std::map<std::string, PosedPhoto> PanoramaPoses(const PosedModel& faces) {
  std::map<std::string, std::vector<std::pair<int, PosedPhoto>>> by_panorama;
  for (const auto& [file, photo] : faces.photos)
    by_panorama[PanoramaOfFace(file)].push_back({FaceOf(file), photo});
  const double tolerance = kSamePlace * ExtentOf(faces);
  std::map<std::string, PosedPhoto> poses;
  for (const auto& [name, photos] : by_panorama) poses[name] = PanoramaPose(photos, tolerance);
  return poses;
}

PosedPhoto FacePose(const PosedPhoto& panorama, int face) {
  PosedPhoto photo = panorama;
  photo.axes = Product(FaceAxes(face), panorama.axes);
  return photo;
}

}  // namespace nerf
