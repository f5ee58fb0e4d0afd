#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/messages/view_flags.h"
#include "engine/scene/cameras/view_list.h"
#include "engine/views/video_writer.h"
#include "nerf/v1/render_service.pb.h"

namespace CLI {
class App;
}

namespace nerf {

// The flags of `render`, as typed.
struct RenderFlags : ViewFlags {
  std::string source;  // a model, or JOB/STEP
  std::string model, checkpoint, job;
};

void AddRenderFlags(CLI::App& render, RenderFlags* flags);

// What the flags ask for.
struct RenderPlan {
  v1::RenderImageRequest request;  // of every view, but for its camera or place on the path
  std::vector<v1::RenderChannel> channels;
  std::vector<ListedCamera> views;  // of --camera; empty for a path
  Vec3d origin = {0, 0, 0};         // that their positions are relative to
  size_t n_views = 0;
  std::vector<std::string> warnings;  // of what the camera file holds and views cannot show
  PictureSize reduced_from;           // size of the first camera that is reduced; 0: none is

  bool Has(v1::RenderChannel channel) const;
  bool HasColor() const { return nerf::HasColor(channels); }
  // The request of view i.
  v1::RenderImageRequest RequestOf(size_t i) const;
  // What the names of view i's files end in: its number, or the name of its photograph.
  std::string NameOf(size_t i) const;
  // The photograph that view i is compared with; empty without one.
  std::string PhotographOf(size_t i) const;
  VideoContent VideoContentOf() const;
  // Ending of the image files, without the dot.
  const char* ending() const;
  bool is_exr() const { return request.format() == v1::EXR; }
};

// Checks the flags. Does not read the camera file: ReadCameras does. Errors: InvalidArgument that
// lists every wrong flag.
absl::StatusOr<RenderPlan> MakeRenderPlan(const RenderFlags& flags, const std::string& project);

// Fills in the views of --camera, a file or a data set's folder. Without --width and --height those
// of more than kMaxDefaultViewPixels are reduced, unless --full-size is given. Errors: those of
// ReadViewList; InvalidArgument for a file without frames.
absl::Status ReadCameras(const RenderFlags& flags, RenderPlan* plan);

}  // namespace nerf
