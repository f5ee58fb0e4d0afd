#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/posing/colmap_runner.h"
#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/photographs/posed_model.h"
#include "engine/scene/read/scene_reader.h"

// A posed data set that photographs are added to.
namespace nerf {

struct OldView {
  std::string file;  // relative to the data set's folder
  Photo photo;       // file: its copy for COLMAP, "o00012.jpg"; lens: index in OldScene::lenses
  PosedPhoto pose;   // own frame, COLMAP's axes
};

struct OldScene {
  SceneDescription description;
  std::vector<OldView> views;
  std::vector<KnownLens> lenses;
  bool is_colmap = false;
  // Of transforms files: the one that frames are added to. Of COLMAP: the model's folder.
  std::string list_file;
  std::string pictures = "images";  // folder that new photographs go to
  ColmapModel model;                // of COLMAP, as it is in the files
  std::vector<ColmapPoint> points;  // of that model
};

// Reads the data set in `folder` and writes each picture to `copies`, as COLMAP reads it. Errors:
// NotFound; InvalidArgument if it has problems, or its layout or its lenses cannot be added to
// (LLFF, Polycam, panoramas, lenses that COLMAP does not take); Cancelled.
absl::StatusOr<OldScene> ReadOldScene(const std::string& folder, const std::string& copies,
                                      const PrepareOptions& options);

// A photograph that was added.
struct AddedPhoto {
  std::string file;  // name in OldScene::pictures
  PosedPhoto pose;   // own frame
  ColmapCamera camera;
  int old_lens = -1;  // index in OldScene::lenses; -1: a lens of its own
};

// Writes what makes `out` the old data set with the new photographs, which are there already: the
// old pictures, the list or model with all of them, and placement.json. What the old one said of
// its own is kept to the last digit. points: those that the new photographs show; their images are
// the numbers of the new photographs from 0, then those of the old views.
absl::Status WriteAddedScene(const OldScene& scene, const std::string& folder,
                             const std::vector<AddedPhoto>& added,
                             const std::vector<ColmapPoint>& points, const std::string& out);

}  // namespace nerf
