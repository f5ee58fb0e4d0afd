#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/global_flags.h"
#include "client/io.h"
#include "client/printer.h"
#include "common/error_reason.h"
#include "common/rpc/blob_client.h"

namespace nerf {

// A single call gets this long unless --timeout leaves less.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(30);
// Calls that a worker answers, as long as the server waits for it by itself.
inline constexpr absl::Duration kWorkTimeout = absl::Minutes(10);

// What a running command works with: flags, streams, the connection, the time that is left. Used
// from one thread, but for Call(), which any may use once the channel was asked for.
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
  template <typename Service>
  std::unique_ptr<typename Service::Stub> Stub() {
    return Service::NewStub(channel());
  }

  // One unary call within `limit` and --timeout, ended early by Ctrl-C. `method` is a member of the
  // generated stub. Errors: those of the server; Cancelled after Ctrl-C; DeadlineExceeded.
  template <typename StubType, typename Request, typename Response>
  absl::StatusOr<Response> Call(StubType& stub,
                                grpc::Status (StubType::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                                const Request& request, absl::Duration limit = kCallTimeout) {
    Response response;
    absl::Status status = CallWith(limit, [&](grpc::ClientContext* context) {
      return (stub.*method)(context, request, &response);
    });
    if (!status.ok()) return status;
    return response;
  }
  absl::Status CallWith(absl::Duration limit,
                        const std::function<grpc::Status(grpc::ClientContext*)>& call);

  // The limit of a call that a worker answers (a render, a check): kWorkTimeout, or --timeout alone
  // where it was given.
  absl::Duration WorkLimit() const;

  // Moves blobs within --timeout.
  BlobClient Blobs();

  // What is left of --timeout, at most `limit`.
  absl::Duration TimeLeft(absl::Duration limit = absl::InfiniteDuration()) const;
  // The error of a command whose --timeout ran out; `what` says in the middle of what.
  absl::Status TimeIsOver(std::string_view what) const;
  // Waits; returns false early when stopped or when --timeout is over.
  bool Sleep(absl::Duration duration) const;

  // A line for people on standard error, unless --quiet.
  void Say(std::string_view line) const;
  // Names the next command, for people alone.
  void SayNext(std::string_view command) const;

  // Prints an error of a call and returns the exit code that it stands for.
  int Fail(const absl::Status& status) const;
  // The same for what was wrong on the command line.
  int FailUsage(const absl::Status& status) const;

 private:
  // Where an error names a resource that is not there or taken: which command lists those there
  // are.
  void SayWhatThereIs(const ErrorReason& why) const;

  const GlobalFlags flags_;
  const Io io_;
  const SteadyTime start_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Where nobody here cancelled, CANCELLED is how gRPC drops a call that reaches a server in the
// moment of its end: UNAVAILABLE then, for it may be tried again. Other statuses stay.
absl::Status WithoutForeignCancel(absl::Status status);

// OK for HOST:PORT, [IPV6]:PORT and unix:PATH. Errors: InvalidArgument that says what is wrong.
absl::Status CheckServerAddress(std::string_view address);

}  // namespace nerf
