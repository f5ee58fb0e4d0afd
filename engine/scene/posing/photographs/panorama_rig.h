#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/scene/posing/photographs/colmap_database.h"
#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/photographs/posed_model.h"

// Models of COLMAP in which the faces of a panorama (panorama.h) are held together.
namespace nerf {

// COLMAP's parameters of a face's PINHOLE camera: "163,163,163,163".
std::string FaceParams(int panorama_width);

// Writes a model of all faces of the panoramas with these poses, without points, into `folder`, and
// what COLMAP's rig_bundle_adjuster has to know of them into `config`. `ids`: of the faces in the
// database whose features will be triangulated.
absl::Status WriteRig(const std::map<std::string, PosedPhoto>& poses,
                      const std::vector<Photo>& panoramas,
                      const std::map<std::string, ColmapIds>& ids, const std::string& folder,
                      const std::string& config);

// Writes the model of panoramas, EQUIRECTANGULAR, that the model of their faces in `faces` says,
// with its points, into `folder`.
absl::Status WritePanoramas(const std::string& faces, const std::vector<Photo>& panoramas,
                            const std::string& folder);

}  // namespace nerf
