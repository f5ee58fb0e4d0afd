#pragma once

#include <string>

#include "nerf/internal/engine.pb.h"

namespace nerf {

// Gives up a render or check.
inline internal::WorkerRequest CancelRequest(const std::string& id) {
  internal::WorkerRequest request;
  request.set_id(id);
  request.mutable_cancel();
  return request;
}

}  // namespace nerf
