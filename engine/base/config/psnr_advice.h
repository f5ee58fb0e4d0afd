#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nerf {

// What is known of a training that has ended, or of a model whose views were compared with
// photographs. 0 means unknown.
struct TrainedQuality {
  double psnr = 0;        // dB, of the test views or those compared
  double psnr_train = 0;  // dB, of the last training rays
  double samples = 0;     // trained
  size_t n_train_views = 0;
  std::string check_command = {};  // that lists the warnings about the data set
  std::string psnr_name = "test PSNR";
  double focal_ratio = 0;               // focal lengths of the views by those of the training
  size_t n_far_views = 0, n_views = 0;  // compared; those far from all training views
};

// The likely reasons of a low PSNR, for people, one a line, under a line that says so. Empty for a
// PSNR of kLowPsnr or more, or NaN.
std::vector<std::string> LowPsnrAdvice(const TrainedQuality& trained);

// In dB. Photographs of scenes that were posed and trained well are above it.
inline constexpr double kLowPsnr = 22;

}  // namespace nerf
