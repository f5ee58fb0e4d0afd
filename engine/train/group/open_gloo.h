#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/train/group/gloo_options.h"
#include "engine/train/group/group.h"
#include "engine/train/group/rendezvous.h"

namespace nerf {

// The group of NewGlooGroup (gloo/gloo_group.h), from libnerf_gloo.so, which is opened here: ../lib
// relative to the folder of this program. Errors: Unimplemented FEATURE_NOT_BUILT where there is no
// such library; Unavailable where the ranks do not find each other.
absl::StatusOr<std::unique_ptr<Group>> OpenGlooGroup(Rendezvous* rendezvous,
                                                     const GlooOptions& options);

}  // namespace nerf
