#include "worker/runs/part_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/messages/blob_ref.h"
#include "common/messages/rpc_status.h"
#include "common/status_macros.h"
#include "worker/files/scene_folder.h"

namespace nerf {

PartRun::PartRun(PartRunOptions options, JobContext context, v1::DesiredJob grant,
                 std::string folder)
    : options_(options),
      context_(std::move(context)),
      grant_(std::move(grant)),
      folder_(std::move(folder)),
      key_(fmt::format("{}@{}", grant_.job(), grant_.lease_epoch())),
      next_try_(context_.clock.Now()),
      retry_(options_.retry) {
  report_.set_job(grant_.job());
  report_.set_lease_epoch(grant_.lease_epoch());
  report_.set_part(grant_.part());
  report_.set_phase(v1::JobReport::PREPARING);
}

PartRun::~PartRun() {
  stop_.request_stop();
  context_.tasks.Run(
      Lane::kFetch,
      [folder = folder_] {
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
      },
      [] {});
}

void PartRun::InBackground(Lane lane, std::function<CallResult()> work,
                           std::function<void(const CallResult&)> done) {
  auto result = std::make_shared<CallResult>();
  context_.tasks.Run(
      lane, [result, work = std::move(work)] { *result = work(); },
      [self = weak_from_this(), result, done = std::move(done)] {
        const auto run = self.lock();
        if (run != nullptr && !run->ending()) done(*result);
      });
}

std::optional<absl::Duration> PartRun::PauseAfter(const CallResult& failure) {
  if (failure.reason == reason::kLeaseFenced || failure.code == absl::StatusCode::kNotFound) {
    LogWarning("the lease is lost, abandoning the job",
               {{"job", name()}, {"part", grant_.part()}, {"error", failure.message}});
    Abandon();
    return std::nullopt;
  }
  // Not tried again here, where others wait for the worker.
  if (failure.reason == reason::kWorkerExhausted) {
    ReleaseWithoutRoom(ToStatus(failure));
    return std::nullopt;
  }
  if (const auto pause = retry_.After(failure); pause.has_value()) {
    LogWarning("a job cannot go on, trying again",
               {{"job", name()}, {"part", grant_.part()}, {"error", failure.message}});
    return pause;
  }
  Fail(ToStatus(failure));
  return std::nullopt;
}

void PartRun::Finish(v1::JobReport::Phase phase) {
  if (ending()) return;
  final_phase_ = phase;
  Stop();
}

void PartRun::Stop() {
  if (!ending()) {
    stage_ = Stage::kStopping;
    stop_.request_stop();
    StopEngine();
  }
  OnEngineFree();
}

void PartRun::OnEngineFree() {
  if (!ending() || in_engine()) return;
  if (abandoned_) {
    stage_ = Stage::kGone;
  } else if (stage_ == Stage::kStopping) {
    stage_ = Stage::kFinal;
    report_.set_phase(final_phase_);
    LogInfo("job ended here", {{"job", name()},
                               {"part", grant_.part()},
                               {"phase", v1::JobReport::Phase_Name(final_phase_)}});
    context_.report_changed();
  }
}

void PartRun::Fail(const absl::Status& error) {
  *report_.mutable_error() = ToRpcStatus(WithoutFolder(error, folder_));
  Finish(v1::JobReport::FAILED);
}

void PartRun::FinishCrashed(const std::string& how, bool shared_engine) {
  if (ending()) return;
  report_.set_shared_engine(shared_engine);
  *report_.mutable_error() = ToRpcStatus(WithReason(
      absl::UnavailableError(WithoutPaths(WithoutFolder(how, folder_))), reason::kEngineCrashed));
  Finish(v1::JobReport::ENGINE_CRASHED);
}

void PartRun::ReleaseWithoutRoom(const absl::Status& why) {
  LogWarning("no room for the job, handing it back",
             {{"job", name()}, {"part", grant_.part()}, {"error", std::string(why.message())}});
  report_.set_release_reason(v1::JobReport::NO_ROOM);
  CallResult told = ToCallResult(why);
  told.message = WithoutPaths(WithoutFolder(told.message, folder_));
  *report_.mutable_error() = ToRpcStatus(ToStatus(told));
  Release(/*in_hurry=*/false);
}

void PartRun::Cancel() { Finish(v1::JobReport::CANCELLED); }

void PartRun::Release(bool /*in_hurry*/) { Finish(v1::JobReport::RELEASED); }

void PartRun::Abandon() {
  abandoned_ = true;
  Stop();
}

void PartRun::OnEngineHopeless(const std::string& why) {
  FinishCrashed("the engine process ended: " + why, /*shared_engine=*/false);
}

v1::CommitFramesRequest PartRun::NewCommit() const {
  v1::CommitFramesRequest request;
  request.set_job(name());
  request.set_lease_epoch(lease_epoch());
  request.set_part(grant_.part());
  request.set_worker_id(context_.worker_id);
  return request;
}

absl::StatusOr<v1::BlobRef> UploadOwnFile(BlobTransport& blobs, const std::string& path,
                                          const std::stop_token& stop) {
  auto blob = BlobOfFile(path);
  if (absl::IsNotFound(blob.status())) return absl::DataLossError(blob.status().message());
  NERF_RETURN_IF_ERROR(blob.status());
  NERF_RETURN_IF_ERROR(blobs.Upload(path, *blob, stop));
  return blob;
}

}  // namespace nerf
