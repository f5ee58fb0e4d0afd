#include "engine/tool/serve_job.h"

#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/scene/image_io.h"
#include "fmt/format.h"

namespace nerf {

ServeLoop::Job::Job(ServeLoop* loop, const TrainMessage& message, std::stop_token stop)
    : loop_(loop), message_(message), stop_(std::move(stop)), share_(loop->clock_) {}

void ServeLoop::Job::Finish() {
  trainer_ = nullptr;
  renderer_.reset();
}

std::shared_ptr<SceneRenderer> ServeLoop::Job::CurrentRenderer() {
  if (trainer_ == nullptr) return nullptr;
  if (renderer_ == nullptr || rendered_step_ != trainer_->state().step) {
    renderer_.reset();  // its memory before that of the next
    renderer_ = trainer_->NewRenderer();
    rendered_step_ = trainer_->state().step;
  }
  return renderer_;
}

void ServeLoop::Job::OnProgress(const TrainProgress& progress) {
  last_progress_ = Reply("progress", "job", name());
  SetProgress(progress, &last_progress_);
  last_progress_["fraction"] = JsonNumber(progress.fraction);
  last_progress_["eta_seconds"] = JsonNumber(progress.eta_seconds);
  SendProgress();
}

absl::Status ServeLoop::Job::OnPreview(const TrainPreview& preview) {
  const std::string path = fmt::format("{}/preview_{:08}.png", message_.out, preview.step);
  NERF_RETURN_IF_ERROR(WritePng(path, preview.image));
  JsonObject reply = Reply("preview", "job", name());
  reply["step"] = preview.step;
  reply["psnr"] = JsonNumber(preview.psnr);
  reply["image"] = path;
  loop_->Send(reply);
  return absl::OkStatus();
}

void ServeLoop::Job::OnWarning(const std::string& text) { LogWarning(text, {{"job", name()}}); }

absl::Status ServeLoop::Job::BetweenSteps() {
  NERF_RETURN_IF_ERROR(AnswerMail());
  // What is rendered goes on with the training, and to its end when the training has ended.
  while (loop_->render_ != nullptr && !stop_.stop_requested() && share_.TakeTurn()) {
    loop_->GoOnWithRender(this, [this] {
      Heartbeat();
      return share_.IsSpent() || stop_.stop_requested();
    });
    share_.GiveTurn();
    NERF_RETURN_IF_ERROR(AnswerMail());
  }
  return loop_->broken_;
}

absl::Status ServeLoop::Job::WriteCheckpoint() {
  const uint32_t step = trainer_->state().step;
  if (checkpoint_step_ == step) return absl::OkStatus();
  checkpoint_ = fmt::format("{}/checkpoint_{:08}.safetensors", message_.out, step);
  model_ = fmt::format("{}/model_{:08}.safetensors", message_.out, step);
  // A stop waits for the files, not for a picture.
  const std::optional<TrainPreview> preview = trainer_->Preview(stop_);
  const TensorFile model = trainer_->Model();
  NERF_RETURN_IF_ERROR(WriteTensorFile(model, model_));
  NERF_RETURN_IF_ERROR(WriteTensorFile(trainer_->Checkpoint(), checkpoint_));
  JsonObject reply = Reply("checkpoint", "job", name());
  reply["step"] = step;
  reply["checkpoint"] = checkpoint_;
  reply["model"] = model_;
  reply["tensors"] = TensorList(model);
  reply["psnr"] = preview.has_value() ? JsonNumber(preview->psnr) : JsonObject(nullptr);
  loop_->Send(reply);
  checkpoint_step_ = step;
  return absl::OkStatus();
}

void ServeLoop::Job::Heartbeat() {
  if (last_progress_.is_null()) {
    trainer_->ReportProgress();
  } else if (loop_->clock_->Now() - last_sent_ >= kServeHeartbeat) {
    SendProgress();
  }
}

absl::Status ServeLoop::Job::BetweenEvaluatedViews(size_t n_done, size_t n_views) {
  if (last_progress_.is_null()) trainer_->ReportProgress();
  last_progress_["evaluated_views"] = n_done;
  last_progress_["evaluation_views"] = n_views;
  last_progress_.erase("stall_fraction");  // no step is taken
  if (n_done == 0) SendProgress();
  Heartbeat();
  return BetweenSteps();
}

absl::Status ServeLoop::Job::AnswerMail() {
  const auto take = [&] {
    const bool is_busy = loop_->render_ != nullptr || stop_.stop_requested();
    return is_busy ? loop_->mailbox_.TryTakeUrgent() : loop_->mailbox_.TryTake();
  };
  while (loop_->broken_.ok()) {
    std::optional<Mail> mail = take();
    if (!mail.has_value()) break;
    loop_->Handle(*std::move(mail), this);
  }
  return loop_->broken_;
}

void ServeLoop::Job::SendProgress() {
  if (loop_->options_.monitor != nullptr)
    SetReadings(loop_->options_.monitor->Read(), &last_progress_);
  loop_->Send(last_progress_);
  last_sent_ = loop_->clock_->Now();
}

}  // namespace nerf
