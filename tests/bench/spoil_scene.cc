// Copies a data set in Blender's layout and spoils its training pictures, for measuring what
// exposures and masks repair: a gain and tint per picture, or patches of color with masks that
// cover them. Equal arguments give equal files.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "CLI/CLI.hpp"
#include "engine/base/philox.h"
#include "engine/scene/image_io.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSeed = 7;
constexpr float kMinGain = 0.6f, kMaxGain = 1.5f, kMaxTint = 0.15f;
constexpr float kPatchShare = 0.3f;                         // of the pictures
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
  // Even in its logarithm, so that the mean exposure is that of the clean pictures.
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
  const bool patches = arguments.kind != "gains";
  if (patches) image = OnWhite(*image);
  ImageU8 mask{image->width, image->height, 1, {}};
  mask.pixels.assign(static_cast<size_t>(mask.width) * mask.height, 255);
  if (is_train && arguments.kind == "gains") ApplyGain(picture, &*image);
  if (is_train && arguments.kind == "patches" && Random(picture, 7) < kPatchShare)
    ApplyPatch(picture, &*image, &mask);
  fs::create_directories(fs::path(arguments.to + "/" + file).parent_path());
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
  app.add_option("--kind", arguments.kind,
                 "gains: 0.6 to 1.5 and tints; patches: on three pictures in ten, on white; flat: "
                 "on white, not spoilt")
      ->check(CLI::IsMember({"gains", "patches", "flat"}));
  app.add_flag("!--no-masks", arguments.masks, "write no masks");
  CLI11_PARSE(app, argc, argv);
  if (nerf::Spoil(arguments)) return 0;
  std::fprintf(stderr, "cannot read %s or write %s\n", arguments.from.c_str(),
               arguments.to.c_str());
  return 1;
}
