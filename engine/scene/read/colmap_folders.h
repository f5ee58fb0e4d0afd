#pragma once

#include <string>
#include <vector>

#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/read/colmap_model.h"

// Where COLMAP, its exporters and the programs around it put models and photographs.
namespace nerf {

// The files of one model, relative to the data set's folder.
struct ColmapFiles {
  std::string folder;  // "sparse/0"; empty: the data set's folder itself
  bool is_binary = false;
  std::string cameras, images, points;
  std::string source() const;  // "sparse/0 (binary)"
};

// The models of the folder, those of usual places first: sparse/0, sparse, colmap/sparse/0, then
// the other folders with names that such programs use, up to four deep, and the folder itself if
// cameras and images lie beside the photographs. If there is none, and the folder holds a single
// one without photographs beside it, those of that one. Binary files are taken where both kinds are
// there.
std::vector<ColmapFiles> FindColmapModels(const SceneFolder& folder);

// The folder of the photographs that the model lists, relative to the data set's: of images/,
// input/ and the folder itself, beside the model or above it, the one that holds most of them; of
// several those whose photographs have the size that the model states. "images" if there is none.
// *n_present: how many of them it holds.
std::string FindColmapPictures(const SceneFolder& folder, const ColmapFiles& files,
                               const ColmapModel& model, size_t* n_present);

}  // namespace nerf
