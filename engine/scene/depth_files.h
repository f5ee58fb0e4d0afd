#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/scene.h"

namespace nerf {

struct SceneOptions;
struct ViewDescription;

// A file with the depth of a photograph, as a data set names it: a 16-bit gray PNG or an .npy file
// of the photograph's aspect ratio, 0 where nothing is known.
struct DepthFile {
  std::string file;              // relative to the folder; empty: there is none
  double unit = 0;               // own units of 1
  std::string list_file, field;  // that name it, for messages
};

// Adds a problem for each depth file of the views that is of another kind, exceeds the limits or
// has another aspect ratio than its photograph. Reads headers alone.
void CheckDepthHeaders(const SceneFolder& folder, const std::vector<ViewDescription>& views,
                       const ImageLimits& limits, Problems* problems);

// Decodes the depth files of the views. Those larger than their view take the nearest of their
// values. Problems: files that are damaged or know no depth at all. scale:
// training units of an own unit. Without `keep` nothing is returned.
std::vector<DepthMap> DecodeDepthFiles(const SceneFolder& folder,
                                       const std::vector<ViewDescription>& views, double scale,
                                       const SceneOptions& options, bool keep, ThreadPool* pool,
                                       Problems* problems);

// The distance from the camera, in training units, of what a ray of unit `direction` shows where
// the map has `value`.
float DistanceOf(const DepthMap& map, uint16_t value, const Mat34& camera_to_world, Vec3 direction);

// Points at held-out pixels of the maps, at most 64 of each, spread over it.
std::vector<SeenPoint> HeldOutPoints(const std::vector<DepthMap>& maps,
                                     const std::vector<View>& views);

}  // namespace nerf
