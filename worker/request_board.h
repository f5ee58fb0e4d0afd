#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/internal/engine.pb.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/base/call_result.h"
#include "worker/base/task_runner.h"
#include "worker/engine/engine_room.h"
#include "worker/files/blob_cache.h"
#include "worker/files/scene_folder.h"

namespace nerf {

struct RequestBoardOptions {
  std::string worker_id;     // named in replies
  size_t max_requests = 64;  // cancelled ones count until the engine has answered them
  size_t max_tasks = 256;    // downloads, replies and folders to remove that wait
  // A reply is read from the engine's files only while fewer bytes wait to be sent.
  size_t max_waiting_bytes = size_t{32} << 20;
  size_t chunk_bytes = size_t{1} << 20;
  // Larger replies are refused; the server makes blobs of what does not fit a message.
  size_t max_reply_bytes = size_t{64} << 20;
};

struct RequestContext {
  TaskRunner& tasks;
  BlobCache& cache;
  // The room for the work of a project; empty: the one without a name.
  std::function<std::shared_ptr<EngineRoom>(const std::string& project)> room_of;
  // Called before engine_for is called for all waiting requests, oldest first.
  std::function<void()> begin_asking;
  // The engine to ask now; nullopt while the request has to wait.
  std::function<std::optional<int>(const std::shared_ptr<EngineRoom>& room)> engine_for;
  std::function<void(int engine, const internal::WorkerRequest&)> send_to_engine;
  std::function<std::string()> new_request_id;  // no other request of this worker has it
  // The engine's name of a job that this worker trains; nullopt if it does not.
  std::function<std::optional<std::string>(const std::string& job)> training_key;
};

// Renders, checks and descriptions of scenes for the server. For each request: download the files
// into the room of its project, ask an engine of that room, read its images, cut the reply into
// chunks. Only the engine that was asked can answer. Requests are dropped when the stream ends, and
// answered with UNAVAILABLE WORKER_LOST when their engine ends. Used from the agent's thread.
class RequestBoard {
 public:
  // The members of the context outlive this.
  RequestBoard(RequestBoardOptions options, RequestContext context);
  ~RequestBoard();

  void Handle(const v1::ServerRequest& request);
  // Drops all requests, because the stream has ended.
  void DropAll();

  // Sends the waiting requests whose engines may be asked.
  void AskWaiting();
  // Takes the answer to a request that this engine was asked; logs and drops any other.
  void OnEngineMessage(int engine, const internal::EngineMessage& message);
  void OnEngineExit(int engine);
  // No engine starts for this room: ends the requests that wait for it with UNAVAILABLE
  // WORKER_LOST.
  void OnEngineHopeless(const EngineRoom& room, const std::string& why);

  bool HasReply() const { return !replies_.empty(); }
  v1::WorkerReply TakeReply();  // Requires: HasReply()
  bool empty() const { return requests_.empty() && replies_.empty(); }
  size_t n_tasks() const { return n_tasks_; }
  // True while the engine has not answered a request. It also answers cancelled ones.
  bool InEngine(int engine) const;

 private:
  enum class Stage { kFetching, kWaiting, kInEngine, kReading };
  struct Request {
    v1::ServerRequest request;
    int serial = 0;
    std::shared_ptr<EngineRoom> room;
    Stage stage = Stage::kFetching;
    int engine = 0;    // that was asked; in kInEngine
    std::string file;  // path of the model
    std::string open;  // digest of the model, open in the room
    std::string folder;
    std::stop_source stop;
    std::function<absl::StatusOr<std::string>()> assemble;  // its reply; set in kReading
  };
  using Requests = std::map<std::string, Request>;  // by the engine's id
  struct Cancelled {
    int engine;
    std::string folder;
    std::shared_ptr<EngineRoom> room;
  };

  void FetchModel(const std::string& id, Request& request);
  void FetchScene(const std::string& id, Request& request, const SceneManifest& files);
  void OnFetched(const std::string& id, const CallResult& result, const std::string& file);
  void AskEngine(const std::string& id, Request& request, int engine);
  // The request that this engine was asked; end() for another id.
  Requests::iterator Asked(const std::string& id, int engine);
  void OnRendered(Requests::iterator it, const internal::Rendered& rendered);
  void OnChecked(Requests::iterator it, const internal::Checked& checked);
  void OnDescribed(Requests::iterator it, const internal::Checked& checked);
  // Makes the reply with `assemble` in the background: bytes or an error.
  void Assemble(const std::string& id, std::function<absl::StatusOr<std::string>()> assemble);
  // Begins to make replies that wait for others to be sent.
  void AssembleWaiting();
  bool IsFull() const;
  // Runs `work` in the background, then `done` unless this is destroyed by then.
  void Run(TaskRunner::Action work, TaskRunner::Action done);
  void Reply(Requests::iterator it, const std::string& bytes);
  void ReplyError(Requests::iterator it, const absl::Status& status);
  void AddError(const std::string& request_id, const absl::Status& status);
  // Drops the request; cancels it in the engine if it is there.
  void GiveUp(Requests::iterator it);
  void Forget(Requests::iterator it);
  // Removes the folder of a dropped request after the engine has answered it.
  // False if it has no such one.
  bool LetGo(int engine, const std::string& id);
  void RemoveFolder(const std::string& folder, const std::shared_ptr<EngineRoom>& room);

  const RequestBoardOptions options_;
  const RequestContext context_;
  // Set to null by the destructor, for background work that finishes later.
  const std::shared_ptr<RequestBoard*> self_;
  int serial_ = 0;
  Requests requests_;
  // Dropped requests that their engines have not answered, by the engines' ids.
  std::map<std::string, Cancelled> cancelled_;
  std::deque<v1::WorkerReply> replies_;
  size_t reply_bytes_ = 0;               // of replies_
  std::deque<std::string> to_assemble_;  // requests in kReading whose replies were not begun
  bool assembling_ = false;
  size_t n_tasks_ = 0;
};

}  // namespace nerf
