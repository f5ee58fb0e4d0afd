#include "client/calls/render_wait.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <string_view>
#include <vector>

#include "client/calls/job_calls.h"
#include "client/calls/rendered_training.h"
#include "client/calls/session.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_printers.h"
#include "client/kinds/training_words.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"

namespace nerf {
namespace {

// A view of an untrained model takes minutes. From here on the display shows how long it has taken.
constexpr absl::Duration kLongView = absl::Seconds(5);
constexpr std::string_view kBetweenSteps = "views are rendered between its steps";

std::string ReasonOfJob(const v1::Job& job) {
  const std::string id = ShortName(job.name()), worker = WorkersText(job);
  if (job.state() == v1::Job::PREPARING) {
    return fmt::format("waiting for worker {}, which prepares the training of {}", worker, id);
  }
  if (job.state() != v1::Job::RUNNING) return "";
  if (job.training_status().progress().evaluation_views() > 0) {
    return fmt::format("waiting for worker {}, which evaluates the test views of {}", worker, id);
  }
  return fmt::format("waiting for worker {}, which trains {}; {}", worker, id, kBetweenSteps);
}

// Any worker may render; the server asks an idle one first.
std::string ReasonOfWorkers(const std::vector<v1::Worker>& workers) {
  std::vector<std::string> busy;
  for (const v1::Worker& worker : workers) {
    const std::string id = ShortName(worker.name());
    if (worker.state() == v1::Worker::IDLE) {
      return fmt::format("waiting for worker {}, which loads the model and renders", id);
    }
    if (worker.state() != v1::Worker::BUSY) continue;
    const std::string job = ShortName(worker.job());
    busy.push_back(job.empty() ? id : fmt::format("{}, which trains {}", id, job));
  }
  if (busy.empty()) return "waiting for a worker";
  if (busy.size() == 1) return fmt::format("waiting for worker {}; {}", busy[0], kBetweenSteps);
  return fmt::format("waiting for one of {} busy workers; {}", busy.size(), kBetweenSteps);
}

}  // namespace

std::string RenderWait::Reason(const v1::RenderImageRequest& request) {
  if (!request.training_job().empty()) {
    const auto job = GetJob(session_, request.training_job(), kMaxQuestion);
    if (!job.ok()) return "";
    if (std::string reason = ReasonOfJob(*job); !reason.empty()) return reason;
  }
  const auto stub = session_.Stub<v1::AdminService>();
  const auto page = session_.Call(*stub, &v1::AdminService::Stub::ListWorkers,
                                  v1::ListWorkersRequest(), kMaxQuestion);
  // The tokens of some projects may not list workers.
  if (absl::IsPermissionDenied(page.status())) return "waiting for a worker";
  if (!page.ok()) return "";
  return ReasonOfWorkers({page->workers().begin(), page->workers().end()});
}

absl::StatusOr<v1::RenderImageResponse> RenderWait::During(
    const v1::RenderImageRequest& request, const ProgressLine& line,
    const std::function<absl::StatusOr<v1::RenderImageResponse>()>& render) {
  if (session_.flags().progress == ProgressMode::kNone) return render();
  auto response = std::async(std::launch::async, render);
  // Capped: the clock overflows on infinite durations.
  const auto delay =
      absl::ToChronoMilliseconds(std::min(session_.io().notice_delay, absl::Hours(24)));
  const SteadyTime begin = session_.io().clock->Now();
  while (response.wait_for(delay) != std::future_status::ready) {
    const std::string reason = Reason(request);
    if (!reason.empty() && reason != said_) display_.Say(reason);
    if (!reason.empty()) said_ = reason;
    const absl::Duration taken = session_.io().clock->Now() - begin;
    if (taken < kLongView) continue;
    if (!slowness_.has_value()) {
      const auto job = TrainingOf(session_, request);
      slowness_ = job.ok() ? SlownessOf(*job, absl::InfiniteDuration()) : "";
      if (!slowness_->empty()) display_.Say(*slowness_);
    }
    ProgressLine shown = line;
    shown.details = "this view: " + FormatClock(absl::ToDoubleSeconds(taken));
    display_.Update(shown);
  }
  return response.get();
}

}  // namespace nerf
