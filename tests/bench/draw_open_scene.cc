// Draws an open scene for measuring quality: a ball and a block on a ground that reaches to the
// horizon, under a textured sky, photographed from a ring, no alpha. COLMAP's layout with its
// points; or nerfstudio's with depth files. Equal arguments give equal files.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numbers>

#include "CLI/CLI.hpp"
#include "engine/base/parallel_for.h"
#include "engine/base/philox.h"
#include "engine/base/vec3.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tests/bench/value_noise.h"

namespace nerf {
namespace {

constexpr float kRingRadius = 4;
constexpr float kFocalLength = 0.9f;  // picture widths
constexpr int kSuperSamples = 3;      // along each side of a pixel
constexpr Vec3 kBallCenter{-0.5f, 0, 0.7f};
constexpr float kBallRadius = 0.7f;
constexpr Vec3 kBlockMin{0.4f, -0.6f, 0}, kBlockMax{1.2f, 0.6f, 1.1f};

struct Arguments {
  std::string out;
  int n_views = 64, width = 320, height = 240, n_points = 4000;
  bool depth = false;
};

// A camera-to-world rotation of COLMAP's axes (x right, y down, z forward) in columns.
struct RingCamera {
  Vec3 position, right, down, forward;
};

RingCamera CameraOf(int index, int n_views) {
  const float turn = 2 * std::numbers::pi_v<float> * static_cast<float>(index) / n_views;
  const float height = 1.2f + 0.9f * std::sin(3 * turn);
  RingCamera camera;
  camera.position = {kRingRadius * std::cos(turn), kRingRadius * std::sin(turn), height};
  camera.forward = Normalized(Vec3{0, 0, 0.7f} - camera.position);
  camera.right = Normalized(Cross(camera.forward, {0, 0, 1}));
  camera.down = Cross(camera.forward, camera.right);
  return camera;
}

Vec3 Mix(Vec3 a, Vec3 b, float share) { return a * (1 - share) + b * share; }

Vec3 SkyColor(Vec3 d) {
  const float clouds =
      ValueNoise(0, d * 6) * 0.6f + ValueNoise(0, d * 17) * 0.3f + ValueNoise(0, d * 40) * 0.1f;
  const Vec3 blue = Mix({0.75f, 0.85f, 0.95f}, {0.2f, 0.4f, 0.8f}, std::max(0.0f, d.z));
  return Mix(blue, {1, 0.97f, 0.92f}, std::clamp(3 * clouds - 1, 0.0f, 1.0f));
}

// Patches of several sizes, so that there is something to see at every distance.
Vec3 GroundColor(Vec3 p) {
  const float fine = ValueNoise(0, {p.x * 4, p.y * 4, 0.5f}),
              middle = ValueNoise(0, {p.x / 2, p.y / 2, 9.5f}),
              coarse = ValueNoise(0, {p.x / 14, p.y / 14, 17.5f});
  const Vec3 grass = Mix({0.15f, 0.35f, 0.1f}, {0.55f, 0.6f, 0.25f}, middle);
  return Mix(grass, {0.55f, 0.4f, 0.3f}, std::clamp(4 * coarse - 1.5f, 0.0f, 1.0f)) *
         (0.7f + 0.3f * fine);
}

// Distance along the ray to the nearest surface and its color; the sky has an infinite distance.
struct Hit {
  float t = INFINITY;
  Vec3 color;
};

void HitBall(Vec3 origin, Vec3 d, Hit* hit) {
  const Vec3 to_ball = kBallCenter - origin;
  const float along = Dot(to_ball, d);
  const float discriminant = along * along - Dot(to_ball, to_ball) + kBallRadius * kBallRadius;
  if (discriminant < 0) return;
  const float t = along - std::sqrt(discriminant);
  if (t <= 0 || t >= hit->t) return;
  const Vec3 normal = (origin + d * t - kBallCenter) * (1 / kBallRadius);
  const bool stripe = std::sin(9 * normal.z + 2 * std::sin(5 * normal.x)) > 0;
  hit->t = t;
  hit->color = (stripe ? Vec3{0.85f, 0.2f, 0.15f} : Vec3{0.95f, 0.9f, 0.8f}) *
               (0.55f + 0.45f * std::max(0.0f, 0.8f * normal.z + 0.6f * normal.x));
}

void HitBlock(Vec3 origin, Vec3 d, Hit* hit) {
  float enter = 0, leave = INFINITY;
  int face = 0;
  for (int axis = 0; axis < 3; ++axis) {
    const float a = (kBlockMin[axis] - origin[axis]) / d[axis];
    const float b = (kBlockMax[axis] - origin[axis]) / d[axis];
    if (std::min(a, b) > enter) face = axis;
    enter = std::max(enter, std::min(a, b));
    leave = std::min(leave, std::max(a, b));
  }
  if (enter >= leave || enter <= 0 || enter >= hit->t) return;
  const Vec3 p = origin + d * enter;
  int squares = 0;
  for (int axis = 0; axis < 3; ++axis) {
    // A face lies between two squares of its own axis; rounding would choose one at random.
    if (axis != face) squares += static_cast<int>(std::floor(p[axis] * 5));
  }
  hit->t = enter;
  hit->color = ((squares & 1) != 0 ? Vec3{0.15f, 0.25f, 0.6f} : Vec3{0.9f, 0.8f, 0.3f}) *
               (face == 2   ? 1.0f
                : face == 0 ? 0.8f
                            : 0.6f);
}

Hit Trace(Vec3 origin, Vec3 d) {
  Hit hit{INFINITY, SkyColor(d)};
  if (d.z < 0) {
    hit.t = -origin.z / d.z;
    const Vec3 p = origin + d * hit.t;
    hit.color = GroundColor(p);
    // Haze, and no detail finer than a pixel, where the ground meets the sky.
    const Vec3 haze = SkyColor(Normalized({d.x, d.y, 0}));
    hit.color = Mix(hit.color, haze, 1 - std::exp(-hit.t / 150));
  }
  HitBall(origin, d, &hit);
  HitBlock(origin, d, &hit);
  return hit;
}

Vec3 DirectionOf(const Arguments& arguments, const RingCamera& camera, float x, float y) {
  const float focal = kFocalLength * arguments.width;
  return Normalized(camera.forward + camera.right * ((x - 0.5f * arguments.width) / focal) +
                    camera.down * ((y - 0.5f * arguments.height) / focal));
}

ImageU8 Draw(const Arguments& arguments, const RingCamera& camera) {
  ImageU8 image{arguments.width, arguments.height, 3, {}};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      Vec3 sum;
      for (int i = 0; i < kSuperSamples * kSuperSamples; ++i) {
        const float dx = (i % kSuperSamples + 0.5f) / kSuperSamples;
        const float dy = (i / kSuperSamples + 0.5f) / kSuperSamples;
        sum = sum + Trace(camera.position, DirectionOf(arguments, camera, x + dx, y + dy)).color;
      }
      for (int channel = 0; channel < 3; ++channel) {
        const float mean = sum[channel] / (kSuperSamples * kSuperSamples);
        image.pixels.push_back(
            static_cast<uint8_t>(std::lround(255 * std::clamp(mean, 0.0f, 1.0f))));
      }
    }
  }
  return image;
}

