#include "worker/request_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/logging.h"
#include "common/messages/rpc_status.h"
#include "common/messages/worker_limits.h"
#include "common/status_macros.h"
#include "common/trace_context.h"
#include "nerf/v1/scene_service.pb.h"
#include "worker/base/cut_lists.h"
#include "worker/base/engine_requests.h"
#include "worker/files/scene_folder.h"
#include "worker/scene_description.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

absl::Status WorkerLost(std::string_view what) {
  return WithReason(absl::UnavailableError(std::string(what)), reason::kWorkerLost);
}

// The bytes of a RenderImageResponse with the images that the engine wrote into `folder`. Requires:
// as many files as images. Errors: Internal for a file that is missing or elsewhere;
// ResourceExhausted SIZE_LIMIT.
absl::StatusOr<std::string> AssembleReply(const internal::Rendered& rendered,
                                          const v1::RenderImageRequest& view,
                                          const std::string& folder, const std::string& worker,
                                          size_t max_bytes) {
  v1::RenderImageResponse response = rendered.response();
  response.DiscardUnknownFields();
  response.clear_crop();
  response.set_worker("workers/" + worker);
  if (!std::isfinite(response.far())) response.set_far(0);
  if (!std::isfinite(response.seconds())) response.set_seconds(0);
  if (!(response.seen_twice() >= 0 && response.seen_twice() <= 1)) response.clear_seen_twice();
  for (int i = 0; i < rendered.files_size(); ++i) {
    const auto path = CheckInsideFolder(folder, rendered.files(i));
    if (!path.ok()) return absl::InternalError(std::string(path.status().message()));
    v1::RenderedImage& image = *response.mutable_images(i);
    image.Clear();
    image.set_channel(view.channels().empty() ? v1::RGB : view.channels(i));
    NERF_ASSIGN_OR_RETURN(*image.mutable_content(), ReadFile(*path, max_bytes));
  }
  std::string reply = response.SerializeAsString();
  if (reply.size() <= max_bytes) return reply;
  return WithReason(absl::ResourceExhaustedError(fmt::format(
                        "the images have {} bytes, a reply may have {}; ask for a smaller view, "
                        "fewer channels or JPEG",
                        reply.size(), max_bytes)),
                    reason::kSizeLimit);
}

}  // namespace

RequestBoard::RequestBoard(RequestBoardOptions options, RequestContext context)
    : options_(std::move(options)),
      context_(std::move(context)),
      self_(std::make_shared<RequestBoard*>(this)) {}

RequestBoard::~RequestBoard() {
  *self_ = nullptr;
  while (!requests_.empty()) Forget(requests_.begin());
}

bool RequestBoard::InEngine(int engine) const {
  return std::any_of(cancelled_.begin(), cancelled_.end(),
                     [&](const auto& entry) { return entry.second.engine == engine; }) ||
         std::any_of(requests_.begin(), requests_.end(), [&](const auto& entry) {
           return entry.second.stage == Stage::kInEngine && entry.second.engine == engine;
         });
}

v1::WorkerReply RequestBoard::TakeReply() {
  v1::WorkerReply reply = std::move(replies_.front());
  replies_.pop_front();
  reply_bytes_ -= reply.chunk().size();
  AssembleWaiting();
  return reply;
}

bool RequestBoard::IsFull() const {
  return requests_.size() + cancelled_.size() >= options_.max_requests ||
         n_tasks_ >= options_.max_tasks;
}

void RequestBoard::Run(TaskRunner::Action work, TaskRunner::Action done) {
  ++n_tasks_;
  context_.tasks.Run(Lane::kRequest, std::move(work), [self = self_, done = std::move(done)] {
    if (*self != nullptr) --(*self)->n_tasks_;
    done();
  });
}

