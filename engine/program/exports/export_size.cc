#include "engine/program/exports/export_size.h"

#include <string_view>

#include "common/status_macros.h"
#include "engine/base/export_bytes.h"
#include "engine/base/messages/export_options.h"
#include "engine/export/files/volume.h"
#include "engine/field/marched_model.h"
#include "engine/program/exports/path_export.h"
#include "engine/program/exports/view_set.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::StatusOr<ExportSize> VolumeSize(const ModelFile& model, const ExportRequest& request,
                                      ThreadPool* pool, const std::stop_token& stop) {
  const auto* const marched = dynamic_cast<const MarchedModel*>(model.model.get());
  if (marched == nullptr) return ExportSize();  // MakeExport says why it makes none
  NERF_ASSIGN_OR_RETURN(const VolumeExtent extent,
                        OccupiedExtent(*marched, model.state.geometry, request.own_box,
                                       static_cast<int>(request.spec.resolution()), pool, stop));
  return ExportSize{
      request.spec.format() == v1::ExportSpec::VDB ? MaxVdbBytes(extent) : MaxNanoVdbBytes(extent),
      true};
}

}  // namespace

absl::StatusOr<ExportSize> SizeBefore(const ModelFile& model, const ExportRequest& request,
                                      ThreadPool* pool, const std::stop_token& stop) {
  switch (request.spec.format()) {
    case v1::ExportSpec::PLY:
    case v1::ExportSpec::GLB:
      if (request.spec.texture() > 0) return ExportSize();
      return ExportSize{ExpectedMeshBytes(request.spec.format() == v1::ExportSpec::GLB,
                                          request.spec.triangles())};
    case v1::ExportSpec::POINTS:
      return ExportSize{MaxPointFileBytes(MaxExportedPoints(model, request)), true};
    case v1::ExportSpec::SPLATS:
    case v1::ExportSpec::SPZ:
    case v1::ExportSpec::SOG:
    case v1::ExportSpec::SPLATS_GLB:
      return ExportSize{
          MaxSplatFileBytes(SplatFileOf(request.spec.format()), request.spec.max_splats()), true};
    case v1::ExportSpec::VDB:
    case v1::ExportSpec::NVDB:
      return VolumeSize(model, request, pool, stop);
    case v1::ExportSpec::VIEWS: {
      NERF_ASSIGN_OR_RETURN(const double bytes, MaxViewSetBytes(model, request));
      return ExportSize{bytes, true};
    }
    default:  // paths and cameras
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
