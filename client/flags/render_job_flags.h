#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "engine/base/config/view_style_check.h"
#include "nerf/v1/job_service.pb.h"

namespace CLI {
class App;
}

namespace nerf {

// What `job render` is asked for.
struct RenderJobFlags {
  std::string model, job;  // one of them; `job` also as JOB/STEP
  std::string path = "auto", keyframes;
  unsigned frames = 120;
  unsigned width = 0, height = 0;  // both 0: 640 x 480, or a panorama's default
  double fps = 30;
  std::string channels = "rgb", format = "png";
  StyleFlags style;
  std::string name, id;
  bool loop = false, no_movie = false, images = false;
};

void AddRenderJobFlags(CLI::App& command, RenderJobFlags* flags);

// The request, with keyframes read from their file. Errors: InvalidArgument; those of the file.
absl::StatusOr<v1::CreateJobRequest> BuildRenderJobRequest(const RenderJobFlags& flags,
                                                           const std::string& project,
                                                           RandomSource& random);

// The keyframes of a text {"keyframes": [{"transform_matrix": [[4 numbers] x 4], "fov": degrees}]}.
// InvalidArgument that names what is wrong.
absl::StatusOr<v1::KeyframePath> ParseKeyframes(const std::string& text);
// The same of the file of --keyframes. InvalidArgument that names the flag; those of the file.
absl::StatusOr<v1::KeyframePath> ReadKeyframes(const std::string& file);

}  // namespace nerf
