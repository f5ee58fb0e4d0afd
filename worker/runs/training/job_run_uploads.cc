// What a run uploads while its engine trains: previews and checkpoints.
#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "worker/files/scene_folder.h"
#include "worker/runs/training/job_run.h"
#include "worker/runs/training/job_uploads.h"

namespace nerf {

absl::StatusOr<std::string> JobRun::TakeFile(const std::string& path, const std::string& name) {
  NERF_ASSIGN_OR_RETURN(std::string file, CheckInsideFolder(folder_ + "/out", path));
  // Moved to a unique name: the engine may write the same name again during the upload.
  std::string target = fmt::format("{}/commit/{}-{}", folder_, name, ++n_taken_files_);
  std::error_code error;
  std::filesystem::rename(file, target, error);
  if (error) return absl::InternalError(fmt::format("{}: {}", path, error.message()));
  return target;
}

void JobRun::OnPreview(const internal::Preview& preview) {
  const auto image = TakeFile(preview.image(), fmt::format("preview-{}", preview.step()));
  if (!image.ok()) {
    LogWarning("ignored a preview",
               {{"job", name()}, {"problem", std::string(image.status().message())}});
    return;
  }
  if (pending_preview_.has_value()) RemoveFile(pending_preview_->image());
  pending_preview_ = preview;
  pending_preview_->set_image(*image);
  UploadNextPreview();
}

void JobRun::UploadNextPreview() {
  if (preview_in_flight_ || !pending_preview_.has_value()) return;
  preview_in_flight_ = true;
  auto upload = std::make_shared<PreviewUpload>();
  upload->preview = *std::move(pending_preview_);
  pending_preview_.reset();
  context_.tasks.Run(
      Lane::kPreview,
      [upload, &blobs = context_.blobs, stop = transfers_.get_token()] {
        upload->Run(blobs, stop);
      },
      [self = weak_from_this(), upload] {
        const auto run = self.lock();
        if (run == nullptr) return;
        run->preview_in_flight_ = false;
        if (upload->result.ok()) {
          v1::Progress* progress = run->report_.mutable_progress();
          progress->set_preview_step(upload->preview.step());
          *progress->mutable_preview_image() = upload->blob;
          if (upload->preview.has_psnr()) progress->set_psnr_preview(upload->preview.psnr());
          run->context_.progress_changed();
        }
        run->UploadNextPreview();
      });
}

void JobRun::OnCheckpoint(const internal::SavedState& saved) {
  auto next = std::make_shared<PendingCheckpoint>(options_.retry);
  auto checkpoint_path = TakeFile(saved.checkpoint(), fmt::format("checkpoint-{}", saved.step()));
  if (checkpoint_path.ok()) next->checkpoint_path = *checkpoint_path;
  auto model_path = TakeFile(saved.model(), fmt::format("model-{}", saved.step()));
  if (model_path.ok()) next->model_path = *model_path;
  if (!checkpoint_path.ok() || !model_path.ok()) {
    const absl::Status& status =
        checkpoint_path.ok() ? model_path.status() : checkpoint_path.status();
    LogWarning("ignored a checkpoint",
               {{"job", name()}, {"problem", std::string(status.message())}});
    return;
  }
  v1::CommitCheckpointRequest& request = next->request;
  request.set_job(name());
  request.set_lease_epoch(lease_epoch());
  request.set_worker_id(context_.worker_id);
  request.set_step(saved.step());
  *request.mutable_tensors() = saved.tensors();
  if (saved.has_psnr()) request.set_psnr(saved.psnr());
  request.set_seconds(report_.has_progress() ? report_.progress().seconds()
                                             : grant_.resume().seconds() + grant_.merge_seconds());
  any_checkpoint_ = true;
  newest_refused_.reset();
  // Replaces an older checkpoint that still waits, and removes its files.
  pending_ = std::move(next);
  next_commit_ = context_.clock.Now();
  CommitNext();
}

void JobRun::CommitNext() {
  if (commit_in_flight_ || pending_ == nullptr || context_.clock.Now() < next_commit_) return;
  commit_in_flight_ = true;
  auto checkpoint = std::exchange(pending_, nullptr);
  context_.tasks.Run(
      Lane::kCheckpoint,
      [checkpoint, &blobs = context_.blobs, &server = context_.server,
       stop = transfers_.get_token()] { checkpoint->Run(blobs, server, stop); },
      [self = weak_from_this(), checkpoint] {
        if (const auto run = self.lock()) run->OnCommitted(checkpoint, checkpoint->result);
      });
}

void JobRun::OnCommitted(std::shared_ptr<PendingCheckpoint> checkpoint, const CallResult& result) {
  commit_in_flight_ = false;
  if (stop_ == Stop::kCancel || stop_ == Stop::kAbandon || stage_ >= Stage::kFinal) return;
  if (result.ok()) {
    any_commit_ = true;
    LogInfo("checkpoint committed", {{"job", name()}, {"step", checkpoint->request.step()}});
  } else if (result.reason == reason::kLeaseFenced || result.code == absl::StatusCode::kNotFound) {
    LogWarning("another worker has the lease, abandoning the job",
               {{"job", name()}, {"lease_epoch", lease_epoch()}, {"error", result.message}});
    Abandon();
    return;
  } else if (const auto pause = checkpoint->retry.After(result); pause.has_value()) {
    LogWarning("cannot commit a checkpoint, trying again",
               {{"job", name()},
                {"error", result.message},
                {"retry_seconds", absl::ToDoubleSeconds(*pause)}});
    // A newer waiting checkpoint is committed instead.
    if (pending_ == nullptr) {
      pending_ = std::move(checkpoint);
      next_commit_ = context_.clock.Now() + *pause;
    }
  } else {
    LogError("a checkpoint cannot be committed", {{"job", name()}, {"error", result.message}});
    if (final_phase_ == v1::JobReport::SUCCEEDED) {
      pending_ = nullptr;
      FinishWithoutResult(result);
      return;
    }
    if (pending_ == nullptr) newest_refused_ = result;
  }
  CommitNext();
  if (stage_ == Stage::kCommitting && !commit_in_flight_ && pending_ == nullptr &&
      !broken_until_.has_value()) {
    Enter(Stage::kFinal);
  }
}

}  // namespace nerf
