#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/flags/render_plan.h"
#include "engine/views/depth_spool.h"
#include "engine/views/video_writer.h"
#include "engine/views/view_comparison.h"

namespace nerf {

// The output folder of `render`: images with the same names as nerf-engine's, depth.json, sheet.png
// and compare.png. Also makes the video. Not thread-safe.
class ViewFolder {
 public:
  // Looks at the folder; WriteView makes a missing one. Errors: InvalidArgument that names --out if
  // it is no folder or cannot be made.
  static absl::StatusOr<ViewFolder> Open(const std::string& path);

  // The images of an earlier render that one of `plan` overwrites, by name.
  std::vector<std::string> ReplacedFiles(const RenderPlan& plan, bool sheet) const;

  // Makes a video whose frames are the color views that are written from here on.
  void AddVideo(VideoWriter video);

  // Writes the images of view `index`. Depth maps are written by Finish, because all share one
  // scale. Errors: Internal when the server sent no image of a channel; those of writing.
  absl::Status WriteView(size_t index, const RenderPlan& plan,
                         const v1::RenderImageResponse& response);
  // Writes the depth maps of all views and the comparison with photographs, where there are any.
  absl::Status Finish();
  // Completes the video, if one was asked for. Errors: those of ffmpeg.
  absl::Status FinishVideo(const std::stop_token& stop);
  // Writes sheet.png from the color views.
  absl::Status WriteSheet();
  // Removes the folder if this object made it and it is empty.
  void RemoveIfEmpty() const;
  // Removes the images that were written, and then the folder if it is empty.
  void RemoveImages();

  // Paths of the files, in the order of writing.
  const std::vector<std::string>& written() const { return written_; }
  // Image files of an earlier render that were not overwritten, by name.
  std::vector<std::string> OlderFiles() const;
  // Distance that a depth of 65535 stands for; 0 without depth.
  double far() const { return far_; }
  // Views beside their photographs.
  const ViewComparison& comparison() const { return comparison_; }

 private:
  explicit ViewFolder(std::string path);
  absl::Status Make();
  // A view's 16-bit gray PNG in which 65535 stands for the distance `far`.
  absl::Status AddDepths(const std::string& name, const std::string& png, double far);
  std::string FileOf(v1::RenderChannel channel, size_t index, const RenderPlan& plan) const;
  // Adds a color view to the video and to the comparison.
  absl::Status UseColors(const std::string& file, const std::string& photograph);

  std::string path_;
  bool made_ = false;
  std::set<std::string> older_;  // names of image files that were there
  std::unique_ptr<DepthSpool> depths_;
  double far_ = 0;  // the largest of all depth maps, which they are then scaled to
  ViewComparison comparison_;
  std::unique_ptr<VideoWriter> video_;
  absl::Status video_status_;
  std::vector<std::string> written_, color_views_;
};

}  // namespace nerf
