#include "engine/program/serve/serve_job.h"

#include <cmath>
#include <utility>

#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/program/serve/engine_messages.h"
#include "engine/scene/pictures/image_io.h"
#include "fmt/format.h"

namespace nerf {

ServeLoop::Job::Job(ServeLoop* loop, const std::string& name, const internal::Train& train,
                    std::stop_token stop)
    : loop_(loop),
      name_(name),
      train_(train),
      stop_(std::move(stop)),
      share_(loop->clock_),
      scored_time_(loop->clock_->Now()) {}

std::shared_ptr<SceneRenderer> ServeLoop::Job::CurrentRenderer(bool live) {
  // A copy of the weights costs as much as a small frame.
  constexpr absl::Duration kMaxAge = absl::Seconds(1);
  if (trainer_ == nullptr) return nullptr;
  const SteadyTime now = loop_->clock_->Now();
  const bool is_current = renderer_ != nullptr && (rendered_step_ == trainer_->state().step ||
                                                   (live && now - renderer_made_ < kMaxAge));
  if (!is_current) {
    renderer_.reset();  // frees its memory before the next one is made
    renderer_ = trainer_->NewRenderer();
    rendered_step_ = trainer_->state().step;
    renderer_made_ = now;
  }
  return renderer_;
}

void ServeLoop::Job::OnBegin(const TrainingSession& session, Trainer* trainer) {
  trainer_ = trainer;
  loop_->Send(StartedMessage(name(), session));
}

void ServeLoop::Job::OnEnd() {
  writer_.Wait();  // nothing is sent of a checkpoint after the end
  trainer_ = nullptr;
  renderer_.reset();
}

void ServeLoop::Job::OnProgress(const TrainProgress& progress) {
  last_progress_ = progress;
  SendProgress();
}

absl::Status ServeLoop::Job::OnPreview(const TrainPreview& preview) {
  if (preview_step_ == preview.step) return absl::OkStatus();
  preview_step_ = preview.step;
  const std::string path = fmt::format("{}/preview_{:08}.png", train_.out(), preview.step);
  NERF_RETURN_IF_ERROR(WritePng(path, preview.image));
  internal::EngineMessage message;
  message.set_job(name());
  internal::Preview& sent = *message.mutable_preview();
  sent.set_step(preview.step);
  if (std::isfinite(preview.psnr)) sent.set_psnr(preview.psnr);
  sent.set_image(path);
  loop_->Send(message);
  return absl::OkStatus();
}

void ServeLoop::Job::OnWarning(const std::string& text) { LogWarning(text, {{"job", name()}}); }

bool ServeLoop::Job::HasWork() {
  const bool has_work =
      loop_->render_ != nullptr || loop_->suspended_ != nullptr || loop_->requests_.HasAny();
  said_no_work_ = !has_work;
  return has_work;
}

absl::Status ServeLoop::Job::BetweenSteps() {
  // A request that came after that answer waits: the ranks' weights are not collected for it.
  if (std::exchange(said_no_work_, false)) return loop_->broken_;
  NERF_RETURN_IF_ERROR(HandleRequests());
  // A render alternates with the training steps; after the training it runs to its end.
  while (loop_->render_ != nullptr && !stop_.stop_requested() && share_.TakeTurn()) {
    loop_->ContinueRender(this, [this] {
      Heartbeat();
      return share_.IsSpent() || stop_.stop_requested() || loop_->MustChoose();
    });
    share_.GiveTurn();
    NERF_RETURN_IF_ERROR(HandleRequests());
  }
  return loop_->broken_;
}

// At most one message per step: the worker would upload and commit the same bytes again.
absl::Status ServeLoop::Job::OnCheckpointDue() {
  const uint32_t step = trainer_->state().step;
  if (checkpoint_step_ == step) return absl::OkStatus();
  internal::EngineMessage message;
  message.set_job(name());
  internal::SavedState& saved = *message.mutable_checkpoint();
  saved.set_step(step);
  saved.set_checkpoint(fmt::format("{}/checkpoint_{:08}.safetensors", train_.out(), step));
  saved.set_model(fmt::format("{}/model_{:08}.safetensors", train_.out(), step));
  // Those of a short training, which come sooner than the interval, have no preview: it takes
  // longer than they do. The last one has, so that such a job has a picture, too.
  const SteadyTime now = loop_->clock_->Now();
  if (trainer_->IsFinished() || now - scored_time_ >= CheckpointInterval(train_)) {
    scored_time_ = now;
    // After a stop the files are still written, without a preview.
    const std::optional<TrainPreview> preview = trainer_->Preview(stop_);
    if (preview.has_value()) {
      NERF_RETURN_IF_ERROR(OnPreview(*preview));
      if (std::isfinite(preview->psnr)) saved.set_psnr(preview->psnr);
    }
  }
  NERF_RETURN_IF_ERROR(AwaitFiles());
  checkpoint_step_ = step;
  // The disk takes longer than all else, so the training does not wait for it.
  const auto model = std::make_shared<const TensorFile>(trainer_->Model());
  const auto checkpoint = std::make_shared<const TensorFile>(trainer_->Checkpoint());
  AddTensors(*model, &saved);
  writer_.Run([this, message, model, checkpoint] {
    const internal::SavedState& saved = message.checkpoint();
    files_status_ = WriteTensorFile(*model, saved.model());
    if (files_status_.ok()) files_status_ = WriteTensorFile(*checkpoint, saved.checkpoint());
    if (files_status_.ok()) loop_->Send(message);
  });
  return trainer_->IsFinished() ? AwaitFiles() : absl::OkStatus();
}

absl::Status ServeLoop::Job::AwaitFiles() {
  writer_.Wait();
  return files_status_;
}

absl::Status ServeLoop::Job::OnStopped() {
  // The request that asked for the stop may still wait; it says whether to write a checkpoint.
  NERF_RETURN_IF_ERROR(BetweenSteps());
  if (stop_with_checkpoint_ && trainer_ != nullptr) {
    NERF_RETURN_IF_ERROR(OnCheckpointDue());
  }
  NERF_RETURN_IF_ERROR(AwaitFiles());
  internal::EngineMessage message;
  message.set_job(name());
  message.mutable_stopped()->set_step(trainer_ == nullptr ? 0 : trainer_->state().step);
  loop_->Send(message);
  return absl::OkStatus();
}

void ServeLoop::Job::Heartbeat() {
  if (!last_progress_.has_value()) {
    trainer_->ReportProgress();
  } else if (loop_->clock_->Now() - last_sent_ >= kServeHeartbeat) {
    SendProgress();
  }
}

absl::Status ServeLoop::Job::OnEvaluatedViews(size_t n_done, size_t n_views) {
  if (!last_progress_.has_value()) trainer_->ReportProgress();
  last_progress_->evaluated_views = static_cast<double>(n_done);
  last_progress_->evaluation_views = static_cast<double>(n_views);
  last_progress_->stall_fraction = kUnknownFigure;  // nothing is trained
  const SteadyTime now = loop_->clock_->Now();
  if (n_done == 0) {
    evaluation_began_ = now;
    last_progress_->eta_seconds = absl::ToDoubleSeconds(expected_evaluation_);
    SendProgress();
  } else {
    // What is left of the evaluation.
    last_progress_->eta_seconds = absl::ToDoubleSeconds(now - evaluation_began_) /
                                  static_cast<double>(n_done) *
                                  static_cast<double>(n_views - n_done);
  }
  Heartbeat();
  return BetweenSteps();
}

absl::Status ServeLoop::Job::HandleRequests() {
  const auto take = [&] {
    loop_->ChooseRender();
    const bool urgent_only = loop_->render_ != nullptr || stop_.stop_requested();
    return urgent_only ? loop_->requests_.TryTakeUrgent() : loop_->requests_.TryTake();
  };
  while (loop_->broken_.ok()) {
    std::optional<QueuedRequest> request = take();
    if (!request.has_value()) break;
    loop_->Handle(*std::move(request), this);
  }
  return loop_->broken_;
}

void ServeLoop::Job::SendProgress() {
  if (loop_->options_.monitor != nullptr) loop_->options_.monitor->Read(&*last_progress_);
  loop_->Send(ProgressMessage(name(), *last_progress_));
  last_sent_ = loop_->clock_->Now();
}

}  // namespace nerf
