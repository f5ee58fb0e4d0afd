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
#include "nerf/v1/worker_service.pb.h"
#include "worker/blob_cache.h"
#include "worker/call_result.h"
#include "worker/engine_messages.h"
#include "worker/task_runner.h"

namespace nerf {

struct RequestBoardOptions {
  std::string folder;     // for scenes and images of requests; exists
  std::string worker_id;  // named in replies
  size_t max_requests = 64;
  size_t chunk_bytes = size_t{1} << 20;
  // A rendered reply above this is refused: it would not pass as one message to the caller.
  size_t max_reply_bytes = size_t{3} << 20;
};

struct RequestContext {
  TaskRunner& tasks;
  BlobCache& cache;
  std::function<bool()> may_ask;  // the engine is up, and no job needs it alone
  std::function<void(std::string)> send_to_engine;
  // The engine's key of a job in training here; nullopt when it is not.
  std::function<std::optional<std::string>(const std::string& training_job)> training_key;
};

// Renders and validations that the server asked for, from request to reply: fetch the files, ask
// the engine, read its images, cut the reply into chunks. A request ends with its stream; one whose
// engine dies ends with UNAVAILABLE WORKER_LOST. Lives on the agent's thread.
class RequestBoard {
 public:
  // What the context names outlives this.
  RequestBoard(RequestBoardOptions options, RequestContext context);
  ~RequestBoard();

  void Handle(const v1::ServerRequest& request);
  // The stream is over: nobody waits any more.
  void DropAll();

  // Gives the engine what waits for it, if it may be asked.
  void AskWaiting();
  void OnEngineMessage(const EngineMessage& message);
  void OnEngineExit();

  bool HasReply() const { return !replies_.empty(); }
  v1::WorkerReply TakeReply();  // Requires: HasReply()
  bool empty() const { return requests_.empty() && replies_.empty(); }
  // True while the engine owes an answer: to a request that was cancelled, too, which it answers
  // when it has let go of it.
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
  };
  using Requests = std::map<std::string, Request>;  // by the engine's id

  void FetchModel(const std::string& id, Request& request);
  void FetchScene(const std::string& id, Request& request);
  void OnFetched(const std::string& id, const CallResult& result, const std::string& file);
  void AskEngine(const std::string& id, Request& request);
  void OnRendered(const EngineRendered& rendered);
  void OnChecked(const EngineChecked& checked);
  void Reply(Requests::iterator it, const std::string& bytes);
  void ReplyError(Requests::iterator it, const absl::Status& status);
  // Cancels it in the engine if it is there.
  void GiveUp(Requests::iterator it);
  void Forget(Requests::iterator it);
  // The engine has answered: if that request was given up, nobody else waits for the answer.
  void LetGo(const std::string& id);
  void RemoveFolder(const std::string& id);
  std::string FolderOf(const std::string& id) const;

  const RequestBoardOptions options_;
  const RequestContext context_;
  // Background work asks this whether the board is still there.
  const std::shared_ptr<RequestBoard*> self_;
  int serial_ = 0;
  Requests requests_;
  std::set<std::string> cancelled_;  // the engine's ids of requests given up that it still owes
  std::deque<v1::WorkerReply> replies_;
};

}  // namespace nerf
