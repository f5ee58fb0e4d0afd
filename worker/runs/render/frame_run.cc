#include "worker/runs/render/frame_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "common/logging.h"
#include "common/messages/rpc_status.h"
#include "common/status_macros.h"
#include "worker/base/engine_requests.h"
#include "worker/files/scene_folder.h"

namespace nerf {
namespace {

constexpr size_t kFramesInEngine = 2;  // one is rendered while the next one waits
constexpr size_t kMaxUncommitted = 8;  // rendering pauses while commits fail

}  // namespace

bool FrameRun::Owns(const std::string& request_id) const { return asked_.contains(request_id); }

absl::Duration FrameRun::allowed_silence() const {
  return asked_.empty() ? absl::InfiniteDuration() : options_.render_silence;
}

void FrameRun::Fetch() {
  in_background_ = true;
  const auto file =
      std::make_shared<OpenBlob>(context_.room, context_.cache, grant_.frames().file());
  InBackground(
      Lane::kFetch,
      [file, folder = folder_, stop = stop_.get_token()]() -> CallResult {
        const absl::Status made = MakeFolders(folder);
        return ToCallResult(made.ok() ? file->Open(stop) : made);
      },
      [this, file](const CallResult& result) {
        in_background_ = false;
        if (result.ok()) {
          file_ = file;
          n_left_ = grant_.frames().frames_size();
          for (int task = 0; task < n_left_; ++task) waiting_.push_back(task);
          stage_ = Stage::kWaiting;
          context_.report_changed();
        } else if (const auto pause = PauseAfter(result); pause.has_value()) {
          next_try_ = context_.clock.Now() + *pause;
        }
      });
}

void FrameRun::Begin() {
  stage_ = Stage::kWorking;
  report_.set_phase(v1::JobReport::RUNNING);
  context_.report_changed();
  if (n_left_ == 0) return Finish(v1::JobReport::SUCCEEDED);
  AskEngine();
}

void FrameRun::AskEngine() {
  while (stage_ == Stage::kWorking && !waiting_.empty() && asked_.size() < kFramesInEngine &&
         rendered_.size() < kMaxUncommitted) {
    const int task = waiting_.front();
    waiting_.pop_front();
    internal::WorkerRequest request;
    request.set_id(context_.new_request_id());
    internal::Render& render = *request.mutable_render();
    *render.mutable_view() = grant_.frames().frames(task).view();
    render.set_file(file_->path);
    render.set_out(folder_);
    asked_[request.id()] = task;
    context_.send_to_engine(request);
  }
}

void FrameRun::OnEngineMessage(const internal::EngineMessage& message) {
  if (!message.has_rendered() && !message.has_refused()) return;
  const auto asked = asked_.find(message.id());
  if (asked == asked_.end()) {
    LogWarning("ignored an answer of the engine that is about no frame of this run",
               {{"job", name()}, {"part", grant_.part()}});
    return;
  }
  const int task = asked->second;
  asked_.erase(asked);
  if (ending()) return OnEngineFree();
  if (message.has_rendered()) return TakeFrame(task, message.rendered());
  Fail(ErrorFromRpcStatus(message.refused()));
}

void FrameRun::TakeFrame(int task, const internal::Rendered& rendered) {
  const v1::FrameTask& frame = grant_.frames().frames(task);
  if (rendered.files_size() != frame.view().channels_size()) {
    return Fail(absl::InternalError("the engine rendered another number of images"));
  }
  Rendered taken{frame.index(), {}, rendered.response().far()};
  for (const std::string& file : rendered.files()) {
    const auto path = CheckInsideFolder(folder_, file);
    if (!path.ok()) return Fail(absl::InternalError(path.status().message()));
    taken.images.push_back(*path);
  }
  rendered_.push_back(std::move(taken));
  AskEngine();
  CommitNext();
}

void FrameRun::CommitNext() {
  const bool has_frames = stage_ == Stage::kWorking || stage_ == Stage::kWaiting;
  if (!has_frames || in_background_ || rendered_.empty() || context_.clock.Now() < next_try_) {
    return;
  }
  in_background_ = true;
  const size_t n_frames = rendered_.size();
  InBackground(
      Lane::kCheckpoint,
      [frames = rendered_, request = NewCommit(), &blobs = context_.blobs,
       &server = context_.server, stop = stop_.get_token()]() mutable -> CallResult {
        for (const Rendered& rendered : frames) {
          v1::CommitFramesRequest::Frame* frame = request.add_frames();
          frame->set_index(rendered.index);
          frame->set_far(rendered.far);
          for (const std::string& image : rendered.images) {
            const auto blob = UploadOwnFile(blobs, image, stop);
            if (!blob.ok()) return ToCallResult(blob.status());
            *frame->add_images() = *blob;
          }
        }
        const CallResult result = server.CommitFrames(request, stop);
        std::error_code ignored;
        for (const Rendered& rendered : frames) {
          if (!result.ok()) break;
          for (const std::string& image : rendered.images) {
            std::filesystem::remove(image, ignored);
          }
        }
        return result;
      },
      [this, n_frames](const CallResult& result) {
        in_background_ = false;
        if (!result.ok()) {
          if (const auto pause = PauseAfter(result); pause.has_value()) {
            next_try_ = context_.clock.Now() + *pause;
          }
          return;
        }
        rendered_.erase(rendered_.begin(), rendered_.begin() + static_cast<int64_t>(n_frames));
        n_left_ -= static_cast<int>(n_frames);
        if (n_left_ == 0) return Finish(v1::JobReport::SUCCEEDED);
        AskEngine();
        CommitNext();
      });
}

void FrameRun::OnEngineExit(const EngineExit& exit, bool shared) {
  const bool had_frames = !std::exchange(asked_, {}).empty();
  if (ending()) return OnEngineFree();
  if (had_frames) return FinishCrashed("the engine process ended: " + exit.Describe(), shared);
  if (stage_ == Stage::kWorking && !waiting_.empty()) stage_ = Stage::kWaiting;
}

void FrameRun::Tick() {
  const bool is_due = !in_background_ && context_.clock.Now() >= next_try_;
  if (stage_ == Stage::kFetching && is_due) Fetch();
  if (is_due) CommitNext();
  if (stage_ == Stage::kStopping && !killing_ && context_.clock.Now() >= stop_deadline_) {
    killing_ = true;
    LogWarning("the engine does not give up a frame, killing it", {{"job", name()}});
    context_.kill_engine(EngineExit::Kind::kKilled);
  }
}

void FrameRun::StopEngine() {
  waiting_.clear();
  for (const auto& [id, task] : asked_) context_.send_to_engine(CancelRequest(id));
  stop_deadline_ = context_.clock.Now() + options_.stop_timeout;
}

}  // namespace nerf
