#pragma once

#include <cmath>
#include <numbers>
#include <vector>

#include "engine/views/path/camera_path.h"

// Captures that tests lay paths through.
namespace nerf {

inline CaptureCamera CameraAt(Vec3 position, Vec3 target, Vec3 up = {0, 0, 1}) {
  CaptureCamera camera;
  camera.camera_to_world = LookAt(position, target, up);
  return camera;
}

// n cameras from `begin` to `end` of a circle (1: all of it) at this radius and height, looking at
// the origin, or away from it.
inline std::vector<CaptureCamera> Ring(int n, double begin, double end, float radius = 4,
                                       float height = 1, bool outward = false) {
  std::vector<CaptureCamera> cameras;
  for (int i = 0; i < n; ++i) {
    const double angle = 2 * std::numbers::pi * (begin + (end - begin) * i / n);
    const Vec3 position{radius * static_cast<float>(std::cos(angle)),
                        radius * static_cast<float>(std::sin(angle)), height};
    cameras.push_back(CameraAt(position, outward ? position * 2.0f : Vec3{0, 0, 0}));
  }
  return cameras;
}

// A flight in rows at height 10, looking straight down, north at the top.
inline std::vector<CaptureCamera> Flight(int rows, int columns) {
  std::vector<CaptureCamera> cameras;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      const int x = i % 2 == 0 ? j : columns - 1 - j;
      const Vec3 position{2.0f * static_cast<float>(x), 3.0f * static_cast<float>(i), 10};
      cameras.push_back(CameraAt(position, position - Vec3{0, 0, 1}, {0, 1, 0}));
    }
  }
  return cameras;
}

// Cameras in a plane before something at distance 5, all looking at it.
inline std::vector<CaptureCamera> Wall(int n) {
  std::vector<CaptureCamera> cameras;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      const Vec3 position{0.2f * static_cast<float>(i - n / 2), -5,
                          0.2f * static_cast<float>(j - n / 2)};
      cameras.push_back(CameraAt(position, {0, 0, 0}));
    }
  }
  return cameras;
}

}  // namespace nerf