// Millimeters along the camera's axis at the pixels' centers; 0 beyond what a sensor sees.
bool WriteDepth(const Arguments& arguments, int view) {
  constexpr float kReach = 10;
  const RingCamera camera = CameraOf(view, arguments.n_views);
  std::vector<uint16_t> depths;
  for (int y = 0; y < arguments.height; ++y) {
    for (int x = 0; x < arguments.width; ++x) {
      const Vec3 d = DirectionOf(arguments, camera, x + 0.5f, y + 0.5f);
      const float depth = Trace(camera.position, d).t * Dot(d, camera.forward);
      depths.push_back(depth < kReach ? static_cast<uint16_t>(std::lround(1000 * depth)) : 0);
    }
  }
  return WritePng16(fmt::format("{}/depth/{:03}.png", arguments.out, view), arguments.width,
                    arguments.height, depths)
      .ok();
}

void WriteTransforms(const Arguments& arguments) {
  const float focal = kFocalLength * arguments.width;
  nlohmann::json list = {{"camera_model", "PINHOLE"},
                         {"w", arguments.width},
                         {"h", arguments.height},
                         {"fl_x", focal},
                         {"fl_y", focal},
                         {"cx", 0.5f * arguments.width},
                         {"cy", 0.5f * arguments.height},
                         {"frames", nlohmann::json::array()}};
  for (int i = 0; i < arguments.n_views; ++i) {
    const RingCamera c = CameraOf(i, arguments.n_views);
    nlohmann::json matrix = nlohmann::json::array();
    for (int row = 0; row < 3; ++row)
      matrix.push_back({c.right[row], -c.down[row], -c.forward[row], c.position[row]});
    matrix.push_back({0, 0, 0, 1});
    list["frames"].push_back({{"file_path", fmt::format("images/{:03}.png", i)},
                              {"depth_file_path", fmt::format("depth/{:03}.png", i)},
                              {"transform_matrix", matrix}});
  }
  std::ofstream(arguments.out + "/transforms.json") << list.dump(1);
}

