// Copies a data set in Blender's layout and spoils its training pictures, for measuring what
// exposures, masks and learned cameras repair: a gain and tint per picture, patches of color with
// masks that cover them, cameras that are off, or a focal length that is. Equal arguments give
// equal files.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numbers>

#include "CLI/CLI.hpp"
#include "engine/base/philox.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSeed = 7;
constexpr float kMinGain = 0.6f, kMaxGain = 1.5f, kMaxTint = 0.15f;
constexpr double kTurn = 1 * std::numbers::pi / 180;  // of a camera, about an axis at random
constexpr double kShift = 0.02;  // of a camera's distance from the origin, in a direction at random
constexpr double kFocalError = 1.03;  // focal length that is stated over the true one, test too
constexpr float kPatchShare = 0.3f;   // of the pictures
constexpr float kMinPatch = 0.15f, kPatchVariation = 0.2f;  // of a picture's sides

float Random(uint32_t picture, int index) {
  return UniformFloat(
      RandomWords(kSeed, RandomUse::kInit, picture, static_cast<uint32_t>(index) / 4)[index % 4]);
}

uint8_t Byte(float value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0f, 255.0f)));
}

void ApplyGain(uint32_t picture, ImageU8* image) {
  float gains[3];
  // Even in its logarithm. The geometric mean of the gains is 0.95, so the mean exposure is darker.
  const float gain = kMinGain * std::pow(kMaxGain / kMinGain, Random(picture, 0));
  for (int c = 0; c < 3; ++c) gains[c] = gain * (1 + kMaxTint * (2 * Random(picture, 1 + c) - 1));
  const size_t n = image->pixels.size() / image->n_channels;
  for (size_t i = 0; i < n; ++i) {
    for (int c = 0; c < 3; ++c) {
      uint8_t& value = image->pixels[i * image->n_channels + c];
      value = Byte(gains[c] * value);
    }
  }
}

// A patch of one color; *mask becomes black there.
void ApplyPatch(uint32_t picture, ImageU8* image, ImageU8* mask) {
  const float share = kMinPatch + kPatchVariation * Random(picture, 4);
  const int side = static_cast<int>(share * image->width);
  const int x0 = static_cast<int>(Random(picture, 5) * (image->width - side));
  const int y0 = static_cast<int>(Random(picture, 6) * (image->height - side));
  for (int y = y0; y < std::min(y0 + side, image->height); ++y) {
    for (int x = x0; x < x0 + side; ++x) {
      const size_t i = static_cast<size_t>(y) * image->width + x;
      for (int c = 0; c < 3; ++c)
        image->pixels[i * image->n_channels + c] = Byte(255 * Random(picture, 8 + c));
      if (image->n_channels == 4) image->pixels[4 * i + 3] = 255;
      mask->pixels[i] = 0;
    }
  }
}

// Even over the sphere.
std::array<double, 3> RandomDirection(uint32_t picture, int index) {
  const double z = 2.0 * Random(picture, index) - 1, ring = std::sqrt(1 - z * z);
  const double angle = 2 * std::numbers::pi * Random(picture, index + 1);
  return {ring * std::cos(angle), ring * std::sin(angle), z};
}

// Turns the camera about its own position and shifts it.
void ApplyPoseError(uint32_t picture, nlohmann::json* frame) {
  nlohmann::json& matrix = (*frame)["transform_matrix"];
  const auto axis = RandomDirection(picture, 12), shift = RandomDirection(picture, 14);
  double distance = 0;
  for (int row = 0; row < 3; ++row) distance += std::pow(matrix[row][3].get<double>(), 2);
  distance = std::sqrt(distance);
  for (int column = 0; column < 3; ++column) {  // Rodrigues' formula on each axis of the camera
    std::array<double, 3> v;
    for (int row = 0; row < 3; ++row) v[row] = matrix[row][column].get<double>();
    const double along = axis[0] * v[0] + axis[1] * v[1] + axis[2] * v[2];
    for (int row = 0; row < 3; ++row) {
      const int next = (row + 1) % 3, last = (row + 2) % 3;
      const double cross = axis[next] * v[last] - axis[last] * v[next];
      matrix[row][column] = v[row] * std::cos(kTurn) + cross * std::sin(kTurn) +
                            axis[row] * along * (1 - std::cos(kTurn));
    }
  }
  for (int row = 0; row < 3; ++row)
    matrix[row][3] = matrix[row][3].get<double>() + kShift * distance * shift[row];
}

