#pragma once

#include <grpcpp/channel.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "common/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/metadata.h"
#include "common/rpc/status_conversion.h"
#include "nerf/v1/worker_service.grpc.pb.h"

namespace nerf {

// A scripted worker on the real protocol. It has one thread that reads; everything else runs on the
// test's thread.
class FakeWorker {
 public:
  FakeWorker(std::shared_ptr<grpc::Channel> channel, const std::string& token, std::string id)
      : stub_(v1::WorkerService::NewStub(std::move(channel))), token_(token), id_(std::move(id)) {
    PrepareCall(absl::InfiniteDuration(), token, &context_);
    context_.AddMetadata(kWorkerKeyMetadata, "key of " + id_);
    stream_ = stub_->Synchronize(&context_);
    reader_ = std::thread([this] { Read(); });
  }
  ~FakeWorker() {
    context_.TryCancel();
    reader_.join();
    if (!finished_) stream_->Finish();
  }

  // The first message.
  void Hello(const std::optional<v1::JobReport>& held = std::nullopt,
             const std::vector<std::string>& methods = {},
             const std::vector<std::string>& features = {}, const std::string& device = "cpu") {
    v1::SynchronizeRequest message;
    message.mutable_hello()->set_worker_id(id_);
    message.mutable_hello()->set_session_id("s-1");
    message.mutable_hello()->set_device(device);
    message.mutable_hello()->set_host("host-1");
    *message.mutable_hello()->mutable_methods() = {methods.begin(), methods.end()};
    *message.mutable_hello()->mutable_features() = {features.begin(), features.end()};
    if (held.has_value()) *message.mutable_job() = *held;
    stream_->Write(message);
  }
  bool Send(const v1::SynchronizeRequest& message) { return stream_->Write(message); }
  void Idle() { Send({}); }

  static v1::JobReport Report(const v1::DesiredJob& lease, v1::JobReport::Phase phase,
                              uint32_t step = 0) {
    v1::JobReport report;
    report.set_job(lease.job());
    report.set_lease_epoch(lease.lease_epoch());
    report.set_part(lease.part());
    report.set_phase(phase);
    if (step > 0) {
      report.mutable_progress()->set_step(step);
      report.mutable_progress()->set_loss(1.0 / step);
    }
    return report;
  }
  void SendReport(const v1::JobReport& report) {
    v1::SynchronizeRequest message;
    *message.mutable_job() = report;
    Send(message);
  }

  using Wanted = std::function<bool(const v1::SynchronizeResponse&)>;
  // The next message that `wanted` accepts; those before it are dropped. nullopt after `timeout`.
  std::optional<v1::SynchronizeResponse> WaitFor(const Wanted& wanted,
                                                 absl::Duration timeout = absl::Seconds(30)) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(mu_);
    while (true) {
      while (!inbox_.empty()) {
        v1::SynchronizeResponse message = std::move(inbox_.front());
        inbox_.pop_front();
        if (wanted(message)) return message;
      }
      const absl::Duration left = deadline - absl::Now();
      if (closed_ || left <= absl::ZeroDuration()) return std::nullopt;
      arrived_.WaitFor(mu_, left);
    }
  }
  std::optional<v1::DesiredJob> WaitForOrder(v1::DesiredJob::Action action,
                                             absl::Duration timeout = absl::Seconds(30)) {
    const auto message = WaitFor(
        [&](const auto& m) { return m.has_desired_job() && m.desired_job().action() == action; },
        timeout);
    if (!message.has_value()) return std::nullopt;
    return message->desired_job();
  }
  std::optional<v1::ServerRequest> WaitForRequest() {
    const auto message = WaitFor([](const auto& m) { return m.has_request(); });
    if (!message.has_value()) return std::nullopt;
    return message->request();
  }
  bool WaitForAcknowledgement(const std::string& job) {
    return WaitFor([&](const auto& m) { return m.finished_acknowledged() == job; }).has_value();
  }

  // Sends the hello and waits for a grant.
  std::optional<v1::DesiredJob> TakeJob() {
    Hello();
    return WaitForOrder(v1::DesiredJob::TRAIN);
  }

  absl::Status Commit(v1::CommitCheckpointRequest request) {
    if (request.worker_id().empty()) request.set_worker_id(id_);
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(20), token_, &context);
    context.AddMetadata(kWorkerKeyMetadata, "key of " + id_);
    v1::CommitCheckpointResponse response;
    return FromGrpcStatus(stub_->CommitCheckpoint(&context, request, &response));
  }

  // The final status of the stream.
  absl::Status WaitForEnd() {
    {
      const absl::Time deadline = absl::Now() + absl::Seconds(30);
      MutexLock lock(mu_);
      while (!closed_ && absl::Now() < deadline) arrived_.WaitFor(mu_, deadline - absl::Now());
      if (!closed_) return absl::DeadlineExceededError("the stream is still open");
    }
    finished_ = true;
    return FromGrpcStatus(stream_->Finish());
  }
  void CloseWrites() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

 private:
  void Read() {
    v1::SynchronizeResponse message;
    while (stream_->Read(&message)) {
      MutexLock lock(mu_);
      inbox_.push_back(message);
      arrived_.NotifyAll();
    }
    MutexLock lock(mu_);
    closed_ = true;
    arrived_.NotifyAll();
  }

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  const std::string token_, id_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SynchronizeRequest, v1::SynchronizeResponse>>
      stream_;
  std::thread reader_;
  bool finished_ = false;
  Mutex mu_;
  CondVar arrived_;
  std::deque<v1::SynchronizeResponse> inbox_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace nerf
