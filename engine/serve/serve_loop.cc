#include "engine/serve/serve_loop.h"

#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>
#include <variant>

#include "common/atomic_file.h"
#include "common/error_reason.h"
#include "common/log_options.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "engine/config/view_style_check.h"
#include "engine/group/group.h"
#include "engine/output/view_paths.h"
#include "engine/output/view_request.h"
#include "engine/output/view_style.h"
#include "engine/parameters/memory_estimate.h"
#include "engine/protocol/engine_message.h"
#include "engine/protocol/scene_views.h"
#include "engine/serve/protocol_convert.h"
#include "engine/serve/rendered_files.h"
#include "engine/serve/serve_gang.h"
#include "engine/serve/serve_job.h"
#include "engine/training/exception_border.h"
#include "engine/training/loaded_model.h"
#include "engine/training/rank_training.h"
#include "engine/training/training_methods.h"
#include "engine/training/training_run.h"
#include "fmt/format.h"

namespace nerf {
namespace {

protocol::Refused RefusedRequest(const std::string& id, const absl::Status& status) {
  return {id, "", ToProtocol(status)};
}
protocol::Refused RefusedForJob(const std::string& job, const absl::Status& status) {
  return {"", job, ToProtocol(status)};
}

absl::Status StoppedRender() { return absl::CancelledError("the render was stopped"); }

absl::Status NotTraining(const std::string& job) {
  return absl::NotFoundError(fmt::format("job {} is not in training", job.substr(0, 64)));
}

}  // namespace

// A running render. It owns what it renders from, so that the training can continue.
struct ServeLoop::RunningRender {
  protocol::Render request;
  ViewChannels channels;
  std::stop_token stop;
  SteadyTime begin;
  std::shared_ptr<const LoadedModel> model;    // of a file, or
  std::shared_ptr<SceneRenderer> job_weights;  // of the running job
  uint32_t step = 0;
  float scale = 1;   // of the scene
  Camera camera;     // training frame
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
      socket_(options_.fd),
      models_(options_.model_cache_bytes, render_device) {}

ServeLoop::~ServeLoop() = default;

void ServeLoop::ReadUntilEnd() {
  socket_.ReadLines(
      [this](const std::string& line) { requests_.PutLine(line); },
      [this] { requests_.PutError(absl::InvalidArgumentError("a line of more than 1 MiB")); });
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
  Send(protocol::Hello{NERF_VERSION, options_.device, options_.device_description,
                       static_cast<uint32_t>(pool_->n_threads()), TrainingMethods(options_.device),
                       MergingMethods(options_.device), options_.writes_nanovdb});
  std::thread reader([this] { ReadUntilEnd(); });
  while (broken_.ok()) {
    ChooseRender();
    std::optional<QueuedRequest> request =
        render_ != nullptr ? requests_.TryTakeUrgent() : requests_.WaitTake();
    if (request.has_value()) {
      Handle(*std::move(request), nullptr);
    } else if (render_ != nullptr) {
      ContinueRender(nullptr, [this] {
        ReportWorking(render_->request.id, nullptr);
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
  return render_ != nullptr && suspended_ == nullptr && !render_->request.live &&
         requests_.HasLive();
}

bool ServeLoop::IsSuspendedCancelled() {
  return suspended_ != nullptr && suspended_->stop.stop_requested();
}

bool ServeLoop::MustChoose() { return IsOutranked() || IsSuspendedCancelled(); }

void ServeLoop::ChooseRender() {
  if (IsSuspendedCancelled()) {
    EndRequest(std::exchange(suspended_, nullptr)->request.id, StoppedRender());
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

void ServeLoop::Send(const protocol::EngineMessage& message) {
  // The worker has gone. Shutdown ends the reader, which ends the rest.
  MutexLock lock(send_mu_);
  if (!socket_.Write(protocol::ToLine(message))) socket_.Shutdown();
}

void ServeLoop::Handle(QueuedRequest queued, Job* job) {
  if (queued.cancelled) {
    EndRequest(queued.received.id, absl::CancelledError("cancelled"));
  } else if (!queued.ok()) {
    Refuse(queued.received, job != nullptr);
  } else {
    std::visit([&](const auto& request) { HandleRequest(request, queued, job); },
               *queued.received.request);
  }
}

void ServeLoop::Refuse(const protocol::ReceivedRequest& wrong, bool in_job) {
  const absl::Status& status = wrong.request.status();
  // A job with invalid fields ends here, if its name can be part of an answer.
  if (wrong.type == "train" && !in_job && !wrong.job.empty() &&
      wrong.job.size() <= protocol::kMaxNameBytes) {
    Send(protocol::Failed{wrong.job, ToProtocol(status), {}});
  } else {
    Send(protocol::Refused{wrong.id, wrong.job, ToProtocol(status)});
  }
}

void ServeLoop::HandleRequest(const protocol::Train& train, QueuedRequest&, Job* job) {
  if (job != nullptr) {
    Send(RefusedForJob(train.job, WithReason(absl::FailedPreconditionError(
                                                 fmt::format("job {} is in training", job->name())),
                                             reason::kBusy)));
    return;
  }
  NoteJobOrigin("", train.job, train.request_id, train.traceparent);
  Job new_job(this, train, requests_.BeginJob(train.job));
  std::vector<SceneProblem> problems;
  const absl::Status status = Guarded([&] { return Train(train, &new_job, &problems); });
  requests_.EndJob();
  if (!status.ok() && !IsOfBrokenDevice(status)) {
    Send(protocol::Failed{train.job, ToProtocol(status), ToProtocol(problems), LostRank(status)});
  }
}

absl::Status ServeLoop::Train(const protocol::Train& message, Job* job,
                              std::vector<SceneProblem>* problems) {
  NERF_ASSIGN_OR_RETURN(TrainRequest request, ToTrainRequest(message));
  NERF_RETURN_IF_ERROR(CreateFolder(message.out));
  request.device = options_.device;
  const auto is_stopped = [&] { return job->stop().stop_requested(); };
  absl::StatusOr<std::unique_ptr<RankSession>> met = MeetRanks(message, request.config);
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
  options.trainer.checkpoint_interval = absl::Seconds(message.checkpoint_interval_seconds);
  options.trainer.preview_interval = absl::Seconds(message.preview_interval_seconds);
  options.trainer.render_device = render_device_;
  options.trainer.group = request.group;
  if (ranks != nullptr && request.group->rank() > 0) {
    return FollowRanks(job, ranks.get(), session->get());
  }
  absl::StatusOr<TrainingRunResult> run = LeadTraining(
      ranks.get(), session->get(), options, pool_, clock_, job, LogRanks(message.job), job->stop());
  if (ranks != nullptr && !run.ok()) {
    return is_stopped() ? job->OnStopped() : WithLostRank(run.status(), ranks->lost_rank());
  }
  NERF_ASSIGN_OR_RETURN(TrainingRunResult result, std::move(run));
  if (result.outcome == TrainOutcome::kStopped) return absl::OkStatus();
  NERF_RETURN_IF_ERROR(job->AwaitFiles());
  result.summary.checkpoint = job->checkpoint();
  result.summary.model = job->model();
  Send(protocol::Done{message.job, std::move(result.summary), ToProtocol(result.test_views)});
  return absl::OkStatus();
}

void ServeLoop::HandleRequest(const protocol::Stop& stop, QueuedRequest&, Job* job) {
  if (job != nullptr && job->name() == stop.job) {
    job->RequestStop(stop.checkpoint);
  } else {
    Send(RefusedForJob(stop.job, NotTraining(stop.job)));
  }
}

void ServeLoop::HandleRequest(const protocol::Render& render, QueuedRequest& queued, Job*) {
  const absl::StatusOr<ViewChannels> channels = ParseChannels(render.channels);
  if (!channels.ok()) {
    EndRequest(render.id, channels.status());
    return;
  }
  if (const absl::Status style = CheckStyle(render.style); !style.ok()) {
    EndRequest(render.id, style);
    return;
  }
  render_ = std::make_unique<RunningRender>();
  render_->request = render;
  render_->channels = *channels;
  render_->stop = queued.stop;
  render_->begin = reported_working_ = clock_->Now();
}

absl::StatusOr<Camera> ServeLoop::CameraOfRequest(const TrainState& state, SceneRenderer* renderer,
                                                  RunningRender* render) {
  const protocol::Render& request = render->request;
  if (!request.live) render->capture = CaptureCamerasOf(state);  // seen_twice takes too long
  if (!request.camera.empty()) {
    NERF_ASSIGN_OR_RETURN(
        const std::vector<Camera> cameras,
        request.style.panorama.has_value()
            ? CamerasFromText(request.camera, "camera", state, 0, 0)
            : CamerasFromText(request.camera, "camera", state, request.width, request.height));
    if (cameras.size() != 1) {
      return absl::InvalidArgumentError("camera.frames: must hold one frame");
    }
    Camera camera = cameras.front();
    if (request.style.panorama.has_value()) {
      NERF_ASSIGN_OR_RETURN(
          camera, AsPanorama(camera, state.geometry.frame, *request.style.panorama, request.width,
                             request.height));
    }
    return render->camera = camera;
  }
  const std::optional<PathKind> kind = ParsePathKind(request.path);
  if (!kind.has_value()) return absl::InvalidArgumentError("orbit.path: is not a known path");
  // Of weights in training the object is left out: the views of one path would differ by it.
  const PathScene scene =
      render->model != nullptr ? PathSceneOf(*render->model) : PathSceneOf(state, renderer);
  NERF_ASSIGN_OR_RETURN(const ViewPath path,
                        CamerasOfPath(state, scene,
                                      {*kind, request.orbit_count, request.width, request.height,
                                       !request.full_size, request.style.panorama}));
  render->path = std::string(PathKindName(path.kind));
  render->reduced_from = path.reduced_from;
  return render->camera = path.cameras[static_cast<size_t>(request.orbit_index)];
}

absl::Status ServeLoop::BeginRender(Job* job, RunningRender* render) {
  const protocol::Render& request = render->request;
  const TrainState* state = nullptr;
  SceneRenderer* renderer = nullptr;
  if (!request.file.empty()) {
    NERF_ASSIGN_OR_RETURN(render->model, models_.Get(request.file));
    state = &render->model->state;
    renderer = render->model->renderer.get();
  } else if (job != nullptr && job->name() == request.job && job->trainer() != nullptr) {
    render->job_weights = job->CurrentRenderer(request.live);
    state = &job->trainer()->state();
    renderer = render->job_weights.get();
  } else {
    // It may have ended since it was asked for; then the caller finds its last checkpoint.
    return WithReason(
        absl::FailedPreconditionError(std::string(NotTraining(request.job).message())),
        reason::kStateConflict);
  }

  NERF_ASSIGN_OR_RETURN(const Camera camera, CameraOfRequest(*state, renderer, render));

  // Beyond the available memory the kernel would kill the process, and the running job with it.
  NERF_RETURN_IF_ERROR(CheckViewFits(camera.width, camera.height, AvailableMemoryBytes()));
  render->step = render->job_weights != nullptr ? job->rendered_step() : state->step;
  render->scale = state->geometry.frame.scale;
  RenderOptions options = OptionsOf(*state, request.style, render->channels, camera);
  // Small views that are looked at in passing are to be cheaper than whole ones.
  if (request.live || render->job_weights != nullptr)
    options.rays_per_pixel = RaysPerPixel(state->config);
  if (request.moving) options.rays_per_pixel = 1;
  render->picture = renderer->Begin(camera, options);
  return absl::OkStatus();
}

void ServeLoop::ContinueRender(Job* job, const std::function<bool()>& pause) {
  RunningRender& render = *render_;
  bool paused = false;
  std::exception_ptr lost_rank;
  const auto advance = [&]() -> absl::Status {
    // Not in HandleRequest, so that loading a model counts as the render's time.
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
  if (!status.ok()) return EndRequest(ended->request.id, status);
  FinishRender(std::move(ended));
}

void ServeLoop::FinishRender(std::unique_ptr<RunningRender> render) {
  // A device's memory is released on the thread that uses it.
  render->picture.reset();
  render->job_weights.reset();
  render->model.reset();
  const bool live = render->request.live;
  const auto answer = [this, render = std::shared_ptr<const RunningRender>(std::move(render))] {
    protocol::Rendered rendered;
    const absl::Status status = Guarded([&]() -> absl::Status {
      NERF_ASSIGN_OR_RETURN(rendered, WriteRendered(*render));
      return absl::OkStatus();
    });
    if (status.ok()) return EndRequest(render->request.id, rendered);
    EndRequest(render->request.id, status);
  };
  if (live) return answer();
  writer_.Run(answer);
}

absl::StatusOr<protocol::Rendered> ServeLoop::WriteRendered(const RunningRender& render) {
  const ViewPicture& view = render.view;
  NERF_ASSIGN_OR_RETURN(
      RenderedFiles written,
      WriteRenderedFiles(view, render.request, render.channels, render.scale, render.stop));
  protocol::Rendered rendered;
  rendered.id = render.request.id;
  rendered.files = std::move(written.files);
  rendered.width = static_cast<uint32_t>(view.rgba.width);
  rendered.height = static_cast<uint32_t>(view.rgba.height);
  rendered.far = written.far;
  rendered.step = render.step;
  rendered.seconds = absl::ToDoubleSeconds(clock_->Now() - render.begin);
  rendered.path = render.path;
  rendered.full_width = static_cast<uint32_t>(render.reduced_from.width);
  rendered.full_height = static_cast<uint32_t>(render.reduced_from.height);
  if (!render.capture.empty() && !render.request.style.panorama.has_value()) {
    rendered.seen_twice = ShareSeenTwice(view, render.camera, render.capture);
    rendered.far_from_cameras = IsFarFrom(render.camera, render.capture);
  }
  return rendered;
}

void ServeLoop::EndRequest(const std::string& id,
                           const absl::StatusOr<protocol::EngineMessage>& answer) {
  requests_.EndRequest(id);
  if (answer.ok()) {
    Send(*answer);
  } else if (!IsOfBrokenDevice(answer.status())) {
    Send(RefusedRequest(id, answer.status()));
  }
}

void ServeLoop::ReportWorking(const std::string& id, Job* job) {
  if (job != nullptr) return job->Heartbeat();
  const SteadyTime now = clock_->Now();
  if (now - reported_working_ < kServeHeartbeat) return;
  reported_working_ = now;
  Send(protocol::Working{id});
}

void ServeLoop::HandleRequest(const protocol::Check& check, QueuedRequest& queued, Job* job) {
  // A stop of the job also stops the check, which starts over after the job.
  std::stop_source stop;
  const auto request_stop = [&] { stop.request_stop(); };
  const std::stop_callback of_request(queued.stop, request_stop);
  const std::stop_callback of_job(job != nullptr ? job->stop() : std::stop_token(), request_stop);
  reported_working_ = clock_->Now();
  protocol::Checked checked;
  const absl::Status status = Guarded([&]() -> absl::Status {
    SceneOptions options;
    options.pool = pool_;
    options.memory_limit_bytes = AvailableMemoryBytes().value_or(0);
    options.stop = stop.get_token();
    options.between_images = [&] { ReportWorking(check.id, job); };
    if (check.test_every.has_value()) options.test_every = static_cast<int>(*check.test_every);
    options.decode_images = check.out.empty();
    const SceneDescription description = DescribeScene(check.dataset, options);
    if (stop.stop_requested()) return absl::CancelledError("the check was stopped");
    checked = ToChecked(check.id, description);
    if (check.out.empty() || !checked.ok) return absl::OkStatus();
    NERF_RETURN_IF_ERROR(CreateFolder(check.out));
    checked.views = check.out + "/views.json";
    return WriteFileAtomically(checked.views, protocol::ToText(SceneViewsOf(description)));
  });
  if (absl::IsCancelled(status) && job != nullptr && job->stop().stop_requested()) {
    requests_.PutBackRequest(std::move(queued));
  } else if (status.ok()) {
    EndRequest(checked.id, checked);
  } else {
    EndRequest(check.id, status);
  }
}

}  // namespace nerf
