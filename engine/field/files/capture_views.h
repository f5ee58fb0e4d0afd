#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/scene/camera.h"
#include "engine/scene/scene.h"

namespace nerf {

// A photograph of the data set: its name and its camera.
struct CaptureView {
  std::string file;  // relative to the data set's folder
  Camera camera;     // training frame; its time is 0
  bool operator==(const CaptureView&) const = default;
};

// Files store at most this many, evenly spaced: views are laid near them, which needs no more.
inline constexpr size_t kMaxCaptureViews = 2000;

// Of the box's diagonal: how far two cameras of one photograph may be apart. Poses that are refined
// in training move less.
inline constexpr float kMaxCameraMove = 0.05f;

std::vector<CaptureView> CaptureViewsOf(std::span<const View> views);

// The median width of the views' pixels, as 1 / focal length. 0 without views.
float MedianPixel(const std::vector<CaptureView>& views);

// Adds the keys PREFIX.files, PREFIX.lenses and PREFIX.views; none where there are no views.
void StoreCaptureViews(std::string_view prefix, const std::vector<CaptureView>& views,
                       std::map<std::string, std::string>* metadata);

// Reads them back, bit for bit. A file without them, from before they were stored, has no views.
// Errors: InvalidArgument that names the key.
absl::Status LoadCaptureViews(std::string_view prefix,
                              const std::map<std::string, std::string>& metadata,
                              std::vector<CaptureView>* views);

}  // namespace nerf
