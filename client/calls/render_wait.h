#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/show/progress_display.h"
#include "nerf/v1/render_service.pb.h"

namespace nerf {

class Session;

// Says what the views of a command wait for: first when one has taken io.notice_delay, then when
// the reason changes.
class RenderWait {
 public:
  // Both outlive this. The session has connected.
  RenderWait(Session& session, ProgressDisplay& display) : session_(session), display_(display) {}

  // Returns what `render` does, which runs on another thread. `request` is what it asks for;
  // `line`, the progress so far, shows how long a view takes.
  absl::StatusOr<v1::RenderImageResponse> During(
      const v1::RenderImageRequest& request, const ProgressLine& line,
      const std::function<absl::StatusOr<v1::RenderImageResponse>()>& render);

 private:
  // "waiting for worker w-1, which trains j-1". Asks the server.
  std::string Reason(const v1::RenderImageRequest& request);

  Session& session_;
  ProgressDisplay& display_;
  std::string said_;
  // Why views of the model's job are slow, once asked; empty where they are not, or not known.
  std::optional<std::string> slowness_;
};

}  // namespace nerf
