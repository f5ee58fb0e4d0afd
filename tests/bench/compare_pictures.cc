// How far two folders of pictures of the same names are apart, at most, in any channel of any
// pixel.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/scene/image_io.h"
#include "engine/tool/exception_border.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<int> MostDifferent(const std::string& a, const std::string& b) {
  const auto x = DecodeImage(a), y = DecodeImage(b);
  if (!x.ok()) return x.status();
  if (!y.ok()) return y.status();
  if (x->width != y->width || x->height != y->height || x->n_channels != y->n_channels) {
    return absl::InvalidArgumentError(fmt::format("{} and {} are of different shapes", a, b));
  }
  int most = 0;
  for (size_t i = 0; i < x->pixels.size(); ++i)
    most = std::max(most, std::abs(x->pixels[i] - y->pixels[i]));
  return most;
}

absl::Status Compare(const std::string& a, const std::string& b) {
  int n_pictures = 0, most = 0;
  for (const auto& entry : std::filesystem::directory_iterator(a)) {
    if (entry.path().extension() != ".png") continue;
    const auto different =
        MostDifferent(entry.path().string(), b + "/" + entry.path().filename().string());
    if (!different.ok()) return different.status();
    most = std::max(most, *different);
    ++n_pictures;
  }
  if (n_pictures == 0) return absl::NotFoundError(fmt::format("{}: there are no pictures", a));
  fmt::print("most {} of 255, {} pictures\n", most, n_pictures);
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
