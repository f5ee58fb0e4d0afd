#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/program/exports/export_files.h"
#include "engine/program/session/loaded_model.h"

namespace nerf {

// How large a file will be, told before it is made.
struct ExportSize {
  double bytes = 0;       // 0: not known
  bool is_bound = false;  // the file has at most that many; else about as many
};

// The size of what MakeExport and MakeViewSet make, in less time than they take: of meshes with all
// of their triangles and no texture, a bound of points, splats and views, a bound by the occupied
// cells of volumes, that of paths and cameras themselves. Errors: Cancelled; those of CamerasOf and
// MakeExport for paths and cameras.
absl::StatusOr<ExportSize> SizeBefore(const ModelFile& model, const ExportRequest& request,
                                      ThreadPool* pool, const std::stop_token& stop);

// "1.2 kB", "12.3 MB".
std::string BytesText(double bytes);
// "at most 12.3 MB", "about 1.2 kB".
std::string SizeText(const ExportSize& size);

}  // namespace nerf
