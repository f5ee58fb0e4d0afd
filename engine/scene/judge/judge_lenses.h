#pragma once

#include <map>
#include <set>
#include <string>

#include "engine/scene/camera.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/judge/verdict.h"
#include "engine/scene/listed_views.h"
#include "engine/scene/pictures/image_io.h"

namespace nerf {

// Compares intrinsics with the pictures that they are for: turned sides, a center or a field of
// view of another convention, distortions that cannot be undone. The same fault of several views is
// said once, with their number.
class LensJudge {
 public:
  // Both are borrowed.
  LensJudge(const SceneFolder& folder, Verdicts* verdicts)
      : folder_(folder), verdicts_(*verdicts) {}

  // Whether the picture lies on its side, so that there is no camera for it. is_upright: its EXIF
  // orientation was applied.
  bool IsTurned(const ListedView& view, const ImageHeader& header, bool is_upright);
  // Of a picture that is not turned.
  void Add(const ListedView& view, const Camera& camera);
  // Says what was found. Call once, after all views.
  void Say();

 private:
  // One fault: the first view that has it, and how many do.
  struct Fault {
    Verdict first;
    int n_views = 0;
  };
  void Found(const std::string& kind, Verdict verdict);

  const SceneFolder& folder_;
  Verdicts& verdicts_;
  std::map<std::string, Fault> faults_;  // by kind
  std::string first_by_exif_, first_by_hand_, shape_;
  std::string list_file_, size_field_;
  int n_by_exif_ = 0, n_by_flag_ = 0, n_by_hand_ = 0;
};

}  // namespace nerf
