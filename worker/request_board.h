#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/protocol/messages.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/blob_cache.h"
#include "worker/call_result.h"
#include "worker/scene_folder.h"
#include "worker/task_runner.h"

namespace nerf {

struct RequestBoardOptions {
  std::string folder;        // for scenes and images of requests; exists
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
  std::function<bool()> may_ask;  // the engine is ready, and no job needs it alone
  std::function<void(const protocol::WorkerRequest&)> send_to_engine;
  // The engine's name of a job that this worker trains; nullopt if it does not.
  std::function<std::optional<std::string>(const std::string& training_job)> training_key;
};

// Renders, checks and descriptions of scenes for the server. For each request: download the files,
// ask the engine, read its images, cut the reply into chunks. Requests are dropped when the stream
// ends, and answered with UNAVAILABLE WORKER_LOST when the engine ends. Used from the agent's
// thread.
class RequestBoard {
 public:
  // The members of the context outlive this.
  RequestBoard(RequestBoardOptions options, RequestContext context);
  ~RequestBoard();

  void Handle(const v1::ServerRequest& request);
  // Drops all requests, because the stream has ended.
  void DropAll();

  // Sends waiting requests to the engine if context.may_ask().
  void AskWaiting();
  void OnEngineMessage(const protocol::EngineMessage& message);
  void OnEngineExit();

  bool HasReply() const { return !replies_.empty(); }
  v1::WorkerReply TakeReply();  // Requires: HasReply()
  bool empty() const { return requests_.empty() && replies_.empty(); }
  size_t n_tasks() const { return n_tasks_; }
  // True while the engine has not answered a request. It also answers cancelled ones.
  bool InEngine() const;

 private:
  enum class Stage { kFetching, kWaiting, kInEngine, kReading };
  struct Request {
    v1::ServerRequest request;
    Stage stage = Stage::kFetching;
    std::string file;    // path of the model
    std::string pinned;  // digest of the model
    std::string folder;
    std::stop_source stop;
    std::function<absl::StatusOr<std::string>()> assemble;  // its reply; set in kReading
  };
  using Requests = std::map<std::string, Request>;  // by the engine's id

  void FetchModel(const std::string& id, Request& request);
  void FetchScene(const std::string& id, Request& request, const SceneManifest& files);
  void OnFetched(const std::string& id, const CallResult& result, const std::string& file);
  void AskEngine(const std::string& id, Request& request);
  void OnRendered(const protocol::Rendered& rendered);
  void OnChecked(const protocol::Checked& checked);
  void OnDescribed(Requests::iterator it, const protocol::Checked& checked);
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
  void LetGo(const std::string& id);
  void RemoveFolder(const std::string& id);
  std::string FolderOf(const std::string& id) const;

  const RequestBoardOptions options_;
  const RequestContext context_;
  // Set to null by the destructor, for background work that finishes later.
  const std::shared_ptr<RequestBoard*> self_;
  int serial_ = 0;
  Requests requests_;
  std::set<std::string>
      cancelled_;  // dropped requests that the engine has not answered, by its ids
  std::deque<v1::WorkerReply> replies_;
  size_t reply_bytes_ = 0;               // of replies_
  std::deque<std::string> to_assemble_;  // requests in kReading whose replies were not begun
  bool assembling_ = false;
  size_t n_tasks_ = 0;
};

}  // namespace nerf