// Unit quaternion w, x, y, z of the world-to-camera rotation, whose rows are the camera's axes.
void Quaternion(const RingCamera& camera, double q[4]) {
  const Vec3 rows[3] = {camera.right, camera.down, camera.forward};
  // Of the four forms the one whose leading term is largest, so that nothing cancels.
  const double d0 = rows[0].x, d1 = rows[1].y, d2 = rows[2].z;
  const double squares[4] = {1 + d0 + d1 + d2, 1 + d0 - d1 - d2, 1 - d0 + d1 - d2,
                             1 - d0 - d1 + d2};
  int lead = 0;
  for (int i = 1; i < 4; ++i) lead = squares[i] > squares[lead] ? i : lead;
  const double sums[4][4] = {
      {0, rows[2].y - rows[1].z, rows[0].z - rows[2].x, rows[1].x - rows[0].y},
      {rows[2].y - rows[1].z, 0, rows[1].x + rows[0].y, rows[0].z + rows[2].x},
      {rows[0].z - rows[2].x, rows[1].x + rows[0].y, 0, rows[2].y + rows[1].z},
      {rows[1].x - rows[0].y, rows[0].z + rows[2].x, rows[2].y + rows[1].z, 0}};
  const double root = 2 * std::sqrt(squares[lead]);
  for (int i = 0; i < 4; ++i) q[i] = i == lead ? root / 4 : sums[lead][i] / root;
}

void WriteModel(const Arguments& arguments) {
  const std::string folder = arguments.out + "/sparse/0/";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "cameras.txt")
      << fmt::format("1 PINHOLE {} {} {} {} {} {}\n", arguments.width, arguments.height,
                     kFocalLength * arguments.width, kFocalLength * arguments.width,
                     0.5 * arguments.width, 0.5 * arguments.height);
  std::ofstream images(folder + "images.txt"), points(folder + "points3D.txt");
  for (int i = 0; i < arguments.n_views; ++i) {
    const RingCamera camera = CameraOf(i, arguments.n_views);
    double q[4];
    Quaternion(camera, q);
    images << fmt::format("{} {} {} {} {} {} {} {} 1 {:03}.png\n\n", i + 1, q[0], q[1], q[2], q[3],
                          -Dot(camera.right, camera.position), -Dot(camera.down, camera.position),
                          -Dot(camera.forward, camera.position), i);
  }
  // Points are what rays through random pixels hit, seen from the neighboring views, too.
  for (int i = 0; i < arguments.n_points; ++i) {
    const auto words = RandomWords(1, RandomUse::kInit, 0, static_cast<uint32_t>(i));
    const int view = static_cast<int>(words[0] % static_cast<uint32_t>(arguments.n_views));
    const RingCamera camera = CameraOf(view, arguments.n_views);
    const Vec3 d = DirectionOf(arguments, camera, UniformFloat(words[1]) * arguments.width,
                               UniformFloat(words[2]) * arguments.height);
    const Hit hit = Trace(camera.position, d);
    if (!(hit.t < 60)) continue;  // too far to be matched
    const Vec3 p = camera.position + d * hit.t;
    points << fmt::format("{} {} {} {} 128 128 128 0.5", i + 1, p.x, p.y, p.z);
    for (const int step : {-1, 0, 1}) {
      points << fmt::format(" {} 0", (view + step + arguments.n_views) % arguments.n_views + 1);
    }
    points << "\n";
  }
}

bool WriteScene(const Arguments& arguments) {
  std::filesystem::create_directories(arguments.out + "/images");
  if (arguments.depth) std::filesystem::create_directories(arguments.out + "/depth");
  ThreadPool pool(0);
  std::vector<int> written(arguments.n_views);
  pool.ParallelFor(arguments.n_views, [&](int64_t i, int) {
    const int view = static_cast<int>(i);
    written[view] = WritePng(fmt::format("{}/images/{:03}.png", arguments.out, view),
                             Draw(arguments, CameraOf(view, arguments.n_views)))
                        .ok() &&
                    (!arguments.depth || WriteDepth(arguments, view));
  });
  if (arguments.depth) {
    WriteTransforms(arguments);
  } else {
    WriteModel(arguments);
  }
  return std::count(written.begin(), written.end(), 1) == arguments.n_views;
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  nerf::Arguments arguments;
  CLI::App app("Draws an open scene.");
  app.add_option("DIR", arguments.out, "folder")->required();
  app.add_option("--views", arguments.n_views, "pictures")->check(CLI::Range(4, 1000));
  app.add_option("--width", arguments.width, "pixels")->check(CLI::Range(16, 4096));
  app.add_option("--height", arguments.height, "pixels")->check(CLI::Range(16, 4096));
  app.add_flag("--depth", arguments.depth,
               "transforms.json with depth files of up to 10 m, in place of COLMAP's model");
  CLI11_PARSE(app, argc, argv);
  if (nerf::WriteScene(arguments)) return 0;
  std::fprintf(stderr, "cannot write %s\n", arguments.out.c_str());
  return 1;
}
