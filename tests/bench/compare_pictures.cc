// The largest difference between equally named pictures of two folders, in any channel of any
// pixel.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/status_macros.h"
#include "engine/program/device/exception_border.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<int> LargestDifference(const std::string& a, const std::string& b) {
  NERF_ASSIGN_OR_RETURN(const ImageU8 x, DecodeImage(a));
  NERF_ASSIGN_OR_RETURN(const ImageU8 y, DecodeImage(b));
  if (x.width != y.width || x.height != y.height || x.n_channels != y.n_channels) {
    return absl::InvalidArgumentError(fmt::format("{} and {} differ in size or channels", a, b));
  }
  int largest = 0;
  for (size_t i = 0; i < x.pixels.size(); ++i)
    largest = std::max(largest, std::abs(x.pixels[i] - y.pixels[i]));
  return largest;
}

absl::Status Compare(const std::string& a, const std::string& b) {
  int n_pictures = 0, largest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(a)) {
    if (entry.path().extension() != ".png") continue;
    NERF_ASSIGN_OR_RETURN(
        const int difference,
        LargestDifference(entry.path().string(), b + "/" + entry.path().filename().string()));
    largest = std::max(largest, difference);
    ++n_pictures;
  }
  if (n_pictures == 0) return absl::NotFoundError(fmt::format("{}: there are no pictures", a));
  fmt::print("largest difference {} of 255, {} pictures\n", largest, n_pictures);
  return absl::OkStatus();
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: compare_pictures DIR DIR\n");
    return 2;
  }
  const absl::Status status = nerf::Guarded([&] { return nerf::Compare(argv[1], argv[2]); });
  if (status.ok()) return 0;
  fmt::print(stderr, "compare_pictures: {}\n", status.ToString());
  return 1;
}