// White where the picture is transparent, without alpha.
ImageU8 OnWhite(const ImageU8& image) {
  if (image.n_channels != 4) return image;
  ImageU8 flat{image.width, image.height, 3, {}};
  for (size_t i = 0; i < image.pixels.size(); i += 4) {
    const float alpha = image.pixels[i + 3] / 255.0f;
    for (int c = 0; c < 3; ++c)
      flat.pixels.push_back(Byte(alpha * image.pixels[i + c] + 255 * (1 - alpha)));
  }
  return flat;
}

struct Arguments {
  std::string from, to, kind = "gains";
  bool masks = true;
};

bool SpoilPicture(const Arguments& arguments, uint32_t picture, const std::string& file,
                  bool is_train, nlohmann::json* frame) {
  absl::StatusOr<ImageU8> image = DecodeImage(arguments.from + "/" + file);
  if (!image.ok()) return false;
  const bool patches = arguments.kind == "patches" || arguments.kind == "flat";
  if (patches) image = OnWhite(*image);
  ImageU8 mask{image->width, image->height, 1, {}};
  mask.pixels.assign(static_cast<size_t>(mask.width) * mask.height, 255);
  if (is_train && arguments.kind == "gains") ApplyGain(picture, &*image);
  if (is_train && arguments.kind == "patches" && Random(picture, 7) < kPatchShare)
    ApplyPatch(picture, &*image, &mask);
  fs::create_directories(fs::path(arguments.to + "/" + file).parent_path());
  if (is_train && arguments.kind == "poses") ApplyPoseError(picture, frame);
  if (patches && is_train && arguments.masks) {
    const std::string mask_file = "masks_of/" + file;
    fs::create_directories(fs::path(arguments.to + "/" + mask_file).parent_path());
    (*frame)["mask_path"] = mask_file;
    if (!WritePng(arguments.to + "/" + mask_file, mask).ok()) return false;
  }
  return WritePng(arguments.to + "/" + file, *image).ok();
}

bool Spoil(const Arguments& arguments) {
  fs::create_directories(arguments.to);
  for (const char* split : {"train", "test"}) {
    const std::string list = fmt::format("/transforms_{}.json", split);
    std::ifstream in(arguments.from + list);
    nlohmann::json root = nlohmann::json::parse(in, nullptr, false);
    if (root.is_discarded()) return false;
    if (arguments.kind == "focal") {
      const double half = 0.5 * root["camera_angle_x"].get<double>();
      root["camera_angle_x"] = 2 * std::atan(std::tan(half) / kFocalError);
    }
    uint32_t picture = 0;
    for (nlohmann::json& frame : root["frames"]) {
      std::string file = frame["file_path"].get<std::string>();
      if (file.rfind("./", 0) == 0) file = file.substr(2);
      if (fs::path(file).extension() != ".png") file += ".png";
      const bool is_train = std::string_view(split) == "train";
      if (!SpoilPicture(arguments, picture++, file, is_train, &frame)) return false;
    }
    std::ofstream(arguments.to + list) << root.dump(1);
  }
  return true;
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  nerf::Arguments arguments;
  CLI::App app("Spoils the training pictures of a data set in Blender's layout.");
  app.add_option("FROM", arguments.from, "data set")->required();
  app.add_option("TO", arguments.to, "folder")->required();
  app.add_option(
         "--kind", arguments.kind,
         "gains: 0.6 to 1.5 and tints; patches: on three pictures in ten, on white; flat: "
         "on white, not spoilt; poses: off by 1 degree and 2%; focal: its length off by 3%, in "
         "the test pictures, too")
      ->check(CLI::IsMember({"gains", "patches", "flat", "poses", "focal"}));
  app.add_flag("!--no-masks", arguments.masks, "write no masks");
  CLI11_PARSE(app, argc, argv);
  if (nerf::Spoil(arguments)) return 0;
  std::fprintf(stderr, "cannot read %s or write %s\n", arguments.from.c_str(),
               arguments.to.c_str());
  return 1;
}
