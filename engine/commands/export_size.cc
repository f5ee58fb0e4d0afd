#include "engine/commands/export_size.h"

#include <string_view>

#include "common/status_macros.h"
#include "engine/base/export_bytes.h"
#include "engine/commands/path_export.h"
#include "engine/commands/view_set.h"
#include "engine/export/volume.h"
#include "engine/field/marched_model.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<ExportSize> VolumeSize(const ModelFile& model, const ExportRequest& request,
                                      ThreadPool* pool, const std::stop_token& stop) {
  const auto* const marched = dynamic_cast<const MarchedModel*>(model.model.get());
  if (marched == nullptr) return ExportSize();  // MakeExport says why it makes none
  NERF_ASSIGN_OR_RETURN(const VolumeExtent extent,
                        OccupiedExtent(*marched, model.state.geometry, request.own_box,
                                       request.resolution, pool, stop));
  return ExportSize{
      request.format == ExportFormat::kVdb ? MaxVdbBytes(extent) : MaxNanoVdbBytes(extent), true};
}

}  // namespace

absl::StatusOr<ExportSize> SizeBefore(const ModelFile& model, const ExportRequest& request,
                                      ThreadPool* pool, const std::stop_token& stop) {
  switch (request.format) {
    case ExportFormat::kPly:
    case ExportFormat::kGlb:
      if (request.texture_size > 0) return ExportSize();
      return ExportSize{ExpectedMeshBytes(request.format == ExportFormat::kGlb,
                                          static_cast<double>(request.n_triangles))};
    case ExportFormat::kPoints:
    case ExportFormat::kSplats:
      return ExportSize{MaxPointFileBytes(request.format == ExportFormat::kSplats,
                                          MaxExportedPoints(model, request)),
                        true};
    case ExportFormat::kVdb:
    case ExportFormat::kNvdb:
      return VolumeSize(model, request, pool, stop);
    case ExportFormat::kViews: {
      NERF_ASSIGN_OR_RETURN(const double bytes, MaxViewSetBytes(model, request));
      return ExportSize{bytes, true};
    }
    case ExportFormat::kNerfstudioPath:
    case ExportFormat::kNgpPath:
    case ExportFormat::kCameras:
      break;
  }
  NERF_ASSIGN_OR_RETURN(const ExportedFile file,
                        MakeExport(model, request, pool, stop, [](std::string_view, double) {}));
  return ExportSize{static_cast<double>(file.bytes.size())};
}

std::string BytesText(double bytes) {
  return bytes < 1e5 ? fmt::format("{:.1f} kB", bytes / 1e3)
                     : fmt::format("{:.1f} MB", bytes / 1e6);
}

std::string SizeText(const ExportSize& size) {
  return fmt::format("{} {}", size.is_bound ? "at most" : "about", BytesText(size.bytes));
}

}  // namespace nerf
