#include "engine/scene/cameras/view_list.h"

#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "engine/scene/cameras/path_frame.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"

namespace nerf {
namespace {

constexpr uint64_t kMaxListBytes = uint64_t{64} << 20;

std::string AsFileName(const std::string& text) {
  std::string name = text;
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7f || c == '/' || c == '\\') c = '_';
  }
  return name;
}

absl::StatusOr<ViewList> ReadListFile(const std::string& path, PictureSize absent_size,
                                      const std::string& dataset, const Vec3d& origin) {
  ViewList list;
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMaxListBytes);
  if (text.ok() && IsCameraPath(*text)) {
    NERF_ASSIGN_OR_RETURN(CameraPathFile file, ParseCameraPath(*text, path, absent_size, origin));
    for (const Camera& camera : file.cameras) list.views.push_back({camera, "", ""});
    list.in_frame_of = file.tool;
    if (!dataset.empty() && file.tool.has_value()) {
      NERF_ASSIGN_OR_RETURN(const SceneFrame frame,
                            FrameOfTool(SourceAt(dataset).Dataset(), *file.tool));
      for (ListedCamera& view : list.views)
        view.camera = AboutOrigin(ToOwnFrame(view.camera, frame), frame.origin, origin);
      list.in_frame_of = std::nullopt;
    }
    list.are_keyframes = file.are_keyframes;
    list.is_loop = file.is_loop;
    list.seconds = file.seconds;
    list.warnings = std::move(file.warnings);
    return list;
  }
  NERF_ASSIGN_OR_RETURN(const std::vector<Camera> cameras,
                        ReadCameraFile(path, absent_size, origin));
  for (const Camera& camera : cameras) list.views.push_back({camera, "", ""});
  return list;
}

}  // namespace

std::vector<std::string> ViewNames(const std::vector<std::string>& photographs) {
  std::map<std::string, int> stems;
  const auto stem_of = [](const std::string& file) {
    return AsFileName(std::filesystem::path(file).stem().string());
  };
  for (const std::string& file : photographs) ++stems[stem_of(file)];
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const std::string& file : photographs) {
    std::string name = stem_of(file);
    if (stems[name] > 1) {
      name = AsFileName(std::filesystem::path(file).replace_extension("").string());
    }
    const std::string wanted = name;
    for (int n = 2; !taken.insert(name).second; ++n) name = absl::StrCat(wanted, "_", n);
    names.push_back(name);
  }
  return names;
}

absl::StatusOr<ViewList> ReadViewList(const std::string& named, PictureSize absent_size,
                                      const std::string& dataset, const SceneReading& reading,
                                      const Vec3d& origin) {
  ViewList list;
  const std::string path = SourceAt(named).Dataset();
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    return ReadListFile(path, absent_size, dataset, origin);
  }
  if (path != named) {
    list.warnings.push_back(
        absl::StrCat(Printable(named), " has no poses; using ", Printable(path)));
  }
  SceneOptions options;
  options.decode_images = false;
  options.follow_links = true;
  options.reading = reading;
  const SceneDescription scene = DescribeScene(path, options);
  if (!scene.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", SummaryOf(scene.problems)));
  }
  std::vector<std::string> files;
  for (const ViewDescription& view : scene.test.empty() ? scene.train : scene.test) {
    const SceneFrame& frame = scene.geometry.frame;
    list.views.push_back({AboutOrigin(ToOwnFrame(view.camera, frame), frame.origin, origin),
                          path + "/" + view.file, ""});
    files.push_back(view.file);
  }
  const std::vector<std::string> names = ViewNames(files);
  for (size_t i = 0; i < names.size(); ++i) list.views[i].name = names[i];
  return list;
}

}  // namespace nerf
