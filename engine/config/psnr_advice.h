#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nerf {

// What is known of a training that has ended. 0 means unknown.
struct TrainedQuality {
  double psnr = 0;        // dB, of the test views
  double psnr_train = 0;  // dB, of the last training rays
  double samples = 0;     // trained
  size_t n_train_views = 0;
  std::string check_command = {};  // that lists the warnings about the data set
};

// The likely reasons of a low PSNR, for people, one a line, under a line that says so. Empty for a
// PSNR of kLowPsnr or more.
std::vector<std::string> LowPsnrAdvice(const TrainedQuality& trained);

// In dB. Photographs of scenes that were posed and trained well are above it.
inline constexpr double kLowPsnr = 22;

}  // namespace nerf
