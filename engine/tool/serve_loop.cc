#include "engine/tool/serve_loop.h"

#include <unistd.h>

#include <limits>
#include <thread>
#include <utility>

#include "common/error_reason.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/scene/image_io.h"
#include "engine/scene/scene_reader.h"
#include "engine/tool/exception_border.h"
#include "engine/tool/loaded_model.h"
#include "engine/tool/rendered_files.h"
#include "engine/tool/serve_job.h"
#include "engine/tool/training_methods.h"
#include "engine/tool/view_request.h"
#include "engine/train/evaluation.h"
#include "engine/train/memory_estimate.h"
#include "fmt/format.h"

namespace nerf {

// A render at work. It keeps what it is made of, so that the training can go on.
struct ServeLoop::RenderInWork {
  RenderMessage message;
  std::stop_token stop;
  SteadyTime begin;
  std::shared_ptr<const LoadedModel> model;  // owns renderer, or
  std::shared_ptr<SceneRenderer> weights;    // of the job in training
  uint32_t step = 0;
  float scale = 1;  // of the scene
  std::unique_ptr<PictureRender> picture;
};

ServeLoop::ServeLoop(ServeOptions options, RenderDevice* render_device, ThreadPool* pool,
                     const Clock* clock)
    : options_(std::move(options)),
      render_device_(render_device),
      pool_(pool),
      clock_(clock),
      socket_(options_.fd),
      models_(options_.model_cache_bytes, render_device) {}

ServeLoop::~ServeLoop() = default;

void ServeLoop::ReadUntilEnd() {
  socket_.ReadLines([this](const std::string& line) { mailbox_.PutLine(line); },
                    [this] { mailbox_.PutError("a line of more than 1 MiB"); });
  mailbox_.End();
  if (options_.exit_grace == absl::InfiniteDuration()) return;
  const SteadyTime deadline = clock_->Now() + options_.exit_grace;
  MutexLock lock(mu_);
  while (!done_) {
    const absl::Duration left = deadline - clock_->Now();
    // Nobody is left to hear an answer; files are whole or not there.
    if (left <= absl::ZeroDuration()) _exit(0);
    done_changed_.WaitFor(mu_, left);
  }
}

absl::Status ServeLoop::Run() {
  JsonObject hello = Reply("hello", "version", NERF_VERSION);
  hello["device"] = options_.device;
  hello["description"] = options_.device_description;
  hello["threads"] = pool_->n_threads();
  hello["methods"] = TrainingMethods(options_.device);
  Send(hello);
  std::thread reader([this] { ReadUntilEnd(); });
  while (broken_.ok()) {
    std::optional<Mail> mail = render_ != nullptr ? mailbox_.TryTakeUrgent() : mailbox_.WaitTake();
    if (mail.has_value()) {
      Handle(*std::move(mail), nullptr);
    } else if (render_ != nullptr) {
      GoOnWithRender(nullptr, [this] {
        SayAtWork(render_->message.id, nullptr);
        return mailbox_.HasUrgent();
      });
    } else {
      break;
    }
  }
  render_.reset();
  if (!broken_.ok()) socket_.Shutdown();  // ends the reader
  {
    MutexLock lock(mu_);
    done_ = true;
    done_changed_.NotifyAll();
  }
  reader.join();
  return broken_;
}

bool ServeLoop::IsOfBrokenDevice(const absl::Status& status) {
  const auto found = GetReason(status);
  if (!found.has_value() || found->reason != reason::kGpuFailed) return false;
  LogError("the device broke", {{"error", std::string(status.message())}});
  broken_ = status;
  return true;
}

void ServeLoop::Send(const JsonObject& message) {
  // A peer that is gone ends the reading side, too, and with it everything.
  if (!socket_.Write(JsonLine(message))) socket_.Shutdown();
}

void ServeLoop::Handle(Mail mail, Job* job) {
  if (!mail.error.empty()) {
    Send(ErrorReply("", "", absl::InvalidArgumentError(mail.error)));
    return;
  }
  const nlohmann::json& message = mail.message;
  if (mail.cancelled) {
    Send(ErrorReply(TextOf(message, "id"), "", absl::CancelledError("cancelled")));
    return;
  }
  const std::string type = TextOf(message, "type");
  if (type == "train") {
    HandleTrain(message, job);
  } else if (type == "stop") {
    HandleStop(message, job);
  } else if (type == "render") {
    HandleRender(mail);
  } else if (type == "check") {
    HandleCheck(std::move(mail), job);
  } else {
    Send(ErrorReply(
        TextOf(message, "id"), TextOf(message, "job"),
        absl::InvalidArgumentError(fmt::format("type: '{}' is not known", type.substr(0, 64)))));
  }
}

void ServeLoop::HandleTrain(const nlohmann::json& message, Job* job) {
  const std::string name = TextOf(message, "job");
  if (job != nullptr) {
    Send(ErrorReply(
        "", name,
        WithReason(absl::FailedPreconditionError(fmt::format("job {} is in training", job->name())),
                   reason::kBusy)));
    return;
  }
  absl::StatusOr<TrainMessage> train = ReadTrainMessage(message);
  if (!train.ok()) {
    // Without a name there is no job that could fail.
    Send(name.empty() || name.size() > 1024 ? ErrorReply("", name, train.status())
                                            : FailedReply(name, train.status(), {}));
    return;
  }
  Job work(this, *train, mailbox_.BeginJob(name));
  std::vector<SceneProblem> problems;
  const absl::Status status = Guarded([&] { return Train(*train, &work, &problems); });
  work.Finish();
  mailbox_.EndJob();
  if (!status.ok() && !IsOfBrokenDevice(status)) Send(FailedReply(name, status, problems));
}

absl::Status ServeLoop::Train(const TrainMessage& message, Job* job,
                              std::vector<SceneProblem>* problems) {
  NERF_RETURN_IF_ERROR(CreateFolder(message.out));
  TrainRequest request = message.request;
  request.device = options_.device;
  auto session = OpenTrainingSession(request, pool_, problems, job->stop());
  if (!session.ok() && job->stop().stop_requested()) {
    // Nothing was trained, so there is nothing to keep.
    NERF_RETURN_IF_ERROR(job->BetweenSteps());
    JsonObject reply = Reply("stopped", "job", message.job);
    reply["step"] = 0;
    Send(reply);
    return absl::OkStatus();
  }
  if (!session.ok()) return session.status();
  TrainingSession& s = **session;
  TrainerOptions options;
  options.checkpoint_interval = message.checkpoint_interval;
  options.preview_interval = message.preview_interval;
  options.render_device = render_device_;
  const int64_t first_trained = s.state.n_trained;
  const double first_seconds = s.state.seconds;
  Trainer trainer(&s.scene, s.state, s.step.get(), pool_, clock_, options, job);

  JsonObject started = Reply("started", "job", message.job);
  started["config"] = ConfigObject(s.state.config);
  started["scene"] = JsonObject{{"flavor", SceneFlavorName(s.scene.geometry.flavor)},
                                {"train", s.scene.train.size()},
                                {"test", s.scene.test.size()},
                                {"warnings", s.scene.warnings}};
  started["step"] = s.state.step;
  Send(started);
  job->Begin(&trainer);

  const auto stopped = [&]() -> absl::Status {
    // The message that asked for it may still wait.
    NERF_RETURN_IF_ERROR(job->BetweenSteps());
    if (job->stop_mode_checkpoint().value_or(false)) {
      NERF_RETURN_IF_ERROR(job->WriteCheckpoint());
    }
    JsonObject reply = Reply("stopped", "job", message.job);
    reply["step"] = trainer.state().step;
    Send(reply);
    return absl::OkStatus();
  };

  NERF_ASSIGN_OR_RETURN(TrainOutcome outcome, trainer.Run(job->stop()));
  if (outcome == TrainOutcome::kStopped) return stopped();
  NERF_RETURN_IF_ERROR(job->WriteCheckpoint());

  TrainSummary summary{&trainer.state(), 0, std::numeric_limits<double>::quiet_NaN(),
                       job->checkpoint(), job->model()};
  if (!s.scene.test.empty()) {
    EvaluationOptions evaluation;
    evaluation.background = trainer.state().evaluation_background;
    evaluation.min_transmittance = trainer.state().config.min_transmittance;
    evaluation.with_ssim = false;
    size_t n_done = 0;
    const auto tell = [&] { return job->BetweenEvaluatedViews(n_done, s.scene.test.size()); };
    NERF_RETURN_IF_ERROR(tell());
    evaluation.on_image = [&](const View&, const ImageU8&) {
      ++n_done;
      return tell();
    };
    absl::StatusOr<EvaluationResult> result = EvaluateViews(
        trainer.NewRenderer().get(), s.scene.test, evaluation, pool_, *clock_, job->stop());
    if (!result.ok() && absl::IsCancelled(result.status())) return stopped();
    if (!result.ok()) return result.status();
    summary.psnr = result->psnr;
  }
  const double seconds = trainer.state().seconds - first_seconds;
  if (seconds > 0) {
    summary.samples_per_second =
        static_cast<double>(trainer.state().n_trained - first_trained) / seconds;
  }
  JsonObject done = Reply("done", "job", message.job);
  SetSummary(summary, &done);
  Send(done);
  return absl::OkStatus();
}

void ServeLoop::HandleStop(const nlohmann::json& message, Job* job) {
  absl::StatusOr<StopMessage> stop = ReadStopMessage(message);
  if (!stop.ok()) {
    Send(ErrorReply("", TextOf(message, "job"), stop.status()));
  } else if (job == nullptr || job->name() != stop->job) {
    Send(ErrorReply(
        "", stop->job,
        absl::NotFoundError(fmt::format("job {} is not in training", stop->job.substr(0, 64)))));
  } else {
    job->RequestStop(stop->checkpoint);
  }
}

void ServeLoop::HandleRender(const Mail& mail) {
  absl::StatusOr<RenderMessage> render = ReadRenderMessage(mail.message);
  if (!render.ok()) {
    EndRequest(TextOf(mail.message, "id"), render.status(), {});
    return;
  }
  render_ = std::make_unique<RenderInWork>();
  render_->message = *std::move(render);
  render_->stop = mail.stop;
  render_->begin = said_at_work_ = clock_->Now();
}

absl::Status ServeLoop::BeginRender(Job* job, RenderInWork* work) {
  const RenderMessage& message = work->message;
  const TrainState* state = nullptr;
  SceneRenderer* renderer = nullptr;
  if (!message.file.empty()) {
    NERF_ASSIGN_OR_RETURN(auto found, models_.Get(message.file));
    work->model = found;
    state = &work->model->state;
    renderer = work->model->renderer.get();
  } else if (job != nullptr && job->name() == message.job && job->trainer() != nullptr) {
    work->weights = job->CurrentRenderer();
    state = &job->trainer()->state();
    renderer = work->weights.get();
  } else {
    return absl::NotFoundError(fmt::format("job {} is not in training", message.job.substr(0, 64)));
  }

  NERF_ASSIGN_OR_RETURN(
      std::vector<Camera> cameras,
      message.camera.empty()
          ? CamerasOfOrbit(*state, renderer->grid(), message.orbit_count, message.width,
                           message.height)
          : CamerasFromText(message.camera, "camera", *state, message.width, message.height));
  if (!message.camera.empty() && cameras.size() != 1) {
    return absl::InvalidArgumentError("camera.frames: must hold one frame");
  }
  const Camera& camera =
      cameras[message.camera.empty() ? static_cast<size_t>(message.orbit_index) : 0];

  // Beyond it the kernel would end the process, and the job in training with it.
  NERF_RETURN_IF_ERROR(CheckViewFits(camera.width, camera.height, AvailableMemoryBytes()));
  RenderOptions options;
  options.background = BackgroundColor(state->evaluation_background);
  options.min_transmittance = state->config.min_transmittance;
  work->step = state->step;
  work->scale = state->geometry.frame.scale;
  work->picture = renderer->Begin(camera, options);
  return absl::OkStatus();
}

void ServeLoop::GoOnWithRender(Job* job, const std::function<bool()>& pause) {
  RenderInWork& work = *render_;
  JsonObject reply;
  bool paused = false;
  const absl::Status status = Guarded([&]() -> absl::Status {
    // Here and not where it was read: what it takes is the render's time, not the training's.
    if (work.picture == nullptr) {
      NERF_RETURN_IF_ERROR(BeginRender(job, &work));
    }
    if (!work.picture->Advance(pause, work.stop)) {
      if (work.stop.stop_requested()) return absl::CancelledError("the render was stopped");
      paused = true;
      return absl::OkStatus();
    }
    NERF_ASSIGN_OR_RETURN(JsonObject rendered, FinishRender(&work));
    reply = std::move(rendered);
    return absl::OkStatus();
  });
  if (paused) return;
  const std::string id = work.message.id;
  render_.reset();
  EndRequest(id, status, reply);
}

absl::StatusOr<JsonObject> ServeLoop::FinishRender(RenderInWork* work) {
  const ViewPicture view = work->picture->TakePicture();
  NERF_ASSIGN_OR_RETURN(RenderedFiles written,
                        WriteRenderedFiles(view, work->message, work->scale));
  JsonObject reply = Reply("rendered", "id", work->message.id);
  reply["files"] = written.files;
  reply["width"] = view.rgba.width;
  reply["height"] = view.rgba.height;
  reply["far"] = JsonNumber(written.far);
  reply["step"] = work->step;
  reply["seconds"] = JsonNumber(absl::ToDoubleSeconds(clock_->Now() - work->begin));
  return reply;
}

void ServeLoop::EndRequest(const std::string& id, const absl::Status& status,
                           const JsonObject& reply) {
  mailbox_.EndRequest();
  if (!IsOfBrokenDevice(status)) Send(status.ok() ? reply : ErrorReply(id, "", status));
}

void ServeLoop::SayAtWork(const std::string& id, Job* job) {
  if (job != nullptr) return job->Heartbeat();
  const SteadyTime now = clock_->Now();
  if (now - said_at_work_ < kServeHeartbeat) return;
  said_at_work_ = now;
  Send(Reply("working", "id", id));
}

void ServeLoop::HandleCheck(Mail mail, Job* job) {
  const absl::StatusOr<CheckMessage> check = ReadCheckMessage(mail.message);
  if (!check.ok()) {
    EndRequest(TextOf(mail.message, "id"), check.status(), {});
    return;
  }
  // A job's stop waits for no check, which is begun again when the job has ended.
  std::stop_source stop;
  const auto request_stop = [&] { stop.request_stop(); };
  const std::stop_callback of_request(mail.stop, request_stop);
  const std::stop_callback of_job(job != nullptr ? job->stop() : std::stop_token(), request_stop);
  said_at_work_ = clock_->Now();
  JsonObject reply;
  const absl::Status status = Guarded([&]() -> absl::Status {
    SceneOptions options;
    options.pool = pool_;
    options.memory_limit_bytes = AvailableMemoryBytes().value_or(0);
    options.stop = stop.get_token();
    options.between_images = [&] { SayAtWork(check->id, job); };
    const SceneDescription description = DescribeScene(check->dataset, options);
    if (stop.stop_requested()) return absl::CancelledError("the check was stopped");
    reply = CheckedReply(check->id, description);
    return absl::OkStatus();
  });
  if (absl::IsCancelled(status) && job != nullptr && job->stop().stop_requested()) {
    mailbox_.PutBackRequest(std::move(mail));
  } else {
    EndRequest(check->id, status, reply);
  }
}

}  // namespace nerf
