// Writes a data set of posed RGBA pictures with the statistics of photographs: structure at all
// scales and sensor noise, so that their PNG files are as large and as slow to decode as a
// camera's. They show a rough planet in front of a cloudy sky. The sky is outside the training box,
// so the data set is not for measuring quality. Equal arguments give equal files.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "CLI/CLI.hpp"
#include "common/process/control_groups.h"
#include "engine/base/parallel_for.h"
#include "engine/base/philox.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/scene.h"
#include "engine/views/render/orbit.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/bench/value_noise.h"

namespace nerf {
namespace {

constexpr float kCameraDistance = 3.6f;
constexpr float kFocalLength = 1.4f;  // picture widths
constexpr float kSkyRadius = 12;
constexpr int kOctaves = 7;
constexpr float kSensorNoise = 1.5f;  // standard deviation, in steps of 8 bits

struct Arguments {
  std::string out;
  int n_train = 100, n_test = 0, size = 800, threads = 0;
  uint32_t seed = 1;
};

// Octaves of decreasing amplitude, as in the spectrum of natural pictures. In [0, 1).
float FractalNoise(uint32_t seed, Vec3 p) {
  float sum = 0, amplitude = 0.5f;
  for (int octave = 0; octave < kOctaves; ++octave) {
    sum += amplitude * ValueNoise(seed + static_cast<uint32_t>(octave), p);
    p = p * 2.03f + Vec3{17.1f, 9.2f, 3.7f};
    amplitude *= 0.5f;
  }
  return sum;
}

// t where the ray leaves (far) or enters (near) the sphere around the origin; negative: it misses.
float SphereDistance(const Ray& ray, float radius, bool far) {
  const float b = Dot(ray.origin, ray.direction);
  const float discriminant = b * b - Dot(ray.origin, ray.origin) + radius * radius;
  if (discriminant < 0) return -1;
  return far ? -b + std::sqrt(discriminant) : -b - std::sqrt(discriminant);
}

// sRGB in [0, 1].
Vec3 Shade(const Ray& ray, uint32_t seed) {
  const float near = SphereDistance(ray, 1, false);
  if (near > 0) {
    const Vec3 p = ray.origin + ray.direction * near;
    const float height = FractalNoise(seed, p * 3), tint = FractalNoise(seed + 100, p * 5);
    const float light = 0.35f + 0.65f * std::max(0.0f, 0.6f * p.x + 0.3f * p.y + 0.7f * p.z);
    const Vec3 color = height > 0.5f ? Vec3{0.55f, 0.45f, 0.3f} : Vec3{0.15f, 0.3f, 0.5f};
    return (color * (0.4f + 1.2f * height) + Vec3{tint, tint, tint} * 0.35f) * light;
  }
  const Vec3 p = ray.origin + ray.direction * SphereDistance(ray, kSkyRadius, true);
  const float cloud = FractalNoise(seed + 200, p * 0.7f);
  return Vec3{0.35f, 0.55f, 0.85f} * (1 - cloud) + Vec3{0.95f, 0.93f, 0.9f} * cloud;
}

ImageU8 RenderPicture(const Camera& camera, uint32_t seed, uint32_t picture) {
  ImageU8 image{camera.width, camera.height, 4, {}};
  image.pixels.reserve(static_cast<size_t>(camera.width) * camera.height * 4);
  for (int y = 0; y < camera.height; ++y) {
    for (int x = 0; x < camera.width; ++x) {
      const Vec3 color = Shade(
          CameraRay(camera, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f), seed);
      const auto words =
          RandomWords(seed, RandomUse::kTest, picture, static_cast<uint32_t>(y * camera.width + x));
      for (int c = 0; c < 3; ++c) {
        // The sum of two uniform numbers is close enough to a Gaussian.
        const float noise = (UniformFloat(words[c]) + UniformFloat(words[3] * (2u * c + 3)) - 1) *
                            2.45f * kSensorNoise;
        image.pixels.push_back(
            static_cast<uint8_t>(std::clamp(color[c] * 255 + noise, 0.0f, 255.0f)));
      }
      image.pixels.push_back(255);
    }
  }
  return image;
}

std::vector<Camera> Cameras(const Arguments& arguments) {
  SceneGeometry geometry;
  geometry.median_distance = kCameraDistance;
  geometry.median_height = 1;
  Camera intrinsics;
  intrinsics.width = intrinsics.height = arguments.size;
  intrinsics.fl_x = intrinsics.fl_y = kFocalLength * static_cast<float>(arguments.size);
  intrinsics.cx = intrinsics.cy = 0.5f * static_cast<float>(arguments.size);
  return OrbitCameras(geometry, {0, 0, 0}, intrinsics, arguments.n_train + arguments.n_test);
}

void WriteSplit(const Arguments& arguments, const std::string& split,
                std::span<const Camera> cameras, uint32_t first_picture, ThreadPool* pool) {
  std::filesystem::create_directories(arguments.out + "/" + split);
  nlohmann::ordered_json list = {{"camera_angle_x", 2 * std::atan(0.5 / kFocalLength)},
                                 {"frames", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < cameras.size(); ++i) {
    nlohmann::ordered_json matrix = nlohmann::ordered_json::array();
    for (const auto& row : cameras[i].camera_to_world.m) {
      matrix.push_back({row[0], row[1], row[2], row[3]});
    }
    matrix.push_back({0, 0, 0, 1});
    list["frames"].push_back(
        {{"file_path", fmt::format("./{}/r_{:03}", split, i)}, {"transform_matrix", matrix}});
  }
  pool->ParallelFor(static_cast<int64_t>(cameras.size()), [&](int64_t i, int) {
    const std::string path = fmt::format("{}/{}/r_{:03}.png", arguments.out, split, i);
    const absl::Status status =
        WritePng(path, RenderPicture(cameras[static_cast<size_t>(i)], arguments.seed,
                                     first_picture + static_cast<uint32_t>(i)));
    if (!status.ok()) {
      fmt::print(stderr, "{}\n", status.ToString());
      std::abort();
    }
  });
  std::ofstream(fmt::format("{}/transforms_{}.json", arguments.out, split)) << list.dump(1) << "\n";
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  nerf::Arguments arguments;
  CLI::App app("Writes a data set of pictures with the statistics of photographs");
  app.add_option("OUT", arguments.out, "folder to write")->required();
  app.add_option("--train", arguments.n_train, "training pictures")->capture_default_str();
  app.add_option("--test", arguments.n_test, "test pictures")->capture_default_str();
  app.add_option("--size", arguments.size, "pixels along a side")->capture_default_str();
  app.add_option("--seed", arguments.seed, "of everything random")->capture_default_str();
  app.add_option("--threads", arguments.threads, "default: one for each core");
  CLI11_PARSE(app, argc, argv);
  nerf::ThreadPool pool(arguments.threads > 0 ? arguments.threads : nerf::UsableCores());
  const std::vector<nerf::Camera> cameras = nerf::Cameras(arguments);
  const auto n_train = static_cast<size_t>(arguments.n_train);
  nerf::WriteSplit(arguments, "train", std::span(cameras).first(n_train), 0, &pool);
  if (arguments.n_test > 0) {
    nerf::WriteSplit(arguments, "test", std::span(cameras).subspan(n_train),
                     static_cast<uint32_t>(n_train), &pool);
  }
  return 0;
}
