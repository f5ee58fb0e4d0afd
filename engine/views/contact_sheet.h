#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// Pictures in their order in rows of one width, without an empty cell: where the last row would be
// short, each row has one more or less. Large pictures are reduced: a sheet has at most 2400 pixels
// across and 12 million in all.
struct SheetCell {
  int x = 0, y = 0, width = 0, height = 0;
};
struct SheetLayout {
  int width = 0, height = 0;
  std::vector<SheetCell> cells;
};
// `sizes`: width and height of each picture, at least 1. n_rows: 0 for the number that suits them.
SheetLayout LayOutSheet(const std::vector<std::pair<int, int>>& sizes, int n_rows = 0);

// Of more pictures than this, a sheet shows so many, evenly spaced, with the first and the last.
inline constexpr size_t kMaxSheetPictures = 100;

// Writes one PNG at `path`, atomically, that shows the images `files` (PNG or JPEG, those
// with alpha on white). n_rows: as of LayOutSheet, at most one a picture. Errors:
// InvalidArgument when there are no files; those of reading and writing, naming the path.
absl::Status WriteContactSheet(const std::vector<std::string>& files, const std::string& path,
                               int n_rows = 0);

// The same of pictures in memory: RGB or RGBA.
absl::StatusOr<ImageU8> ContactSheet(const std::vector<ImageU8>& pictures);

}  // namespace nerf
