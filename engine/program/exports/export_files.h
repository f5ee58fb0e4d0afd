#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/aabb.h"
#include "engine/export/files/export_axes.h"
#include "engine/export/mesh/mesh_export.h"
#include "engine/program/session/loaded_model.h"
#include "nerf/v1/export_job.pb.h"

namespace nerf {

struct ExportRequest {
  v1::ExportSpec spec;  // with defaults; its source, box and path are not read
  AxesName axes = AxesName::kDataset;
  std::optional<OwnBox> own_box;  // own frame; see MeshOptions
  double own_density = 0;         // of a mesh's surface, 1 / own unit; 0: DefaultLevel
  float time = 0;                 // of the model, 0 to 1
  std::string camera;   // file with cameras of a path or views; empty: those of the photographs
  std::string dataset;  // folder of the data set that a path is for; empty: not known
  // A path whose frame is not known otherwise is for the cameras that --format cameras writes.
  bool of_exported_cameras = false;
};

// The cameras of a model's photographs, training frame; none where its file stores none.
std::vector<Camera> PhotographsOf(const TrainState& state);

// Those of the photographs, or on a circle where the file stores none, at a time.
std::vector<Camera> CamerasOfViews(const ModelFile& model, float time);

// How positions of a file are to be read whose scene has a local origin, which stands in `place`:
// "; positions are relative to ...". Empty without one.
std::string OriginWords(const ExportAxes& axes, std::string_view place);

// A file that is ready to be written.
struct ExportedFile {
  std::string bytes;
  size_t byte_size = 0;                    // of views, which are written already
  size_t n_vertices = 0, n_triangles = 0;  // or points, splats, cameras, views in n_vertices
  std::string words;                       // of what it holds, and of what was left out
  std::string axes;                        // ExportAxes::words
};

// The most points that MakeExport makes.
double MaxExportedPoints(const ModelFile& model, const ExportRequest& request);

// Makes the file, of any format but VIEWS (MakeViewSet) and VIEWER (ViewerExport). The same model
// and request make the same bytes. Errors: Cancelled; InvalidArgument for what the model does not
// have, or a box without anything in it; ResourceExhausted, see ExtractSurface.
absl::StatusOr<ExportedFile> MakeExport(const ModelFile& model, const ExportRequest& request,
                                        ThreadPool* pool, const std::stop_token& stop,
                                        const ExportProgress& progress);

}  // namespace nerf
