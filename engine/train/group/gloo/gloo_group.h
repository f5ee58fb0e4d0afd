#pragma once

#include <memory>

#include "engine/train/group/gloo_options.h"
#include "engine/train/group/group.h"
#include "engine/train/group/rendezvous.h"

namespace nerf {

// A group over TCP by Gloo. Its sockets are exchanged through the rendezvous. A rank that dies is
// noticed within milliseconds, one that stands still after options.time_limit. Throws GroupError.
std::unique_ptr<Group> NewGlooGroup(Rendezvous* rendezvous, const GlooOptions& options);

}  // namespace nerf
