#include "engine/scene/panorama.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_format.h"

namespace nerf {
Mat34 LevelledPose(const Mat34& pose, Vec3 up) {
  up = Normalized(up);
  const Vec3 backward = pose.Column(2);
  Vec3 level = backward - up * Dot(backward, up);
  if (Norm(level) < 1e-3f) {
    // It looks straight down, and the picture's top is in front; or up, and its top is behind.
    level = pose.Column(1) * (Dot(backward, up) > 0 ? -1.0f : 1.0f);
    level = level - up * Dot(level, up);
  }
  level = Normalized(level);
  const Vec3 right = Cross(up, level);
  Mat34 turned = pose;
  for (int row = 0; row < 3; ++row) {
    turned.m[row][0] = right[row];
    turned.m[row][1] = up[row];
    turned.m[row][2] = level[row];
  }
  return turned;
}

Camera EquirectangularCamera(int width, int height, StereoLayout stereo) {
  constexpr float kPi = std::numbers::pi_v<float>;
  const int eye_width = stereo == StereoLayout::kLeftRight ? width / 2 : width;
  const int eye_height = stereo == StereoLayout::kTopBottom ? height / 2 : height;
  Camera camera;
  camera.lens = LensModel::kEquirectangular;
  camera.width = width;
  camera.height = height;
  camera.fl_x = static_cast<float>(eye_width) / (2 * kPi);
  camera.fl_y = static_cast<float>(eye_height) / kPi;
  camera.cx = 0.5f * static_cast<float>(eye_width);
  camera.cy = 0.5f * static_cast<float>(eye_height);
  return camera;
}

Camera PanoramaAt(const Camera& camera, int width, int height, const Panorama& panorama,
                  float eye_distance) {
  Camera all_around = EquirectangularCamera(width, height, panorama.stereo);
  all_around.camera_to_world = camera.camera_to_world;
  all_around.time = camera.time;
  all_around.eye_distance = eye_distance;
  return all_around;
}

std::string PanoramaXmp(int width, int height) {
  constexpr char kPacket[] =
      "<?xpacket begin=\"\xEF\xBB\xBF\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>"
      "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\">"
      "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">"
      "<rdf:Description rdf:about=\"\" xmlns:GPano=\"http://ns.google.com/photos/1.0/panorama/\" "
      "GPano:ProjectionType=\"equirectangular\" GPano:UsePanoramaViewer=\"True\" "
      "GPano:FullPanoWidthPixels=\"%1$d\" GPano:FullPanoHeightPixels=\"%2$d\" "
      "GPano:CroppedAreaImageWidthPixels=\"%1$d\" GPano:CroppedAreaImageHeightPixels=\"%2$d\" "
      "GPano:CroppedAreaLeftPixels=\"0\" GPano:CroppedAreaTopPixels=\"0\"/>"
      "</rdf:RDF></x:xmpmeta><?xpacket end=\"w\"?>";
  return absl::StrFormat(kPacket, width, height);
}

}  // namespace nerf
