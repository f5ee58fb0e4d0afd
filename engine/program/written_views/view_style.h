#pragma once

#include <string>
#include <string_view>

#include "engine/base/view_style.h"
#include "engine/field/files/checkpoint.h"
#include "engine/program/written_views/view_writer.h"
#include "engine/views/render/renderer.h"

namespace nerf {

// How the model of `state` is rendered in that style, seen by a camera.
RenderOptions OptionsOf(const TrainState& state, const ViewStyle& style,
                        const ViewChannels& channels, const Camera& camera);

// The panorama at the camera's place, turned as it is. Training frame.
// width, height: pixels, 0: not asked. Errors: those of PanoramaSize.
absl::StatusOr<Camera> AsPanorama(const Camera& camera, const SceneFrame& frame,
                                  const Panorama& panorama, int width, int height);

// What the names of a stereo picture end in, by which viewers know its layout: "_TB", "_LR"; else
// empty.
std::string_view StereoSuffix(const ViewStyle& style);

// The packet that is stored with a picture of that size; empty but for panoramas.
std::string XmpOf(const ViewStyle& style, int width, int height);

}  // namespace nerf
