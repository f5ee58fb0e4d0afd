#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/queue/jobs/model_source.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// A worker that announces kExportFeature exports models of its methods (ModelCapability). One that
// announces kMoreExportsFeature also knows turned boxes, those of viewers, textures and volumes,
// one with kPathExportsFeature also camera paths and data sets of views, one with
// kBakedExportsFeature also viewers with a baked model. kNanoVdbFeature: volumes for NanoVDB, which
// not all engines are built with.
inline constexpr std::string_view kExportFeature = "export";
inline constexpr std::string_view kMoreExportsFeature = "export-2";
inline constexpr std::string_view kPathExportsFeature = "export-3";
inline constexpr std::string_view kBakedExportsFeature = "export-4";
inline constexpr std::string_view kNanoVdbFeature = "export-nvdb";

// What an export job is to do.
struct ExportSpec : ModelSource {
  std::string request;        // what the client sent, without labels: opaque bytes for the service
  double expected_bytes = 0;  // of the file, that follow from the model; 0: none do

  bool operator==(const ExportSpec&) const = default;
};

// What it has made.
struct ExportResult {
  std::vector<SceneFileRecord> files;  // by name; at least one
  std::string report;                  // opaque bytes for the service

  bool operator==(const ExportResult&) const = default;
};

}  // namespace nerf