void RequestBoard::Handle(const v1::ServerRequest& request) {
  if (request.action_case() == v1::ServerRequest::kCancel) {
    std::erase_if(replies_, [&](const v1::WorkerReply& reply) {
      if (reply.request_id() != request.request_id()) return false;
      reply_bytes_ -= reply.chunk().size();
      return true;
    });
    for (auto it = requests_.begin(); it != requests_.end(); ++it) {
      if (it->second.request.request_id() != request.request_id()) continue;
      GiveUp(it);
      break;
    }
    return;
  }
  if (IsFull()) {
    AddError(request.request_id(),
             WithReason(absl::ResourceExhaustedError("the worker has too many requests"),
                        reason::kQueueFull));
    return;
  }
  const std::string id = context_.new_request_id();
  Request& added = requests_[id];
  added.request = request;
  added.serial = ++serial_;
  const std::string& job = request.render().job();
  added.room = context_.room_of(job.empty() ? request.project() : ProjectOf(job));
  added.folder = fmt::format("{}/{}", added.room->requests(), id);
  switch (request.action_case()) {
    case v1::ServerRequest::kRender:
      FetchModel(id, added);
      break;
    case v1::ServerRequest::kValidate:
      FetchScene(id, added, request.validate().files());
      break;
    case v1::ServerRequest::kDescribe:
      FetchScene(id, added, request.describe().files());
      break;
    default:
      ReplyError(requests_.find(id), absl::UnimplementedError("unknown kind of request"));
  }
}

void RequestBoard::FetchModel(const std::string& id, Request& request) {
  const v1::RenderTask& task = request.request.render();
  struct Fetched {
    CallResult result;
    std::string path;
  };
  auto fetched = std::make_shared<Fetched>();
  if (task.has_file()) request.open = task.file().sha256();
  Run(
      [fetched, task, folder = request.folder, room = request.room, &cache = context_.cache,
       stop = request.stop.get_token()] {
        const auto fetch = [&]() -> absl::Status {
          NERF_RETURN_IF_ERROR(MakeFolders(folder));
          if (!task.has_file()) return absl::OkStatus();
          auto path = room->Open(cache, task.file(), stop);
          if (path.ok()) fetched->path = *std::move(path);
          return path.status();
        };
        fetched->result = ToCallResult(fetch());
      },
      [self = self_, id, fetched, room = request.room, &cache = context_.cache,
       sha256 = request.open] {
        if (*self != nullptr && (*self)->requests_.contains(id)) {
          (*self)->OnFetched(id, fetched->result, fetched->path);
        } else if (!fetched->path.empty()) {
          room->Close(cache, sha256);
        }
      });
}

void RequestBoard::FetchScene(const std::string& id, Request& request, const SceneManifest& files) {
  auto result = std::make_shared<CallResult>();
  Run(
      [result, files, folder = request.folder, room = request.room, &cache = context_.cache,
       stop = request.stop.get_token()] {
        *result = ToCallResult(LayOutScene(files, folder + "/scene", cache, stop));
      },
      [self = self_, id, result] {
        if (*self != nullptr && (*self)->requests_.contains(id))
          (*self)->OnFetched(id, *result, "");
      });
}

void RequestBoard::OnFetched(const std::string& id, const CallResult& result,
                             const std::string& file) {
  const auto it = requests_.find(id);
  Request& request = it->second;
  if (file.empty()) request.open.clear();
  if (!result.ok()) {
    ReplyError(it, ToStatus(result));
    return;
  }
  request.file = file;
  request.stage = Stage::kWaiting;
  AskWaiting();
}

void RequestBoard::AskEngine(const std::string& id, Request& request, int engine) {
  request.engine = engine;
  internal::WorkerRequest asked;
  asked.set_id(id);
  if (request.request.has_validate() || request.request.has_describe()) {
    internal::Check& check = *asked.mutable_check();
    check.set_dataset(request.folder + "/scene");
    if (request.request.has_describe()) check.set_out(request.folder);
    if (request.request.describe().has_test_every()) {
      check.set_test_every(request.request.describe().test_every());
    }
    request.stage = Stage::kInEngine;
    context_.send_to_engine(engine, asked);
    return;
  }
  const v1::RenderTask& task = request.request.render();
  internal::Render& render = *asked.mutable_render();
  *render.mutable_view() = task.view();
  if (task.has_live()) {
    *render.mutable_live() = task.live();
    render.mutable_live()->set_jpeg_quality(std::clamp(task.live().jpeg_quality(), 1u, 100u));
  }
  render.set_out(request.folder);
  render.set_file(request.file);
  if (request.file.empty()) {
    const std::optional<std::string> key = context_.training_key(task.job());
    if (!key.has_value()) {
      ReplyError(requests_.find(id),
                 WithReason(absl::FailedPreconditionError(
                                fmt::format("{} is not in training on this worker", task.job())),
                            reason::kStateConflict));
      return;
    }
    asked.set_job(*key);
  }
  request.stage = Stage::kInEngine;
  context_.send_to_engine(engine, asked);
}

