#include "worker/frame_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "common/status_macros.h"
#include "worker/engine_convert.h"
#include "worker/scene_folder.h"

namespace nerf {
namespace {

constexpr size_t kFramesInEngine = 2;  // one is rendered while the next one waits
constexpr size_t kMaxUncommitted = 8;  // rendering pauses while commits fail

}  // namespace

struct FrameRun::OpenFile {
  const std::shared_ptr<EngineRoom> room;
  BlobCache& cache;
  std::string sha256;
  std::string path = {};  // empty before it is downloaded

  ~OpenFile() {
    if (!path.empty()) room->Close(cache, sha256);
  }
};

FrameRun::~FrameRun() = default;

std::string FrameRun::RequestId(int task) const {
  return fmt::format("f{}-{}-{}", lease_epoch(), grant_.part(), task);
}

bool FrameRun::Owns(const std::string& request_id) const { return asked_.contains(request_id); }

absl::Duration FrameRun::allowed_silence() const {
  return asked_.empty() ? absl::InfiniteDuration() : options_.render_silence;
}

void FrameRun::Fetch() {
  in_background_ = true;
  const v1::BlobRef& blob = grant_.frames().file();
  const std::shared_ptr<OpenFile> file(new OpenFile{context_.room, context_.cache, blob.sha256()});
  InBackground(
      Lane::kFetch,
      [file, folder = folder_, blob, stop = stop_.get_token()]() -> CallResult {
        const absl::Status made = MakeFolders(folder);
        if (!made.ok()) return ToCallResult(made);
        const auto path = file->room->Open(file->cache, blob, stop);
        if (path.ok()) file->path = *path;
        return ToCallResult(path.status());
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
    protocol::Render render = ToProtocol(grant_.frames().frames(task).view());
    render.id = RequestId(task);
    render.file = file_->path;
    render.out = folder_;
    asked_[render.id] = task;
    context_.send_to_engine(render);
  }
}

void FrameRun::OnEngineMessage(const protocol::EngineMessage& message) {
  if (stage_ != Stage::kWorking) return;
  if (const auto* rendered = std::get_if<protocol::Rendered>(&message)) {
    const auto asked = asked_.find(rendered->id);
    if (asked == asked_.end()) return;
    const int task = asked->second;
    asked_.erase(asked);
    TakeFrame(task, *rendered);
  } else if (const auto* refused = std::get_if<protocol::Refused>(&message)) {
    asked_.erase(refused->id);
    Fail(ToStatus(refused->error));
  }
}

void FrameRun::TakeFrame(int task, const protocol::Rendered& rendered) {
  const v1::FrameTask& frame = grant_.frames().frames(task);
  Rendered taken{frame.index(), {}, rendered.far};
  for (const int channel : frame.view().channels()) {
    const std::string name(ChannelName(static_cast<v1::RenderChannel>(channel)));
    const auto file = rendered.files.find(name);
    if (file == rendered.files.end()) {
      return Fail(absl::InternalError(fmt::format("the engine rendered no {}", name)));
    }
    const auto path = CheckInsideFolder(folder_, file->second);
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
  if (stage_ != Stage::kWorking) return;
  if (!asked_.empty()) return PartRun::OnEngineExit(exit, shared);
  if (!waiting_.empty()) stage_ = Stage::kWaiting;  // for the next engine
}

void FrameRun::Tick() {
  const bool is_due = !in_background_ && context_.clock.Now() >= next_try_;
  if (stage_ == Stage::kFetching && is_due) Fetch();
  if (is_due) CommitNext();
}

void FrameRun::StopEngine() {
  for (const auto& [id, task] : asked_) context_.send_to_engine(protocol::Cancel{id});
  asked_.clear();
  waiting_.clear();
}

}  // namespace nerf
