#include "engine/program/serve/request_check.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/problems.h"
#include "engine/base/messages/render_check.h"
#include "engine/base/messages/view_style.h"

namespace nerf {
namespace {

using internal::WorkerRequest;

constexpr uint32_t kMaxRanks = 32;
constexpr double kMinIntervalSeconds = 0.001, kMaxIntervalSeconds = 1e9;

void RequireGiven(const std::string& value, std::string_view field, Problems& problems) {
  problems.Require(!value.empty(), field, "is missing");
}

// A NUL would end it early.
void RequirePath(const std::string& path, std::string_view field, Problems& problems) {
  problems.Require(path.find('\0') == std::string::npos, field, "must not contain NUL");
}

void RequireGivenPath(const std::string& path, std::string_view field, Problems& problems) {
  RequireGiven(path, field, problems);
  RequirePath(path, field, problems);
}

void CheckTrain(const internal::Train& train, Problems& problems) {
  RequireGivenPath(train.dataset(), "train.dataset", problems);
  RequireGivenPath(train.out(), "train.out", problems);
  RequirePath(train.resume(), "train.resume", problems);
  RequirePath(train.init(), "train.init", problems);
  for (const std::string& path : train.merge()) RequireGivenPath(path, "train.merge", problems);
  const auto require_interval = [&](double seconds, std::string_view field) {
    problems.Require(
        seconds == 0 || (seconds >= kMinIntervalSeconds && seconds <= kMaxIntervalSeconds), field,
        "must be 0.001 to 1e9, or 0");
  };
  require_interval(train.checkpoint_interval_seconds(), "train.checkpoint_interval_seconds");
  require_interval(train.preview_interval_seconds(), "train.preview_interval_seconds");
  if (!train.has_ranks()) return;
  const uint32_t n_ranks = train.ranks().count();
  problems.Require(n_ranks >= 2 && n_ranks <= kMaxRanks, "train.ranks.count",
                   fmt::format("must be 2 to {}", kMaxRanks));
  RequirePath(train.ranks().interface(), "train.ranks.interface", problems);
  problems.Require(train.ranks().rank() < n_ranks, "train.ranks.rank", "must be below count");
}

void CheckRender(const WorkerRequest& request, Problems& problems) {
  const internal::Render& render = request.render();
  problems.Require(render.file().empty() != request.job().empty(), "render.file",
                   "one of file and job must be given");
  RequirePath(render.file(), "render.file", problems);
  RequireGivenPath(render.out(), "render.out", problems);
  const v1::RenderImageRequest& view = render.view();
  problems.Require(view.has_camera() != view.has_orbit(), "render.view.camera",
                   "one of camera and orbit must be given");
  if (view.has_orbit()) {
    const uint32_t count = view.orbit().count();
    problems.Require(count >= 1 && count <= INT32_MAX, "render.view.orbit.count",
                     "must be at least 1");
    problems.Require(view.orbit().index() < count, "render.view.orbit.index",
                     "must be below count");
  }
  problems.Require(view.width() <= INT32_MAX, "render.view.width", "is out of range");
  problems.Require(view.height() <= INT32_MAX, "render.view.height", "is out of range");
  problems.Add(ProblemsOfChannels(view.channels(), view.format()), "render.view");
  problems.Require(v1::ImageFormat_IsValid(view.format()), "render.view.format",
                   "must be PNG, JPEG or EXR");
  ReadViewStyle("render.view.style", view.style(), &problems);
  if (render.has_live()) {
    const uint32_t quality = render.live().jpeg_quality();
    problems.Require(quality >= 1 && quality <= 100, "render.live.jpeg_quality",
                     "must be 1 to 100");
    const bool has_rgbaz = std::find(view.channels().begin(), view.channels().end(), v1::RGBAZ) !=
                           view.channels().end();
    problems.Require(!has_rgbaz, "render.view.channels", "a live view is a JPEG, not RGBAZ");
  }
}

}  // namespace

absl::Status CheckRequest(const WorkerRequest& request) {
  Problems problems;
  problems.Require(request.job().size() <= kMaxNameBytes, "job", "is too long");
  problems.Require(request.id().size() <= kMaxNameBytes, "id", "is too long");
  switch (request.request_case()) {
    case WorkerRequest::kTrain:
      RequireGiven(request.job(), "job", problems);
      CheckTrain(request.train(), problems);
      break;
    case WorkerRequest::kRankTexts:
    case WorkerRequest::kStop:
      RequireGiven(request.job(), "job", problems);
      break;
    case WorkerRequest::kRender:
      RequireGiven(request.id(), "id", problems);
      CheckRender(request, problems);
      break;
    case WorkerRequest::kCheck:
      RequireGiven(request.id(), "id", problems);
      RequireGivenPath(request.check().dataset(), "check.dataset", problems);
      RequirePath(request.check().out(), "check.out", problems);
      problems.Require(request.check().test_every() <= INT32_MAX, "check.test_every",
                       "is out of range");
      break;
    case WorkerRequest::kCancel:
      RequireGiven(request.id(), "id", problems);
      break;
    case WorkerRequest::REQUEST_NOT_SET:
      problems.Require(false, "request", "is missing, or of a kind that is not known");
  }
  return problems.Result();
}

}  // namespace nerf
