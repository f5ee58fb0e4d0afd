#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/process/child_process.h"
#include "engine/base/view_style.h"
#include "engine/scene/pictures/image.h"

namespace nerf {

// What a video holds.
struct VideoContent {
  bool alpha = false;                         // frames are RGBA with straight alpha, else RGB
  std::optional<StereoLayout> panorama = {};  // they show all directions, and it says so
};

// InvalidArgument for a path that does not end in .mp4, .mov or .mkv; with alpha .webm (VP9) or
// .mov (ProRes 4444); of a panorama .mp4 or .mov.
absl::Status CheckVideoPath(const std::string& path, const VideoContent& content = {});

// A video that ffmpeg makes of frames that are piped to it. The file appears whole at Finish or not
// at all. Not thread-safe.
class VideoWriter {
 public:
  // Errors: Unimplemented FEATURE_NOT_BUILT where `ffmpeg` (a path or a name) is not installed or
  // has no encoder that is known; those of CheckVideoPath.
  static absl::StatusOr<VideoWriter> Open(const std::string& ffmpeg, const std::string& path,
                                          double frames_per_second,
                                          const VideoContent& content = {});
  ~VideoWriter();
  VideoWriter(VideoWriter&& other) noexcept;

  // One more frame: RGB or RGBA, of the size of the first one. Errors: InvalidArgument for another
  // size; what ffmpeg fails with.
  absl::Status Add(const ImageU8& frame, const std::stop_token& stop);
  absl::Status Finish(const std::stop_token& stop);

 private:
  VideoWriter(std::string ffmpeg, std::string encoder, std::string path, double frames_per_second,
              const VideoContent& content);
  std::vector<std::string> Arguments() const;

  std::string ffmpeg_, encoder_, path_, partial_path_;  // partial_path_ empty: nothing to remove
  double frames_per_second_;
  VideoContent content_;
  int width_ = 0, height_ = 0;
  std::unique_ptr<ChildProcess> process_;  // from the first frame on
};

}  // namespace nerf
