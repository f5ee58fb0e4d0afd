#pragma once

#include <string_view>

namespace nerf {

// A worker that announces kExportFeature exports models of its methods (ModelCapability). One that
// announces kMoreExportsFeature also knows turned boxes, those of viewers, textures and volumes,
// one with kPathExportsFeature also camera paths and data sets of views, one with
// kBakedExportsFeature also viewers with a baked model, one with kSplatFilesFeature also splats in
// files other than PLY. kNanoVdbFeature: volumes for NanoVDB, which not all engines are built with.
inline constexpr std::string_view kExportFeature = "export";
inline constexpr std::string_view kMoreExportsFeature = "export-2";
inline constexpr std::string_view kPathExportsFeature = "export-3";
inline constexpr std::string_view kBakedExportsFeature = "export-4";
inline constexpr std::string_view kSplatFilesFeature = "export-5";
inline constexpr std::string_view kNanoVdbFeature = "export-nvdb";

}  // namespace nerf
