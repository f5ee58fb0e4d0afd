#include "engine/program/written_views/view_style.h"

#include "common/status_macros.h"
#include "engine/base/config/view_style_check.h"
#include "engine/scene/own_box.h"
#include "engine/scene/panorama.h"

namespace nerf {

RenderOptions OptionsOf(const TrainState& state, const ViewStyle& style,
                        const ViewChannels& channels, const Camera& camera) {
  RenderOptions options;
  options.background = style.background.value_or(BackgroundColor(state.evaluation_background));
  options.own_background = !style.background.has_value();
  options.straight_alpha = channels.HasAlpha();
  if (style.crop.has_value()) options.crop = ToTrainingFrame(*style.crop, state.geometry.frame);
  options.min_transmittance = MinTransmittance(state.config);
  options.rays_per_pixel =
      RaysOfPixel(RaysPerPixel(state.config), MedianPixel(state.capture), camera);
  return options;
}

absl::StatusOr<Camera> AsPanorama(const Camera& camera, const SceneFrame& frame,
                                  const Panorama& panorama, int width, int height) {
  NERF_ASSIGN_OR_RETURN(const ViewSize size, PanoramaSize(panorama.stereo, {width, height}));
  return PanoramaAt(camera, static_cast<int>(size.width), static_cast<int>(size.height), panorama,
                    static_cast<float>(panorama.eye_distance * frame.scale));
}

std::string_view StereoSuffix(const ViewStyle& style) {
  if (!style.panorama.has_value()) return "";
  switch (style.panorama->stereo) {
    case StereoLayout::kTopBottom:
      return "_TB";
    case StereoLayout::kLeftRight:
      return "_LR";
    case StereoLayout::kMono:
      break;
  }
  return "";
}

std::string XmpOf(const ViewStyle& style, int width, int height) {
  return style.panorama.has_value() ? PanoramaXmp(width, height) : "";
}

}  // namespace nerf