void RequestBoard::AskWaiting() {
  std::map<int, std::string> waiting;  // oldest first
  for (const auto& [id, request] : requests_) {
    if (request.stage == Stage::kWaiting) waiting[request.serial] = id;
  }
  context_.begin_asking();
  for (const auto& [serial, id] : waiting) {
    Request& request = requests_.at(id);
    const std::optional<int> engine = context_.engine_for(request.room);
    if (engine.has_value()) AskEngine(id, request, *engine);
  }
}

void RequestBoard::OnEngineExit(int engine) {
  std::erase_if(cancelled_, [&](const auto& entry) { return entry.second.engine == engine; });
  std::vector<std::string> lost;
  for (const auto& [id, request] : requests_) {
    if (request.stage == Stage::kInEngine && request.engine == engine) lost.push_back(id);
  }
  for (const std::string& id : lost) {
    ReplyError(requests_.find(id), WorkerLost("the engine process ended; try again"));
  }
}

void RequestBoard::OnEngineHopeless(const EngineRoom& room, const std::string& why) {
  std::vector<std::string> lost;
  for (const auto& [id, request] : requests_) {
    if (request.stage == Stage::kWaiting && request.room.get() == &room) lost.push_back(id);
  }
  for (const std::string& id : lost) {
    ReplyError(
        requests_.find(id),
        WorkerLost(fmt::format("an engine for it does not start here: {}", WithoutPaths(why))));
  }
}

RequestBoard::Requests::iterator RequestBoard::Asked(const std::string& id, int engine) {
  const auto it = requests_.find(id);
  const bool is_asked =
      it != requests_.end() && it->second.stage == Stage::kInEngine && it->second.engine == engine;
  return is_asked ? it : requests_.end();
}

void RequestBoard::OnEngineMessage(int engine, const internal::EngineMessage& message) {
  if (!message.has_rendered() && !message.has_checked() && !message.has_refused()) return;
  if (LetGo(engine, message.id())) return;
  const auto it = Asked(message.id(), engine);
  if (it == requests_.end()) {
    LogWarning("ignored an answer of the engine to a request that it does not have",
               {{"id", message.id()}});
  } else if (message.has_rendered()) {
    OnRendered(it, message.rendered());
  } else if (message.has_checked()) {
    OnChecked(it, message.checked());
  } else {
    ReplyError(it, ErrorFromRpcStatus(message.refused()));
  }
}

void RequestBoard::OnRendered(Requests::iterator it, const internal::Rendered& rendered) {
  if (!it->second.request.has_render()) return;
  const int n_channels = std::max(1, it->second.request.render().view().channels_size());
  if (rendered.files_size() != n_channels || rendered.response().images_size() != n_channels) {
    return ReplyError(it, absl::InternalError("the engine rendered another number of images"));
  }
  Assemble(it->first,
           [rendered, view = it->second.request.render().view(), folder = it->second.folder,
            worker = options_.worker_id, max_bytes = options_.max_reply_bytes] {
             return AssembleReply(rendered, view, folder, worker, max_bytes);
           });
}

void RequestBoard::Assemble(const std::string& id,
                            std::function<absl::StatusOr<std::string>()> assemble) {
  Request& request = requests_.at(id);
  request.stage = Stage::kReading;
  request.assemble = std::move(assemble);
  to_assemble_.push_back(id);
  AssembleWaiting();
}

void RequestBoard::AssembleWaiting() {
  while (!assembling_ && !to_assemble_.empty() && reply_bytes_ < options_.max_waiting_bytes) {
    const std::string id = std::move(to_assemble_.front());
    to_assemble_.pop_front();
    const auto it = requests_.find(id);
    if (it == requests_.end()) continue;
    assembling_ = true;
    struct Read {
      CallResult result;
      std::string reply;
    };
    auto read = std::make_shared<Read>();
    Run(
        [read, assemble = std::move(it->second.assemble)] {
          auto reply = assemble();
          read->result = ToCallResult(reply.status());
          if (reply.ok()) read->reply = *std::move(reply);
        },
        [self = self_, id, read] {
          if (*self == nullptr) return;
          (*self)->assembling_ = false;
          if (const auto found = (*self)->requests_.find(id); found != (*self)->requests_.end()) {
            if (read->result.ok()) {
              (*self)->Reply(found, read->reply);
            } else {
              (*self)->ReplyError(found, ToStatus(read->result));
            }
          }
          (*self)->AssembleWaiting();
        });
  }
}

