#include "server/rpc/convert/view_request.h"

#include <fmt/format.h>

#include "common/error_reason.h"
#include "server/access/method_policy.h"
#include "server/queue/resources/request_check.h"
#include "server/rpc/convert/render_request.h"

namespace nerf {
namespace {

constexpr double kDefaultStreamFps = 15, kMaxStreamFps = 60;
constexpr uint32_t kMaxStreamSide = 4096;      // pixels
constexpr uint64_t kMaxPixels = 2048u * 2048;  // a JPEG of so many fits a message

bool IsFps(double fps) { return fps >= 1 && fps <= kMaxStreamFps; }

void CheckSides(const v1::View& view, RequestCheck& check) {
  const auto require_side = [&](std::string_view field, uint32_t side) {
    check.Require(side >= 1 && side <= kMaxStreamSide, field,
                  fmt::format("must be 1 to {}", kMaxStreamSide));
  };
  require_side("view.width", view.width());
  require_side("view.height", view.height());
  check.Require(uint64_t{view.width()} * view.height() <= kMaxPixels, "view.width",
                fmt::format("width times height must be at most {}", kMaxPixels));
}

void CheckLive(const v1::View& view, RequestCheck& check) {
  CheckSides(view, check);
  check.Require(!view.style().has_panorama(), "view.style.panorama", "is not of live views");
  const absl::Status status = CheckView(FrameRequest({}, view, /*width=*/1, /*height=*/1));
  for (const Problem& problem : GetProblems(status)) {
    if (problem.field == "source") continue;  // not of the view
    const bool is_channel = problem.field == "channels[0]";
    check.Add("view." + (is_channel ? "channel" : problem.field), problem.message);
  }
}

}  // namespace

absl::Status CheckLiveView(const v1::View& view) {
  RequestCheck check;
  CheckLive(view, check);
  return check.Result();
}

absl::Status CheckLiveRequest(const v1::StreamViewsRequest& request) {
  RequestCheck check;
  check.Require(request.source_case() != v1::StreamViewsRequest::SOURCE_NOT_SET, "source",
                "must be one of model, checkpoint and training_job");
  check.Require(request.target_fps() == 0 || IsFps(request.target_fps()), "target_fps",
                fmt::format("must be 1 to {}, or 0 for {}", kMaxStreamFps, kDefaultStreamFps));
  CheckLive(request.view(), check);
  return check.Result();
}

double FramesPerSecond(const v1::StreamViewsRequest& request) {
  return IsFps(request.target_fps()) ? request.target_fps() : kDefaultStreamFps;
}

std::string ProjectOf(const v1::StreamViewsRequest& request) {
  for (const std::string& name : {request.model(), request.checkpoint(), request.training_job()}) {
    if (!name.empty()) return ResourceOf(name).project;
  }
  return "";
}

v1::RenderImageRequest FrameRequest(const v1::StreamViewsRequest& source, const v1::View& view,
                                    uint32_t width, uint32_t height) {
  v1::RenderImageRequest request;
  if (source.has_model()) request.set_model(source.model());
  if (source.has_checkpoint()) request.set_checkpoint(source.checkpoint());
  if (source.has_training_job()) request.set_training_job(source.training_job());
  if (view.has_camera()) *request.mutable_camera() = view.camera();
  if (view.has_orbit()) *request.mutable_orbit() = view.orbit();
  request.set_width(width);
  request.set_height(height);
  if (view.has_style()) *request.mutable_style() = view.style();
  request.add_channels(view.channel() == v1::RENDER_CHANNEL_UNSPECIFIED ? v1::RGB : view.channel());
  request.DiscardUnknownFields();
  return request;
}

}  // namespace nerf
