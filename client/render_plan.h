#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/scene/camera.h"
#include "nerf/v1/render_service.pb.h"

namespace CLI {
class App;
}

namespace nerf {

// The flags of `render`, as typed.
struct RenderFlags {
  std::string source;  // a model, or JOB/STEP
  std::string model, checkpoint, job;
  std::string camera;
  uint32_t orbit = 0;
  uint32_t width = 0, height = 0;
  std::string channels = "rgb";
  std::string format = "png";
  std::string out;
  bool sheet = false;
};

void AddRenderFlags(CLI::App& render, RenderFlags* flags);

// An image that is rendered of every view.
struct RenderChannelName {
  const char* name;  // as in --channels and in file names
  v1::RenderChannel value;
};

// What the flags ask for.
struct RenderPlan {
  v1::RenderImageRequest request;  // of every view, but for its camera or orbit index
  std::vector<RenderChannelName> channels;
  std::vector<Camera> cameras;  // one per view; empty for an orbit
  size_t n_views = 0;

  bool Has(v1::RenderChannel channel) const;
  // The request of view i.
  v1::RenderImageRequest RequestOf(size_t i) const;
  // Ending of the image files, without the dot.
  const char* ending() const { return request.format() == v1::JPEG ? "jpg" : "png"; }
};

// Checks the flags. Does not read the camera file: ReadCameras does. Errors: InvalidArgument that
// names the flag.
absl::StatusOr<RenderPlan> MakeRenderPlan(const RenderFlags& flags, const std::string& project);

// Fills in the cameras of --camera, a file or a data set's folder. Errors: those of ReadCameraFile;
// InvalidArgument for a file without frames.
absl::Status ReadCameras(const RenderFlags& flags, RenderPlan* plan);

}  // namespace nerf
