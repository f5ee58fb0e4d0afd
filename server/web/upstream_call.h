#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/web_peer.h"

namespace nerf {

// Calls methods by name over a channel. Not thread-safe: everything runs on the gateway's thread,
// to which `post` passes functions from the completion queue's thread.
//
// It uses a completion queue and not reactors: a client reactor requests the status from the start,
// and the in-process transport of gRPC 1.51 then loses a message that arrives in one batch with the
// status, as unary responses do, unless a read is already pending.
class Upstream {
 public:
  using Post = std::function<void(std::function<void()>)>;
  Upstream(std::shared_ptr<grpc::Channel> channel, Post post);
  // Requires: no call is open.
  ~Upstream();

  int n_open_calls() const { return n_open_calls_; }

 private:
  friend class UpstreamCall;
  void RunQueue();

  grpc::GenericStub stub_;
  const Post post_;
  grpc::CompletionQueue queue_;
  int n_open_calls_ = 0;
  std::thread thread_;
};

struct UpstreamRequest {
  std::string method;  // "/package.Service/Method"
  std::vector<std::pair<std::string, std::string>> metadata;
  absl::Duration timeout = absl::InfiniteDuration();
};

struct UpstreamHandlers {
  std::function<void(std::string)> on_message = {};
  std::function<void()> on_sent = {};
  // Called once, as the last handler, when no read or write is pending.
  std::function<void(const grpc::Status&)> on_done = {};
};

// One gRPC call of any kind, with at most one message in flight each way. Not thread-safe: all
// calls and handlers on the gateway's thread. Call Send again after on_sent, the last time with
// `is_last`, and Read again after on_message. A Read that finds no more messages detects the end.
// Destroying it cancels the call; no handler is called then.
class UpstreamCall {
 public:
  // `upstream` outlives the call.
  UpstreamCall(Upstream* upstream, const UpstreamRequest& request, UpstreamHandlers handlers);
  ~UpstreamCall();
  UpstreamCall(const UpstreamCall&) = delete;
  UpstreamCall& operator=(const UpstreamCall&) = delete;

  void Send(const std::string& message, bool is_last);
  void Read();

 private:
  friend class Upstream;
  class State;
  struct Operation;
  const std::shared_ptr<State> state_;
};

// The headers that a call passes on, the caller's credentials and the trace, and its address.
template <typename Head>
std::vector<std::pair<std::string, std::string>> ForwardedMetadata(const Head& head) {
  std::vector<std::pair<std::string, std::string>> metadata = {{kWebPeerMetadata, head.peer}};
  for (const char* name : {"authorization", "traceparent"}) {
    const std::string value(head.Header(name));
    // gRPC aborts the process if a value is not printable ASCII.
    const bool is_printable = value.find_first_not_of(
                                  " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") == std::string::npos;
    if (!value.empty() && is_printable) metadata.emplace_back(name, value);
  }
  return metadata;
}

}  // namespace nerf
