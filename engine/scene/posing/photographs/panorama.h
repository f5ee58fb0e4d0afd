#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/pictures/image.h"
#include "engine/scene/posing/photographs/colmap_database.h"
#include "engine/scene/posing/photographs/photo_measures.h"
#include "engine/scene/posing/photographs/photographs.h"
#include "engine/scene/posing/photographs/posed_model.h"

// Panoramas of all directions (EQUIRECTANGULAR), cut into pinhole views for COLMAP, which has no
// such lens. A panorama's axes are COLMAP's: right, down, forward to its middle.
namespace nerf {

// Views of 90 degrees, one every 45 degrees around, tilted up and down in turn: what one shows at
// its border, where it is stretched, another shows near its middle.
inline constexpr int kPanoramaFaces = 8;

using Matrix3 = std::array<std::array<double, 3>, 3>;

// A face's axes right, down, forward in those of its panorama, as rows.
Matrix3 FaceAxes(int face);
// Pixels of a face's side: as fine in its middle as the panorama.
int FaceSide(int panorama_width);
// The direction of a face's image position, in axes of the panorama. Unit length.
std::array<double, 3> FaceDirection(int face, int side, double x, double y);
// Where the panorama shows a direction: longitude from side to side, latitude from top to bottom.
std::array<double, 2> PanoramaPosition(int width, int height, const std::array<double, 3>& toward);

// The face as a pinhole camera with its principal point in the middle shows it, bilinear.
ImageU8 CutFace(const ImageU8& panorama, int face);

// Whether a picture that is twice as wide as high closes around: its left border continues its
// right one, and its first and last row each show a single point.
bool ClosesAround(const GrayImage& gray);
// Whether the file's XMP metadata call it an equirectangular panorama (GPano).
bool SaysEquirectangular(std::string_view file);

// How a search takes its photographs.
enum class CameraKind { kAuto, kPerspective, kEquirectangular };
// Whether they are panoramas: as `kind` says, or as most of those that can be read.
bool ArePanoramas(const std::vector<Photo>& photos, CameraKind kind);
// Those among panoramas that are none, since they are not twice as wide as high, get an error.
// Returns their files, which are left out.
std::vector<std::string> LeaveOutOthers(std::vector<Photo>* photos);

// The file of a face of a panorama, and back: "l0f3/a.jpg.jpg" and "a.jpg". Faces of each lens have
// folders of their own, which rigs are known by.
std::string FaceFile(const Photo& panorama, int face);
std::string PanoramaOfFace(std::string_view face_file);

// Cuts the panoramas of `images` that are used into `faces`, a new folder; the result has a Photo
// for each face, with a lens of its own for each lens and face. Masks of `masks`, as COLMAP names
// them, are cut into `face_masks`; empty: none are.
struct CutOptions {
  std::string images, faces, masks = {}, face_masks = {};
};
absl::StatusOr<std::vector<Photo>> CutPanoramas(const std::vector<Photo>& panoramas,
                                                const CutOptions& options,
                                                const PrepareOptions& prepare);

// Black where a panorama shows what lies more than `below` degrees under its horizon: the
// photographer and the tripod. Gray, 1 channel.
ImageU8 PanoramaMask(int width, int height, double below);
// Adds it to the panorama's mask in the folder `masks`, or makes one.
absl::Status MaskPole(const Photo& panorama, double below, const std::string& masks);

// All pairs of faces of different panoramas, of the result of CutPanoramas. Those of one panorama
// have no parallax.
std::vector<ColmapPair> PairsOfFaces(const std::vector<Photo>& faces);

// What COLMAP found of the faces, as of their panoramas.
ColmapDatabase JoinFaces(const ColmapDatabase& faces);
// The names of the panoramas of which `faces` has any; each once.
std::vector<std::string> JoinFaces(const std::vector<std::string>& faces);

// The panorama's pose that most of its faces agree on: the mean of those within 2 degrees and
// `tolerance` of one, weighted by the points that they show. The poses of the others are outliers.
// Requires: faces, each with its number.
PosedPhoto PanoramaPose(const std::vector<std::pair<int, PosedPhoto>>& faces, double tolerance);
// The poses of all panoramas of a model of faces, by their names.
std::map<std::string, PosedPhoto> PanoramaPoses(const PosedModel& faces);

// The pose of a face of a panorama.
PosedPhoto FacePose(const PosedPhoto& panorama, int face);

}  // namespace nerf
