#pragma once

#include <string>

#include "nerf/internal/engine.pb.h"

namespace nerf {

// Requests as a worker writes them.

inline internal::WorkerRequest StopMessage(const std::string& job, bool checkpoint = false) {
  internal::WorkerRequest request;
  request.set_job(job);
  request.mutable_stop()->set_checkpoint(checkpoint);
  return request;
}

inline internal::WorkerRequest CancelMessage(const std::string& id) {
  internal::WorkerRequest request;
  request.set_id(id);
  request.mutable_cancel();
  return request;
}

inline internal::WorkerRequest CheckMessage(const std::string& id, const std::string& dataset) {
  internal::WorkerRequest request;
  request.set_id(id);
  request.mutable_check()->set_dataset(dataset);
  return request;
}

// A render and a training that pass CheckRequest; what they name does not exist.
inline internal::WorkerRequest ValidRender(const std::string& id) {
  internal::WorkerRequest request;
  request.set_id(id);
  request.mutable_render()->set_file("f");
  request.mutable_render()->set_out("o");
  request.mutable_render()->mutable_view()->mutable_orbit()->set_count(1);
  return request;
}

inline internal::WorkerRequest ValidTrain(const std::string& job) {
  internal::WorkerRequest request;
  request.set_job(job);
  request.mutable_train()->set_dataset("d");
  request.mutable_train()->set_out("o");
  return request;
}

}  // namespace nerf
