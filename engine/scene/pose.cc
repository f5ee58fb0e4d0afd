#include "engine/scene/pose.h"

#include <algorithm>
#include <cmath>

#include "engine/base/camera_matrix.h"

namespace nerf {
namespace {

double Dot(const Vec3d& a, const Vec3d& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Vec3d Cross(const Vec3d& a, const Vec3d& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Vec3d Scaled(const Vec3d& a, double factor) {
  return {a[0] * factor, a[1] * factor, a[2] * factor};
}
Vec3d Column(const Pose& pose, int c) { return {pose.m[0][c], pose.m[1][c], pose.m[2][c]}; }

// The smallest rotation from unit vector `from` to +z, by Rodrigues' formula.
void SetRotationToZ(const Vec3d& from, double rotation[3][3]) {
  const double cosine = from[2];
  if (cosine < -1 + 1e-12) {  // half a turn, about x; any horizontal axis would do
    const double flip[3][3] = {{1, 0, 0}, {0, -1, 0}, {0, 0, -1}};
    std::copy(&flip[0][0], &flip[0][0] + 9, &rotation[0][0]);
    return;
  }
  const Vec3d axis = Cross(from, {0, 0, 1});
  const double skew[3][3] = {
      {0, -axis[2], axis[1]}, {axis[2], 0, -axis[0]}, {-axis[1], axis[0], 0}};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      double squared = 0;
      for (int k = 0; k < 3; ++k) squared += skew[i][k] * skew[k][j];
      rotation[i][j] = (i == j ? 1.0 : 0.0) + skew[i][j] + squared / (1 + cosine);
    }
  }
}

Vec3d Rotate(const double rotation[3][3], const Vec3d& v) {
  Vec3d result;
  for (int i = 0; i < 3; ++i) {
    result[i] = rotation[i][0] * v[0] + rotation[i][1] * v[1] + rotation[i][2] * v[2];
  }
  return result;
}

}  // namespace

Vec3d Similarity::ApplyToPoint(const Vec3d& point) const {
  Vec3d result = Rotate(rotation, point);
  for (int i = 0; i < 3; ++i) result[i] = scale * result[i] + translation[i];
  return result;
}

Pose Similarity::ApplyToPose(const Pose& pose) const {
  Pose result;
  for (int column = 0; column < 4; ++column) {
    const Vec3d mapped =
        column < 3 ? Rotate(rotation, Column(pose, column)) : ApplyToPoint(Column(pose, column));
    for (int row = 0; row < 3; ++row) result.m[row][column] = mapped[row];
  }
  return result;
}

Similarity Compose(const Similarity& outer, const Similarity& inner) {
  Similarity result;
  result.scale = outer.scale * inner.scale;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      result.rotation[i][j] = 0;
      for (int k = 0; k < 3; ++k) {
        result.rotation[i][j] += outer.rotation[i][k] * inner.rotation[k][j];
      }
    }
  }
  result.translation = outer.ApplyToPoint(inner.translation);
  return result;
}

SceneFrame ToSceneFrame(const Similarity& similarity) {
  SceneFrame frame;
  frame.scale = static_cast<float>(similarity.scale);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      frame.own_to_training.m[i][j] =
          static_cast<float>(similarity.scale * similarity.rotation[i][j]);
    }
    frame.own_to_training.m[i][3] = static_cast<float>(similarity.translation[i]);
  }
  return frame;
}

Similarity FromSceneFrame(const SceneFrame& frame) {
  Similarity similarity;
  similarity.scale = frame.scale;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      similarity.rotation[i][j] = double{frame.own_to_training.m[i][j]} / frame.scale;
    }
    similarity.translation[i] = frame.own_to_training.m[i][3];
  }
  return similarity;
}

Similarity Inverse(const Similarity& similarity) {
  Similarity inverse;
  inverse.scale = 1 / similarity.scale;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) inverse.rotation[i][j] = similarity.rotation[j][i];
  }
  inverse.translation = Scaled(Rotate(inverse.rotation, similarity.translation), -inverse.scale);
  return inverse;
}

Mat34 ToMat34(const Pose& pose) {
  Mat34 matrix;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) matrix.m[i][j] = static_cast<float>(pose.m[i][j]);
  }
  return matrix;
}

Pose ToPose(const Mat34& matrix) {
  Pose pose;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) pose.m[i][j] = matrix.m[i][j];
  }
  return pose;
}

bool Orthonormalize(Pose* pose, double* uniform_scale) {
  if (!IsScaledRotation(pose->m, uniform_scale)) return false;
  Vec3d backward = Column(*pose, 2);
  backward = Scaled(backward, 1 / std::sqrt(Dot(backward, backward)));
  Vec3d right = Column(*pose, 0);
  const double along = Dot(right, backward);
  for (int i = 0; i < 3; ++i) right[i] -= along * backward[i];
  right = Scaled(right, 1 / std::sqrt(Dot(right, right)));
  const Vec3d up = Cross(backward, right);
  for (int i = 0; i < 3; ++i) {
    pose->m[i][0] = right[i];
    pose->m[i][1] = up[i];
    pose->m[i][2] = backward[i];
  }
  return true;
}

Similarity NgpPlacement(double scale, const Vec3d& offset) {
  Similarity placement;
  placement.scale = scale;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) placement.rotation[i][j] = j == (i + 1) % 3 ? 1 : 0;
    placement.translation[i] = offset[(i + 1) % 3];
  }
  return placement;
}

Similarity ColmapWorldToZUp() {
  Similarity swap;
  const double rows[3][3] = {{1, 0, 0}, {0, 0, 1}, {0, -1, 0}};
  std::copy(&rows[0][0], &rows[0][0] + 9, &swap.rotation[0][0]);
  return swap;
}

Similarity NormalizingPlacement(std::span<const Pose> poses) {
  Similarity placement;
  if (poses.empty()) return placement;
  Vec3d up = {0, 0, 0}, mean = {0, 0, 0};
  const double n = static_cast<double>(poses.size());
  for (const Pose& pose : poses) {
    for (int i = 0; i < 3; ++i) {
      up[i] += pose.m[i][1] / n;
      mean[i] += pose.m[i][3] / n;
    }
  }
  const double up_length = std::sqrt(Dot(up, up));
  if (up_length > 1e-6) SetRotationToZ(Scaled(up, 1 / up_length), placement.rotation);
  double extent = 0;
  for (const Pose& pose : poses) {
    const Vec3d position = Column(pose, 3);
    const Vec3d centered = Rotate(
        placement.rotation, {position[0] - mean[0], position[1] - mean[1], position[2] - mean[2]});
    for (double coordinate : centered) extent = std::max(extent, std::abs(coordinate));
  }
  if (extent > 1e-9) placement.scale = 1 / extent;
  placement.translation = Scaled(Rotate(placement.rotation, mean), -placement.scale);
  return placement;
}

}  // namespace nerf
