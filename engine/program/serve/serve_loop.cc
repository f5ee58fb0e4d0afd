#include "engine/program/serve/serve_loop.h"

#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>

#include "common/error_reason.h"
#include "common/files/atomic_file.h"
#include "common/log_options.h"
#include "common/logging.h"
#include "common/messages/path_kind.h"
#include "common/messages/render_channel.h"
#include "common/status_macros.h"
#include "engine/base/messages/view_style.h"
#include "engine/base/protocol/message_splitter.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/program/device/exception_border.h"
#include "engine/program/serve/engine_messages.h"
#include "engine/program/serve/rendered_files.h"
#include "engine/program/serve/request_check.h"
#include "engine/program/serve/serve_gang.h"
#include "engine/program/serve/serve_job.h"
#include "engine/program/session/loaded_model.h"
#include "engine/program/session/rank_training.h"
#include "engine/program/session/training_methods.h"
#include "engine/program/session/training_run.h"
#include "engine/program/written_views/view_paths.h"
#include "engine/program/written_views/view_request.h"
#include "engine/program/written_views/view_style.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/train/group/group.h"
#include "fmt/format.h"

namespace nerf {
namespace {

absl::Status StoppedRender() { return absl::CancelledError("the render was stopped"); }

absl::Status NotTraining(const std::string& job) {
  return absl::NotFoundError(fmt::format("job {} is not in training", job.substr(0, 64)));
}

}  // namespace

// A running render. It owns what it renders from, so that the training can continue.
struct ServeLoop::RunningRender {
  std::string id, job;  // job: whose weights; empty with a file
  internal::Render request;
  ViewStyle style;
  ViewChannels channels;
  std::stop_token stop;
  SteadyTime begin;
  std::shared_ptr<const LoadedModel> model;    // of a file, or
  std::shared_ptr<SceneRenderer> job_weights;  // of the running job
  uint32_t step = 0;
  SeenFrom seen_from;
  std::string path;  // of `rendered`
  PictureSize reduced_from;
  std::vector<CaptureCamera> capture;  // training views, if they are known
  std::unique_ptr<PictureRender> picture;
  ViewPicture view;  // once it is finished
};

ServeLoop::ServeLoop(ServeOptions options, RenderDevice* render_device, ThreadPool* pool,
                     const Clock* clock)
    : options_(std::move(options)),
      render_device_(render_device),
      pool_(pool),
      clock_(clock),
      socket_(options_.fd, options_.form),
      models_(options_.model_cache_bytes, render_device) {}

ServeLoop::~ServeLoop() = default;

void ServeLoop::ReadUntilEnd() {
  socket_.Read([this](absl::StatusOr<internal::WorkerRequest> request, size_t byte_size) {
    requests_.Put(std::move(request), byte_size);
  });
  requests_.End();
  if (options_.exit_grace == absl::InfiniteDuration()) return;
  const SteadyTime deadline = clock_->Now() + options_.exit_grace;
  MutexLock lock(mu_);
  while (!done_) {
    const absl::Duration left = deadline - clock_->Now();
    // The worker has gone. Exiting now is safe: files are written whole or not at all.
    if (left <= absl::ZeroDuration()) _exit(0);
    done_changed_.WaitFor(mu_, left);
  }
}

absl::Status ServeLoop::Run() {
  Send(HelloMessage());
  std::thread reader([this] { ReadUntilEnd(); });
  while (broken_.ok()) {
    ChooseRender();
    std::optional<QueuedRequest> request =
        render_ != nullptr ? requests_.TryTakeUrgent() : requests_.WaitTake();
    if (request.has_value()) {
      Handle(*std::move(request), nullptr);
    } else if (render_ != nullptr) {
      ContinueRender(nullptr, [this] {
        ReportWorking(render_->id, nullptr);
        return requests_.HasUrgent() || MustChoose();
      });
    } else {
      break;
    }
  }
  render_.reset();
  suspended_.reset();
  writer_.Wait();
  if (!broken_.ok()) socket_.Shutdown();  // ends the reader
  {
    MutexLock lock(mu_);
    done_ = true;
    done_changed_.NotifyAll();
  }
  reader.join();
  return broken_;
}

bool ServeLoop::IsOutranked() {
  return render_ != nullptr && suspended_ == nullptr && !render_->request.has_live() &&
         requests_.HasLive();
}

bool ServeLoop::IsSuspendedCancelled() {
  return suspended_ != nullptr && suspended_->stop.stop_requested();
}

bool ServeLoop::MustChoose() { return IsOutranked() || IsSuspendedCancelled(); }

void ServeLoop::ChooseRender() {
  if (IsSuspendedCancelled()) {
    EndRequest(std::exchange(suspended_, nullptr)->id, StoppedRender());
  }
  if (IsOutranked()) {
    suspended_ = std::move(render_);
  } else if (render_ == nullptr && suspended_ != nullptr && !requests_.HasLive()) {
    render_ = std::move(suspended_);
  }
}

bool ServeLoop::IsOfBrokenDevice(const absl::Status& status) {
  const auto found = GetReason(status);
  if (!found.has_value() || found->reason != reason::kGpuFailed) return false;
  LogError("the device failed", {{"error", std::string(status.message())}});
  broken_ = status;
  return true;
}

internal::EngineMessage ServeLoop::HelloMessage() const {
  internal::EngineMessage message;
  internal::Hello& hello = *message.mutable_hello();
  hello.set_version(NERF_VERSION);
  hello.set_device(options_.device);
  hello.set_description(options_.device_description);
  hello.set_threads(static_cast<uint32_t>(pool_->n_threads()));
  for (std::string& method : TrainingMethods(options_.device)) hello.add_methods(std::move(method));
  for (std::string& method : MergingMethods(options_.device)) hello.add_merges(std::move(method));
  hello.set_writes_nanovdb(options_.writes_nanovdb);
  return message;
}

void ServeLoop::Send(const internal::EngineMessage& message) {
  if (message.ByteSizeLong() > kMaxMessageBytes) {
    return Send(RefusedMessage(message.job(), message.id(),
                               absl::InternalError("an answer of more than 1 MiB")));
  }
  // The worker has gone. Shutdown ends the reader, which ends the rest.
  MutexLock lock(send_mu_);
  if (!socket_.Write(message)) socket_.Shutdown();
}

void ServeLoop::Handle(QueuedRequest queued, Job* job) {
  if (queued.cancelled) {
    EndRequest(queued.request.id(), absl::CancelledError("cancelled"));
    return;
  }
  if (!queued.ok()) return Refuse(queued, job != nullptr);
  switch (queued.request.request_case()) {
    case internal::WorkerRequest::kTrain:
      return HandleTrain(queued.request, job);
    case internal::WorkerRequest::kStop:
      return HandleStop(queued.request, job);
    case internal::WorkerRequest::kRender:
      return HandleRender(queued);
    case internal::WorkerRequest::kCheck:
      return HandleCheck(std::move(queued), job);
    case internal::WorkerRequest::kCancel:
    case internal::WorkerRequest::kRankTexts:
    case internal::WorkerRequest::REQUEST_NOT_SET:
      break;  // the queue has handled the first two, and refuses the last
  }
}

void ServeLoop::Refuse(const QueuedRequest& wrong, bool in_job) {
  const auto name_of = [](const std::string& name) {
    return name.size() <= kMaxNameBytes ? name : std::string();
  };
  const std::string job = name_of(wrong.request.job());
  // A job with wrong fields ends here, if its name can be part of an answer.
  if (wrong.request.has_train() && !in_job && !job.empty()) {
    Send(FailedMessage(job, wrong.status, {}));
  } else {
    Send(RefusedMessage(job, name_of(wrong.request.id()), wrong.status));
  }
}

void ServeLoop::HandleTrain(const internal::WorkerRequest& request, Job* job) {
  const std::string& name = request.job();
  if (job != nullptr) {
    Send(RefusedMessage(
        name, "",
        WithReason(absl::FailedPreconditionError(fmt::format("job {} is in training", job->name())),
                   reason::kBusy)));
    return;
  }
  const internal::Train& train = request.train();
  NoteJobOrigin("", name, train.origin().request_id(), train.origin().traceparent());
  Job new_job(this, name, train, requests_.BeginJob(name));
  Problems problems;
  const absl::Status status = Guarded([&] { return Train(train, &new_job, &problems); });
  requests_.EndJob();
  if (!status.ok() && !IsOfBrokenDevice(status)) Send(FailedMessage(name, status, problems.list()));
}

absl::Status ServeLoop::Train(const internal::Train& train, Job* job, Problems* problems) {
  NERF_ASSIGN_OR_RETURN(TrainRequest request, ToTrainRequest(train));
  NERF_RETURN_IF_ERROR(CreateFolder(train.out()));
  request.device = options_.device;
  const auto is_stopped = [&] { return job->stop().stop_requested(); };
  absl::StatusOr<std::unique_ptr<RankSession>> met = MeetRanks(job->name(), train, request.config);
  if (!met.ok() && is_stopped()) return job->OnStopped();
  NERF_ASSIGN_OR_RETURN(const std::unique_ptr<RankSession> ranks, std::move(met));
  if (ranks != nullptr) request.group = ranks->group();
  auto session = OpenTrainingSession(request, pool_, problems, job->stop());
  absl::Status opened = session.status();
  // A stop of this rank is no error of the training, so the others are not told.
  if (!opened.ok() && is_stopped()) return job->OnStopped();
  if (ranks != nullptr) {
    const absl::Status agreed = ranks->Agree(opened, opened.ok() ? session->get() : nullptr);
    if (is_stopped()) return job->OnStopped();
    if (opened.ok()) opened = WithLostRank(agreed, ranks->lost_rank());
  }
  NERF_RETURN_IF_ERROR(opened);
  TrainingRunOptions options;
  options.trainer.checkpoint_interval = CheckpointInterval(train);
  options.trainer.preview_interval = train.preview_interval_seconds() > 0
                                         ? absl::Seconds(train.preview_interval_seconds())
                                         : kDefaultPreviewInterval;
  options.trainer.render_device = render_device_;
  options.trainer.group = request.group;
  if (ranks != nullptr && request.group->rank() > 0) {
    return FollowRanks(job, ranks.get(), session->get());
  }
  absl::StatusOr<TrainingRunResult> run = LeadTraining(
      ranks.get(), session->get(), options, pool_, clock_, job, LogRanks(job->name()), job->stop());
  if (ranks != nullptr && !run.ok()) {
    return is_stopped() ? job->OnStopped() : WithLostRank(run.status(), ranks->lost_rank());
  }
  NERF_ASSIGN_OR_RETURN(TrainingRunResult result, std::move(run));
  if (result.outcome == TrainOutcome::kStopped) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(job->AwaitFiles());
  Send(DoneMessage(
      job->name(), result.summary,
      result.evaluation.has_value() ? result.evaluation->images : std::vector<ImageScore>()));
  return absl::OkStatus();
}

void ServeLoop::HandleStop(const internal::WorkerRequest& request, Job* job) {
  if (job != nullptr && job->name() == request.job()) {
    job->RequestStop(request.stop().checkpoint());
  } else {
    Send(RefusedMessage(request.job(), "", NotTraining(request.job())));
  }
}

void ServeLoop::HandleRender(const QueuedRequest& queued) {
  const std::string& id = queued.request.id();
  const internal::Render& request = queued.request.render();
  Problems ignored;  // CheckRequest has named them
  const ViewStyle style = ReadViewStyle("style", request.view().style(), &ignored);
  render_ = std::make_unique<RunningRender>();
  render_->id = id;
  render_->job = queued.request.job();
  render_->request = request;
  render_->style = style;
  render_->channels = ChannelsOf(request.view().channels());
  render_->stop = queued.stop;
  render_->begin = reported_working_ = clock_->Now();
}

absl::StatusOr<Camera> ServeLoop::CameraOfRequest(const TrainState& state, SceneRenderer* renderer,
                                                  RunningRender* render) {
  const v1::RenderImageRequest& view = render->request.view();
  const int width = static_cast<int>(view.width()), height = static_cast<int>(view.height());
  const std::optional<Panorama>& panorama = render->style.panorama;
  if (!render->request.has_live())
    render->capture = CaptureCamerasOf(state);  // seen_twice takes too long
  if (view.has_camera()) {
    const std::string text = CameraText(view.camera());
    NERF_ASSIGN_OR_RETURN(const std::vector<Camera> cameras,
                          panorama.has_value()
                              ? CamerasFromText(text, "camera", state, 0, 0)
                              : CamerasFromText(text, "camera", state, width, height));
    if (cameras.size() != 1) {
      return absl::InvalidArgumentError("camera.frames: must hold one frame");
    }
    Camera camera = cameras.front();
    if (panorama.has_value()) {
      NERF_ASSIGN_OR_RETURN(camera,
                            AsPanorama(camera, state.geometry.frame, *panorama, width, height));
    }
    return render->seen_from.camera = camera;
  }
  const std::optional<PathKind> kind = ParsePathKind(PathKindWord(view.orbit().path()));
  if (!kind.has_value()) return absl::InvalidArgumentError("orbit.path: is not a known path");
  // Of weights in training the object is left out: the views of one path would differ by it.
  const PathScene scene =
      render->model != nullptr ? PathSceneOf(*render->model) : PathSceneOf(state, renderer);
  NERF_ASSIGN_OR_RETURN(const ViewPath path,
                        CamerasOfPath(state, scene,
                                      {*kind, static_cast<int>(view.orbit().count()), width, height,
                                       !view.orbit().full_size(), panorama}));
  render->path = std::string(PathKindName(path.kind));
  render->reduced_from = path.reduced_from;
  return render->seen_from.camera = path.cameras[view.orbit().index()];
}

absl::Status ServeLoop::BeginRender(Job* job, RunningRender* render) {
  const internal::Render& request = render->request;
  const TrainState* state = nullptr;
  SceneRenderer* renderer = nullptr;
  if (!request.file().empty()) {
    NERF_ASSIGN_OR_RETURN(render->model, models_.Get(request.file()));
    state = &render->model->state;
    renderer = render->model->renderer.get();
  } else if (job != nullptr && job->name() == render->job && job->trainer() != nullptr) {
    render->job_weights = job->CurrentRenderer(request.has_live());
    state = &job->trainer()->state();
    renderer = render->job_weights.get();
  } else {
    // It may have ended since it was asked for; then the caller finds its last checkpoint.
    return WithReason(
        absl::FailedPreconditionError(std::string(NotTraining(render->job).message())),
        reason::kStateConflict);
  }

  NERF_ASSIGN_OR_RETURN(const Camera camera, CameraOfRequest(*state, renderer, render));

  // Beyond the available memory the kernel would kill the process, and the running job with it.
  NERF_RETURN_IF_ERROR(CheckViewFits(camera.width, camera.height, AvailableMemoryBytes()));
  render->step = render->job_weights != nullptr ? job->rendered_step() : state->step;
  render->seen_from.frame = state->geometry.frame;
  RenderOptions options = OptionsOf(*state, render->style, render->channels, camera);
  // Small views that are looked at in passing are to be cheaper than whole ones.
  if (request.has_live() || render->job_weights != nullptr)
    options.rays_per_pixel = RaysPerPixel(state->config);
  if (request.live().moving()) options.rays_per_pixel = 1;
  render->picture = renderer->Begin(camera, options);
  return absl::OkStatus();
}

void ServeLoop::ContinueRender(Job* job, const std::function<bool()>& pause) {
  RunningRender& render = *render_;
  bool paused = false;
  std::exception_ptr lost_rank;
  const auto advance = [&]() -> absl::Status {
    // Not in HandleRender, so that loading a model counts as the render's time.
    if (render.picture == nullptr) {
      NERF_RETURN_IF_ERROR(BeginRender(job, &render));
    }
    if (!render.picture->Advance(pause, render.stop)) {
      if (render.stop.stop_requested()) return StoppedRender();
      paused = true;
      return absl::OkStatus();
    }
    render.view = render.picture->TakePicture();
    return absl::OkStatus();
  };
  const absl::Status status = Guarded([&] {
    try {
      return advance();
    } catch (const GroupError&) {
      lost_rank = std::current_exception();
      return absl::OkStatus();
    }
  });
  // It ends the training. The render goes on after that, on this rank alone.
  if (lost_rank) std::rethrow_exception(lost_rank);
  if (paused) return;
  std::unique_ptr<RunningRender> ended = std::move(render_);
  if (!status.ok()) return EndRequest(ended->id, status);
  FinishRender(std::move(ended));
}

void ServeLoop::FinishRender(std::unique_ptr<RunningRender> render) {
  // A device's memory is released on the thread that uses it.
  render->picture.reset();
  render->job_weights.reset();
  render->model.reset();
  const bool live = render->request.has_live();
  const auto answer = [this, render = std::shared_ptr<const RunningRender>(std::move(render))] {
    internal::EngineMessage rendered;
    const absl::Status status = Guarded([&]() -> absl::Status {
      NERF_ASSIGN_OR_RETURN(rendered, WriteRendered(*render));
      return absl::OkStatus();
    });
    if (status.ok()) return EndRequest(render->id, rendered);
    EndRequest(render->id, status);
  };
  if (live) return answer();
  writer_.Run(answer);
}

absl::StatusOr<internal::EngineMessage> ServeLoop::WriteRendered(const RunningRender& render) {
  const ViewPicture& view = render.view;
  internal::EngineMessage message;
  message.set_id(render.id);
  NERF_ASSIGN_OR_RETURN(*message.mutable_rendered(),
                        WriteRenderedFiles(view, render.id, render.request, render.style,
                                           render.seen_from, render.stop));
  v1::RenderImageResponse& response = *message.mutable_rendered()->mutable_response();
  response.set_width(static_cast<uint32_t>(view.rgba.width));
  response.set_height(static_cast<uint32_t>(view.rgba.height));
  response.set_step(render.step);
  response.set_seconds(absl::ToDoubleSeconds(clock_->Now() - render.begin));
  response.set_path(ParsePathKindWord(render.path));
  response.set_full_width(static_cast<uint32_t>(render.reduced_from.width));
  response.set_full_height(static_cast<uint32_t>(render.reduced_from.height));
  if (!render.capture.empty() && !render.style.panorama.has_value()) {
    const std::optional<double> seen_twice =
        ShareSeenTwice(view, render.seen_from.camera, render.capture);
    if (seen_twice.has_value()) response.set_seen_twice(*seen_twice);
    response.set_far_from_cameras(IsFarFrom(render.seen_from.camera, render.capture));
  }
  return message;
}

void ServeLoop::EndRequest(const std::string& id,
                           const absl::StatusOr<internal::EngineMessage>& answer) {
  requests_.EndRequest(id);
  if (answer.ok()) {
    Send(*answer);
  } else if (!IsOfBrokenDevice(answer.status())) {
    Send(RefusedMessage("", id, answer.status()));
  }
}

void ServeLoop::ReportWorking(const std::string& id, Job* job) {
  if (job != nullptr) return job->Heartbeat();
  const SteadyTime now = clock_->Now();
  if (now - reported_working_ < kServeHeartbeat) return;
  reported_working_ = now;
  internal::EngineMessage message;
  message.set_id(id);
  message.mutable_working();
  Send(message);
}

void ServeLoop::HandleCheck(QueuedRequest queued, Job* job) {
  const std::string& id = queued.request.id();
  const internal::Check& check = queued.request.check();
  // A stop of the job also stops the check, which starts over after the job.
  std::stop_source stop;
  const auto request_stop = [&] { stop.request_stop(); };
  const std::stop_callback of_request(queued.stop, request_stop);
  const std::stop_callback of_job(job != nullptr ? job->stop() : std::stop_token(), request_stop);
  reported_working_ = clock_->Now();
  internal::EngineMessage message;
  const absl::Status status = Guarded([&]() -> absl::Status {
    SceneOptions options;
    options.pool = pool_;
    options.memory_limit_bytes = AvailableMemoryBytes().value_or(0);
    options.stop = stop.get_token();
    options.between_images = [&] { ReportWorking(id, job); };
    if (check.has_test_every()) options.test_every = static_cast<int>(check.test_every());
    options.decode_images = check.out().empty();
    options.to_train = check.out().empty();
    const SceneDescription description = DescribeScene(check.dataset(), options);
    if (stop.stop_requested()) return absl::CancelledError("the check was stopped");
    message = CheckedMessage(id, description);
    if (check.out().empty() || !description.ok()) return absl::OkStatus();
    NERF_RETURN_IF_ERROR(CreateFolder(check.out()));
    const std::string views = check.out() + "/views.binpb";
    message.mutable_checked()->set_views(views);
    return WriteFileAtomically(views, ViewsOf(description).SerializeAsString());
  });
  if (absl::IsCancelled(status) && job != nullptr && job->stop().stop_requested()) {
    requests_.PutBackRequest(std::move(queued));
  } else if (status.ok()) {
    EndRequest(id, message);
  } else {
    EndRequest(id, status);
  }
}

}  // namespace nerf
