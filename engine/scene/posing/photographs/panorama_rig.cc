#include "engine/scene/posing/photographs/panorama_rig.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/atomic_file.h"
#include "common/status_macros.h"
#include "engine/scene/posing/photographs/panorama.h"
#include "engine/scene/read/colmap_model.h"
#include "nlohmann/json.hpp"

namespace nerf {
namespace {

// The rotation of face `face` from the axes of face 0, as COLMAP's rigs have it.
nlohmann::json TurnFromFirstFace(int face) {
  // As if face 0 were the world's axes.
  const Matrix3 to = FaceAxes(face), from = FaceAxes(0);
  PosedPhoto relative;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 3; ++k) relative.axes[i][j] += to[i][k] * from[j][k];
    }
  }
  const ColmapImage image = ToColmapImage(relative, 0, 0, "");
  return {image.rotation[0], image.rotation[1], image.rotation[2], image.rotation[3]};
}

}  // namespace

std::string FaceParams(int panorama_width) {
  const double half = FaceSide(panorama_width) / 2.0;
  return absl::StrFormat("%g,%g,%g,%g", half, half, half, half);
}

absl::Status WriteRig(const std::map<std::string, PosedPhoto>& poses,
                      const std::vector<Photo>& panoramas,
                      const std::map<std::string, ColmapIds>& ids, const std::string& folder,
                      const std::string& config) {
  ColmapModel model;
  std::map<int, std::map<int, uint32_t>> rigs;  // cameras by lens and face
  for (const Photo& panorama : panoramas) {
    const auto pose = poses.find(panorama.file);
    if (panorama.file.empty() || pose == poses.end()) continue;
    for (int face = 0; face < kPanoramaFaces; ++face) {
      const std::string file = FaceFile(panorama, face);
      const auto known = ids.find(file);
      if (known == ids.end()) return absl::DataLossError(file + ": is not in COLMAP's database");
      const uint32_t camera_id = known->second.camera;
      rigs[panorama.lens][face] = camera_id;
      ColmapCamera& camera = model.cameras[camera_id];
      camera.model = FindColmapCameraModel("PINHOLE");
      camera.width = camera.height = static_cast<uint64_t>(FaceSide(panorama.width));
      camera.params.assign(4, static_cast<double>(camera.width) / 2);
      model.images.push_back(
          ToColmapImage(FacePose(pose->second, face), known->second.image, camera_id, file));
    }
  }
  nlohmann::json json = nlohmann::json::array();
  for (const auto& [lens, cameras] : rigs) {
    nlohmann::json rig{{"ref_camera_id", cameras.at(0)}, {"cameras", nlohmann::json::array()}};
    for (const auto& [face, camera] : cameras) {
      rig["cameras"].push_back({{"camera_id", camera},
                                {"image_prefix", absl::StrCat("l", lens, "f", face, "/")},
                                {"rel_tvec", {0.0, 0.0, 0.0}},
                                {"rel_qvec", TurnFromFirstFace(face)}});
    }
    json.push_back(std::move(rig));
  }
  NERF_RETURN_IF_ERROR(WriteFileAtomically(config, json.dump()));
  return WriteColmapText(folder, model, {});
}

absl::Status WritePanoramas(const std::string& faces, const std::vector<Photo>& panoramas,
                            const std::string& folder) {
  NERF_ASSIGN_OR_RETURN(const PosedModel posed, ReadPosedModel(faces));
  const std::map<std::string, PosedPhoto> poses = PanoramaPoses(posed);
  ColmapModel model;
  std::map<std::string, uint32_t> id_of;
  for (const Photo& panorama : panoramas) {
    const auto pose = poses.find(panorama.file);
    if (panorama.file.empty() || pose == poses.end()) continue;
    const auto id = static_cast<uint32_t>(model.images.size() + 1);
    const auto camera_id = static_cast<uint32_t>(panorama.lens + 1);
    ColmapCamera& camera = model.cameras[camera_id];
    camera.model = FindColmapCameraModel("EQUIRECTANGULAR");
    camera.width = static_cast<uint64_t>(panorama.width);
    camera.height = static_cast<uint64_t>(panorama.height);
    id_of[panorama.file] = id;
    model.images.push_back(ToColmapImage(pose->second, id, camera_id, panorama.file));
  }
  NERF_ASSIGN_OR_RETURN(const ColmapModel read, ReadModelFiles(faces));
  std::map<uint32_t, uint32_t> panorama_of;  // by the face's id
  for (const ColmapImage& image : read.images) {
    const auto known = id_of.find(PanoramaOfFace(image.name));
    if (known != id_of.end()) panorama_of[image.id] = known->second;
  }
  std::vector<ColmapPoint> points = posed.points;
  for (ColmapPoint& point : points) {
    std::vector<uint32_t> images;
    for (const uint32_t face : point.images) {
      const auto known = panorama_of.find(face);
      if (known != panorama_of.end()) images.push_back(known->second);
    }
    std::sort(images.begin(), images.end());
    images.erase(std::unique(images.begin(), images.end()), images.end());
    point.images = std::move(images);
  }
  // Of one panorama alone a point has no depth.
  std::erase_if(points, [](const ColmapPoint& point) { return point.images.size() < 2; });
  return WriteColmapText(folder, model, points);
}

}  // namespace nerf
