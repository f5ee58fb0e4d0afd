#include "engine/program/written_views/rgbaz_file.h"

#include <array>

#include "engine/program/written_views/view_writer.h"
#include "engine/scene/cameras/camera_file.h"
#include "engine/scene/pose.h"

namespace nerf {
namespace {

using Matrix = std::array<std::array<double, 4>, 4>;

ExrMatrix ToExrMatrix(const Matrix& matrix) {
  ExrMatrix result;
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(matrix[i / 4][i % 4]);
  return result;
}

// Points on the left go through `first`, then through `second`.
Matrix Product(const Matrix& first, const Matrix& second) {
  Matrix product{};
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      for (size_t k = 0; k < 4; ++k) product[i][j] += first[i][k] * second[k][j];
    }
  }
  return product;
}

// Our cameras look along -z, OpenEXR's along +z.
Matrix WorldToCamera(const Pose& pose) {
  Matrix matrix{};
  for (size_t axis = 0; axis < 3; ++axis) {
    const double sign = axis == 2 ? -1 : 1;
    for (size_t i = 0; i < 3; ++i) {
      matrix[i][axis] = sign * pose.m[i][axis];
      matrix[3][axis] -= sign * pose.m[i][axis] * pose.position()[i];
    }
  }
  matrix[3][3] = 1;
  return matrix;
}

// NDC z is 1 / depth, by which the matrix has an inverse.
Matrix CameraToNdc(const Camera& camera) {
  Matrix matrix{};
  matrix[0][0] = camera.fl_x / camera.width;
  matrix[1][1] = -camera.fl_y / camera.height;
  matrix[2] = {camera.cx / camera.width, camera.cy / camera.height, 0, 1};
  matrix[3][2] = 1;
  return matrix;
}

}  // namespace

ExrCamera ExrCameraOf(const SeenFrom& seen_from) {
  const Camera own = ToOwnFrame(seen_from.camera, seen_from.frame);
  const Matrix to_camera = WorldToCamera(ToPose(own.camera_to_world));
  ExrCamera result;
  result.world_to_camera = ToExrMatrix(to_camera);
  result.origin = seen_from.frame.origin;
  const bool is_distorted = own.k1 != 0 || own.k2 != 0 || own.k3 != 0 || own.p1 != 0 ||
                            own.p2 != 0 || own.k4 != 0 || own.k5 != 0 || own.k6 != 0;
  if (own.lens == LensModel::kPinhole || (own.lens == LensModel::kOpenCv && !is_distorted))
    result.world_to_ndc = ToExrMatrix(Product(to_camera, CameraToNdc(own)));
  return result;
}

absl::StatusOr<std::string> EncodeRgbaz(const ViewPicture& view, const SeenFrom& seen_from,
                                        const std::stop_token& stop) {
  return EncodeExrView(view.rgba, OwnDepths(view, seen_from.frame.scale), ExrCameraOf(seen_from),
                       stop);
}

}  // namespace nerf
