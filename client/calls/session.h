#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/flags/global_flags.h"
#include "client/flags/io.h"
#include "client/show/printer.h"
#include "common/error_reason.h"
#include "common/mutex.h"
#include "common/rpc/blob_client.h"
#include "common/status_macros.h"

namespace nerf {

// Limit of a call, unless --timeout leaves less.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(30);
// Limit of a call that a worker answers. The server waits equally long for workers.
inline constexpr absl::Duration kWorkTimeout = absl::Minutes(10);
// Limit of a call that only informs, so that it hardly delays a command.
inline constexpr absl::Duration kMaxQuestion = absl::Seconds(2);

// The state of a running command: flags, streams, connection, remaining time. Not thread-safe,
// except Call() after the first channel().
class Session {
 public:
  // `io` outlives the session.
  Session(const GlobalFlags& flags, const Io& io);

  const GlobalFlags& flags() const { return flags_; }
  const Io& io() const { return io_; }
  std::ostream& err() const { return *io_.err; }
  Printer printer() const;
  std::stop_token stop() const;

  // Connects on first use. Requires: CheckServerAddress(flags().server).ok().
  const std::shared_ptr<grpc::Channel>& channel();
  // The token that every call carries; empty if there is none. Looked up on first use, and again
  // while it is empty.
  absl::StatusOr<std::string> token();
  template <typename Service>
  std::unique_ptr<typename Service::Stub> Stub() {
    return Service::NewStub(channel());
  }

  // One unary call within `limit` and --timeout; Ctrl-C ends it early. `method` is a member of the
  // generated stub. Repeated while the server is away (ServerWait), unless `limit` is below
  // kCallTimeout. Errors: those of the server; Cancelled after Ctrl-C; DeadlineExceeded.
  template <typename StubType, typename Request, typename Response>
  absl::StatusOr<Response> Call(StubType& stub,
                                grpc::Status (StubType::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                                const Request& request, absl::Duration limit = kCallTimeout) {
    Response response;
    NERF_RETURN_IF_ERROR(CallWith(limit, [&](grpc::ClientContext* context) {
      return (stub.*method)(context, request, &response);
    }));
    return response;
  }
  absl::Status CallWith(absl::Duration limit,
                        const std::function<grpc::Status(grpc::ClientContext*)>& call);

  // Runs `call` again while the server is away.
  absl::Status RideOut(const std::function<absl::Status()>& call);
  // Calls that RideOut repeated so far.
  int n_repeats() const { return n_repeats_; }
  // Whether the server has answered a call of this command.
  bool has_answer() const { return has_answer_; }
  void NoteAnswer() { has_answer_ = true; }
  // Says once that the command waits for a server, which failed a call with `status`.
  void SayAway(const absl::Status& status);

  // The limit of a call that a worker answers (a render, a check): kWorkTimeout, unless --timeout
  // was given, which then is the only limit.
  absl::Duration WorkLimit() const;

  // Moves blobs within --timeout: those of the project in the name `resource`, or of --project if
  // it is empty.
  BlobClient Blobs(std::string_view resource = "");

  // The remaining part of --timeout, at most `limit`.
  absl::Duration TimeLeft(absl::Duration limit = absl::InfiniteDuration()) const;
  // The error of a command whose --timeout ran out. `what` continues the sentence: "before ...".
  absl::Status TimeIsOver(std::string_view what) const;
  // Waits for `duration`. Returns false at once after Ctrl-C or when --timeout runs out.
  bool Sleep(absl::Duration duration) const;

  // A line on standard error, unless --quiet; a JSON object with --progress json.
  void Say(std::string_view line) const;
  // An error line on standard error, also with --quiet; a JSON object with --progress json. A line
  // that begins with "nerfctl: " is the error, others are its details.
  void SayError(std::string_view line) const;
  // Adds the typed flags about server and project to the nerfctl commands in `text`: those at its
  // beginning or after "(" or "`".
  std::string Runnable(std::string_view text) const;
  // Suggests the next command, in tables only.
  void SayNext(std::string_view command) const;

  // Prints the error of a call and returns its exit code. Suggests commands and ids.
  int Fail(const absl::Status& status);
  // The same for errors of the command line.
  int FailUsage(const absl::Status& status) const;

 private:
  // One try of CallWith.
  absl::Status CallOnce(absl::Duration limit,
                        const std::function<grpc::Status(grpc::ClientContext*)>& call);
  bool json_progress() const { return flags_.progress == ProgressMode::kJson; }
  void ShowError(const absl::Status& status) const;
  // For a resource that does not exist, or an id that is taken: names the command that lists the
  // resources, and the id that is most like it.
  void SayWhatExists(const ErrorReason& why);
  // After ACCESS_DENIED: says what the token is for.
  void SayGrants(const ErrorReason& why);
  // If no model has the id but a job does: names the job's newest checkpoint and returns true.
  bool SayIfJob(const std::string& model);

  const GlobalFlags flags_;
  const Io io_;
  const SteadyTime start_;
  std::shared_ptr<grpc::Channel> channel_;
  absl::Status tls_status_;  // of channel_
  std::atomic<bool> has_answer_ = false;
  std::atomic<bool> said_away_ = false;
  std::atomic<int> n_repeats_ = 0;
  Mutex mutex_;
  std::optional<absl::StatusOr<std::string>> token_ ABSL_GUARDED_BY(mutex_);
};

// A server that shuts down ends calls with CANCELLED. For a caller that did not cancel, this means
// UNAVAILABLE: the call may be repeated. Other statuses are returned unchanged.
absl::Status CancelledAsUnavailable(absl::Status status);

}  // namespace nerf
