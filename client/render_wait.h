#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "nerf/v1/render_service.pb.h"

namespace nerf {

class ProgressDisplay;
class Session;

// Says what the views of a command wait for: first when one has taken io.notice_delay, then when
// the reason changes.
class RenderWait {
 public:
  // Both outlive this. The session has connected.
  RenderWait(Session& session, ProgressDisplay& display) : session_(session), display_(display) {}

  // Returns what `render` does, which runs on another thread. `request` is what it asks for.
  absl::StatusOr<v1::RenderImageResponse> During(
      const v1::RenderImageRequest& request,
      const std::function<absl::StatusOr<v1::RenderImageResponse>()>& render);

 private:
  // "waiting for worker w-1, which trains j-1". Asks the server.
  std::string Reason(const v1::RenderImageRequest& request);

  Session& session_;
  ProgressDisplay& display_;
  std::string said_;
};

}  // namespace nerf
