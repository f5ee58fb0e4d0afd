#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/image.h"

// Masks say how much each pixel of a photograph counts in training and evaluation: white fully,
// black not at all.
namespace nerf {

// The mask of picture images/NAME.EXT, relative to the folder: masks/NAME.EXT.png, as COLMAP calls
// it, else masks/NAME.png, else the same in JPEG; of images_4/NAME.EXT in masks_4/ before masks/.
// Empty if there is none.
std::string FindMask(const SceneFolder& folder, std::string_view image_file);

// What is wrong with a mask that FindMask finds for two pictures of one folder, whose names differ
// by their endings.
std::string SharedMaskText(std::string_view first, std::string_view second);

// A mask that was found, relative to the folder; empty: none.
struct FoundMask {
  std::string file;
  bool is_inverted = false;  // its white is left out
};

// Finds masks for pictures whose data set names none.
class FolderMasks {
 public:
  // Both are borrowed.
  FolderMasks(const SceneFolder& folder, Problems* problems)
      : folder_(folder), problems_(*problems) {}

  // As FindMask, else dynamic_mask_NAME.png beside the picture, instant-ngp's, whose white is left
  // out. Reports a mask that two pictures of one folder would have.
  FoundMask Find(const std::string& image_file);

 private:
  const SceneFolder& folder_;
  Problems& problems_;
  std::map<std::pair<std::string, std::string>, std::string> owners_;  // by mask and folder
};

// Puts the mask, scaled to the picture's size, into its alpha; one that holds 0 and 1 alone as 0
// and 255. is_inverted: black counts in place of white. Errors: InvalidArgument if their aspect
// ratios differ, or if the picture has alpha.
absl::Status ApplyMask(const ImageU8& mask, ImageU8* image, bool is_inverted = false);

// Whether the mask's largest value is 1, so that it holds truth values.
bool HoldsTruthValues(const ImageU8& mask);

// What masks leave of a training picture.
struct MaskUse {
  double kept = 0;         // pixels, each by how much it counts
  double n_pixels = 0;     // 0: the picture was not read
  bool is_masked = false;  // it has a mask, or alpha that is one
  bool is_truth = false;   // HoldsTruthValues
};

// Of a picture with its mask in its alpha.
MaskUse UseOf(const ImageU8& image);

// Says in *warnings how much masks leave of all pictures together; below 1% in *problems, with the
// likely cause. first_mask: a file to name. are_inverted: black is what counts. Nothing is said
// without masks.
void JudgeMasks(const std::vector<MaskUse>& pictures, const std::string& first_mask,
                bool are_inverted, std::vector<std::string>* warnings, Problems* problems);

}  // namespace nerf