void RequestBoard::OnChecked(Requests::iterator it, const internal::Checked& checked) {
  if (it->second.request.has_describe()) return OnDescribed(it, checked);
  if (!it->second.request.has_validate()) return;
  const std::string& folder = it->second.folder;
  v1::ValidateSceneResponse response = checked.response();
  response.DiscardUnknownFields();
  CutProblems(response.mutable_problems());
  CutTo(kMaxProblems, response.mutable_warnings());
  response.set_summary(WithoutFolder(response.summary(), folder));
  for (v1::SceneProblem& problem : *response.mutable_problems()) {
    problem.set_message(WithoutFolder(problem.message(), folder));
  }
  for (std::string& warning : *response.mutable_warnings()) {
    warning = WithoutFolder(warning, folder);
  }
  Reply(it, response.SerializeAsString());
}

void RequestBoard::OnDescribed(Requests::iterator it, const internal::Checked& checked) {
  const Request& request = it->second;
  Assemble(it->first, [checked, task = request.request.describe(), folder = request.folder,
                       max_bytes = options_.max_reply_bytes] {
    return AssembleDescription(checked, task, folder, max_bytes);
  });
}

void RequestBoard::Reply(Requests::iterator it, const std::string& bytes) {
  const std::string& request_id = it->second.request.request_id();
  size_t begin = 0;
  do {
    v1::WorkerReply& reply = replies_.emplace_back();
    reply.set_request_id(request_id);
    reply.set_chunk(bytes.substr(begin, options_.chunk_bytes));
    begin += options_.chunk_bytes;
    reply.set_last(begin >= bytes.size());
    reply_bytes_ += reply.chunk().size();
  } while (begin < bytes.size());
  Forget(it);
}

void RequestBoard::ReplyError(Requests::iterator it, const absl::Status& status) {
  const v1::CallOrigin& origin = it->second.request.origin();
  const auto trace = ParseTraceparent(origin.traceparent());
  LogWarning("a request failed", {{"request_id", origin.request_id()},
                                  {"trace_id", trace.has_value() ? trace->trace_id : ""},
                                  {"error", std::string(status.message())}});
  AddError(it->second.request.request_id(), WithoutFolder(status, it->second.folder));
  Forget(it);
}

void RequestBoard::AddError(const std::string& request_id, const absl::Status& status) {
  v1::WorkerReply& reply = replies_.emplace_back();
  reply.set_request_id(request_id);
  reply.set_last(true);
  *reply.mutable_error() = ToRpcStatus(status);
}

void RequestBoard::GiveUp(Requests::iterator it) {
  if (it->second.stage == Stage::kInEngine) {
    const Request& request = it->second;
    cancelled_[it->first] = {request.engine, request.folder, request.room};
    context_.send_to_engine(request.engine, CancelRequest(it->first));
  }
  Forget(it);
}

void RequestBoard::Forget(Requests::iterator it) {
  Request& request = it->second;
  request.stop.request_stop();
  // A running download closes the file itself when it finds the request gone.
  if (!request.open.empty() && request.stage != Stage::kFetching) {
    request.room->Close(context_.cache, request.open);
  }
  RemoveFolder(request.folder, request.room);
  requests_.erase(it);
}

bool RequestBoard::LetGo(int engine, const std::string& id) {
  const auto it = cancelled_.find(id);
  if (it == cancelled_.end() || it->second.engine != engine) return false;
  // The engine may have written files after the folder was removed.
  RemoveFolder(it->second.folder, it->second.room);
  cancelled_.erase(it);
  return true;
}

void RequestBoard::RemoveFolder(const std::string& folder,
                                const std::shared_ptr<EngineRoom>& room) {
  Run(
      [folder, room] {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
      },
      [] {});
}

void RequestBoard::DropAll() {
  replies_.clear();
  reply_bytes_ = 0;
  while (!requests_.empty()) GiveUp(requests_.begin());
}

}  // namespace nerf
