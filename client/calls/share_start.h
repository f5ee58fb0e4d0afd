#pragma once

#include <span>
#include <string>

#include "client/calls/session.h"
#include "nerf/v1/model_service.pb.h"

namespace nerf {

// Sets where the link's viewer starts, as the page does for the model itself (homeOf in
// web/src/lib/orbit.ts): above a corner of a scene that the photographs surround, else with the
// camera in the middle of all, since no photograph shows the other sides. Without cameras it sets
// nothing.
void SetStart(std::span<const v1::Camera> cameras, v1::Share* share);

// The same with the cameras of the scene that the model was trained on. Sets nothing where they
// cannot be read: the job or scene is deleted, or no worker is there.
void FindStart(Session& session, const std::string& model, v1::Share* share);

}  // namespace nerf
