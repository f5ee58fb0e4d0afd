#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/parallel_for.h"
#include "engine/scene/pictures/image.h"
#include "engine/scene/scene_description.h"

namespace nerf {

// Where LoadScene puts the training pictures in place of View::image (SceneOptions::train_sink).
class PictureSink {
 public:
  virtual ~PictureSink() = default;

  // Before any picture. False: the sink has all of them already, and none is decoded.
  virtual absl::StatusOr<bool> Begin(const std::vector<ViewDescription>& views,
                                     ThreadPool* pool) = 0;
  // Takes the decoded and reduced picture of views[view]. Thread-safe; each view once. An error
  // ends the reading.
  virtual absl::Status Take(size_t view, const ImageU8& image) = 0;
};

}  // namespace nerf
