#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/mutex.h"
#include "nerf/v1/view_service.pb.h"
#include "server/rpc/calls/live_calls.h"
#include "server/rpc/calls/request_broker.h"
#include "server/rpc/calls/service_context.h"
#include "server/rpc/services/live_views.h"
#include "server/rpc/services/view_pacer.h"

namespace nerf {

// One StreamViews call:
//
//   Begin -> Open: `scene` is written -> Pump: order a frame, reply, write it, order ... -> End
//
// One frame at a time is ordered from a worker, the next one while it is written. A frame of a
// resting camera is cancelled when the camera moves. Owns itself until gRPC is done with it.
class LiveView final : public grpc::ServerWriteReactor<v1::StreamViewsResponse>,
                       public LiveCall,
                       public std::enable_shared_from_this<LiveView> {
 public:
  // Authorizes and starts the call. Returns the reactor for gRPC.
  static LiveView* Begin(const ServiceContext& services, LiveViews* views, CallContext* context,
                         const v1::StreamViewsRequest& request);

  // Shows `view` from now on; ignored unless `sequence` is above the last one. Requires:
  // CheckLiveView(view).ok().
  void Update(const v1::View& view, double sequence);

  void End(const absl::Status& status) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // A frame that was ordered.
  struct Order {
    uint64_t id = 0;
    FramePlan plan;
    v1::View view;
    double sequence = 0;
    SteadyTime begin;
    SteadyTime asked;                // arrival of the update; for its later frames `begin`
    std::string weights;             // what is rendered
    std::optional<uint64_t> number;  // of the broker, once it has one
    bool is_interrupted = false;
  };

  LiveView(const ServiceContext& services, LiveViews* views, CallContext* context,
           const v1::StreamViewsRequest& request);
  void Open();
  // Writes a frame that waits, and orders the next one.
  void Pump();
  std::optional<Order> NextOrder() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends the order to a worker.
  void Start(Order order);
  absl::StatusOr<BrokerRequest> MakeRequest(Order* order);
  // Gives the order up if it is still under way.
  void DropFrame(uint64_t id);
  void OnReply(uint64_t id, const absl::StatusOr<BrokerReply>& reply);
  void OnFrame(const Order& order, const BrokerReply& reply);
  // Tries again, or ends the stream.
  void OnFailure(const absl::Status& status);

  // Takes a response to be written. Requires: !is_writing_.
  void BeginWrite(v1::StreamViewsResponse response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the stream of a caller who reads nothing, if that write is not done.
  void BreakOff(uint64_t n_write);

  void AuthorizeAgainLater();
  void LookForWeightsLater();
  void LookForWeights();

  const ServiceContext& services_;
  LiveViews& views_;
  CallContext* const context_;
  const v1::StreamViewsRequest source_;  // without its view
  std::string token_;                    // of the caller; const after Begin

  Mutex mu_;
  std::shared_ptr<LiveView> self_ ABSL_GUARDED_BY(mu_);
  std::string name_ ABSL_GUARDED_BY(mu_);  // empty before Open
  ViewPacer pacer_ ABSL_GUARDED_BY(mu_);
  v1::View view_ ABSL_GUARDED_BY(mu_);
  double sequence_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<SteadyTime> updated_ ABSL_GUARDED_BY(mu_);  // unset once a frame has shown it
  std::optional<SteadyTime> pump_due_ ABSL_GUARDED_BY(mu_);

  std::optional<Order> order_ ABSL_GUARDED_BY(mu_);  // under way
  uint64_t n_orders_ ABSL_GUARDED_BY(mu_) = 0;
  int n_failures_ ABSL_GUARDED_BY(mu_) = 0;   // since the last frame
  bool pauses_ ABSL_GUARDED_BY(mu_) = false;  // after a failure
  std::string shown_weights_ ABSL_GUARDED_BY(mu_);
  SteadyTime renew_due_ ABSL_GUARDED_BY(mu_);  // new weights are not shown earlier

  v1::StreamViewsResponse response_;  // owned by gRPC while is_writing_
  std::optional<v1::StreamViewsResponse> waiting_ ABSL_GUARDED_BY(mu_);  // to be written next
  bool is_writing_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t n_writes_ ABSL_GUARDED_BY(mu_) = 0;
  Executor::Timer stall_ ABSL_GUARDED_BY(mu_);
  bool is_breaking_off_ ABSL_GUARDED_BY(mu_) = false;  // BreakOff uses context_
  bool is_ended_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nerf
