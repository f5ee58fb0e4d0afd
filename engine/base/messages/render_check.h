#pragma once

#include <cstdint>
#include <string_view>

#include "common/problems.h"
#include "nerf/v1/render_job.pb.h"
#include "nerf/v1/render_service.pb.h"

namespace nerf {

// What is wrong with requests to render, by field, the same for server, nerfctl and nerf-engine.

// With all of a view but its source.
Problems ProblemsOf(const v1::RenderImageRequest& request);
// With all of a job but its source.
Problems ProblemsOf(const v1::RenderSpec& spec);
Problems ProblemsOf(const v1::Camera& camera);
Problems ProblemsOf(const v1::CameraPath& path);
// With the images that are asked for of a view in that format.
Problems ProblemsOfChannels(const google::protobuf::RepeatedField<int>& channels,
                            v1::ImageFormat format);
// With pictures of that many pixels.
Problems ProblemsOfSize(uint32_t width, uint32_t height);

// With every default filled in, and nothing that is not known. Requires: no problems.
v1::RenderSpec WithDefaults(v1::RenderSpec spec);

}  // namespace nerf
