#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/messages/rpc_status.h"
#include "engine/base/protocol/line_splitter.h"
#include "engine/base/protocol/message_splitter.h"
#include "engine/field/kernels/cuda/device.h"
#include "engine/program/serve/serve_loop.h"
#include "nerf/internal/engine.pb.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/program/commands/worker_messages.h"
#include "tests/testing/temp_dir.h"

namespace nerf {

using internal::EngineMessage;
using internal::WorkerRequest;

// Matches a message of this kind.
MATCHER_P(Says, message_case, "says what is expected") {
  *result_listener << arg.ShortDebugString();
  return arg.message_case() == message_case;
}

// What a message refuses a request or fails a job with; OK for other messages.
inline absl::Status ErrorOf(const EngineMessage& message) {
  if (message.has_refused()) return ErrorFromRpcStatus(message.refused());
  return message.has_failed() ? ErrorFromRpcStatus(message.failed().error()) : absl::OkStatus();
}

// The CPU; once broken, loading a model throws CudaError.
class BreakableDevice final : public RenderDevice {
 public:
  explicit BreakableDevice(ThreadPool* pool, const std::atomic<bool>* broken)
      : cpu_(NewCpuRenderDevice(pool)), broken_(broken) {}
  std::unique_ptr<SceneRenderer> Load(std::unique_ptr<TrainedModel> model,
                                      const SceneGeometry& geometry,
                                      RenderPrecision precision) override {
    if (*broken_) throw kernels::cuda::CudaError("an illegal memory access was encountered");
    return cpu_->Load(std::move(model), geometry, precision);
  }

 private:
  const std::unique_ptr<RenderDevice> cpu_;
  const std::atomic<bool>* const broken_;
};

// A ServeLoop on its own thread, and the worker's end of its socket.
class ServeLoopTest : public ::testing::Test {
 protected:
  explicit ServeLoopTest(MessageForm form = MessageForm::kBinary) : form_(form) {
    WriteBallDataset(dataset_);
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) std::abort();
    engine_fd_ = fds[0];
    fd_ = fds[1];
    const timeval patience = {120, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    thread_ = std::thread([this] {
      const RealClock clock;
      ThreadPool pool(1);
      ServeOptions options;
      options.fd = engine_fd_;
      options.form = form_;
      options.exit_grace = absl::InfiniteDuration();
      BreakableDevice device(&pool, &broken_);
      ended_ = ServeLoop(options, &device, &pool, &clock).Run();
    });
    const EngineMessage first = Receive();
    EXPECT_THAT(first, Says(EngineMessage::kHello));
    hello_ = first.hello();
  }

  ~ServeLoopTest() override {
    End();
    close(engine_fd_);
  }

  // Closes the worker's end; returns when the loop has ended.
  void End() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    if (thread_.joinable()) thread_.join();
  }

  // Sends nothing more; returns when the loop has ended. What it has said can still be received.
  void HangUp() {
    shutdown(fd_, SHUT_WR);
    thread_.join();
    shutdown(engine_fd_, SHUT_WR);
  }

  void SendRaw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  void Send(const WorkerRequest& request) {
    if (form_ == MessageForm::kBinary) return SendRaw(Delimited(request.SerializeAsString()));
    std::string line;
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(request, &line).ok());
    SendRaw(line + "\n");
  }

  // The bytes of the next message.
  std::string ReceiveBytes() {
    while (received_.empty()) {
      if (ReceiveMore()) continue;
      ADD_FAILURE() << "nothing came";
      return "";
    }
    std::string bytes = std::move(received_.front());
    received_.pop_front();
    return bytes;
  }
  EngineMessage Receive() {
    const std::string bytes = ReceiveBytes();
    EXPECT_LE(bytes.size(), kMaxMessageBytes);
    EngineMessage message;
    const bool parsed = form_ == MessageForm::kBinary
                            ? message.ParseFromString(bytes)
                            : google::protobuf::util::JsonStringToMessage(bytes, &message).ok();
    EXPECT_TRUE(parsed) << bytes;
    return message;
  }

  // The next message that is neither progress nor preview.
  EngineMessage ReceiveAnswer() {
    EngineMessage message = Receive();
    while (message.has_progress() || message.has_preview()) message = Receive();
    return message;
  }
  // Nor that something goes on.
  EngineMessage ReceiveEnd() {
    EngineMessage message = ReceiveAnswer();
    while (message.has_working()) message = ReceiveAnswer();
    return message;
  }

  // All messages that come before the engine hangs up.
  std::vector<EngineMessage> ReceiveToTheEnd() {
    while (ReceiveMore()) {
    }
    std::vector<EngineMessage> messages;
    while (!received_.empty()) messages.push_back(Receive());
    return messages;
  }

  WorkerRequest TrainMessage(const std::string& job, uint32_t steps) {
    WorkerRequest request;
    request.set_job(job);
    internal::Train& train = *request.mutable_train();
    train.set_dataset(dataset_);
    train.set_out(dir_ / job);
    train.set_preview_interval_seconds(3600);
    train.mutable_config()->set_method("ngp");
    train.mutable_config()->set_seed(3);
    train.mutable_config()->set_steps(steps);
    auto& settings = *train.mutable_config()->mutable_settings();
    settings["log2_hashmap_size"] = "12";
    settings["grid_resolution"] = "32";
    settings["target_samples"] = "512";
    settings["initial_rays"] = "64";
    settings["warmup_steps"] = "10";
    settings["step"] = "0.05";
    return request;
  }

  // Of a file, or of the weights of a job.
  WorkerRequest RenderMessage(const std::string& id, const std::string& file,
                              const std::string& job = "") {
    WorkerRequest request;
    request.set_id(id);
    request.set_job(job);
    internal::Render& render = *request.mutable_render();
    render.set_file(file);
    render.set_out(dir_ / "renders");
    v1::RenderImageRequest& view = *render.mutable_view();
    view.mutable_orbit()->set_index(1);
    view.mutable_orbit()->set_count(4);
    view.set_width(16);
    view.set_height(12);
    for (const auto channel : {v1::RGB, v1::DEPTH, v1::OPACITY}) view.add_channels(channel);
    view.set_format(v1::PNG);
    return request;
  }

  // Trains a job to its end; returns its files.
  internal::SavedState TrainToTheEnd(const std::string& job, uint32_t steps) {
    Send(TrainMessage(job, steps));
    EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kStarted));
    const EngineMessage saved = ReceiveAnswer();
    EXPECT_THAT(saved, Says(EngineMessage::kCheckpoint));
    EXPECT_THAT(ReceiveAnswer(), Says(EngineMessage::kDone));
    return saved.checkpoint();
  }

  // Sends a check and expects its answer.
  void ExpectAlive() {
    Send(CheckMessage("alive", dataset_));
    const EngineMessage answer = ReceiveAnswer();
    EXPECT_THAT(answer, Says(EngineMessage::kChecked));
    EXPECT_EQ(answer.id(), "alive");
    EXPECT_TRUE(answer.checked().response().ok()) << answer.ShortDebugString();
  }

 private:
  // False when nothing more comes.
  bool ReceiveMore() {
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
    EXPECT_GE(n, 0) << "nothing came, and it did not hang up";
    if (n <= 0) return false;
    const std::string_view bytes(buffer, static_cast<size_t>(n));
    const auto keep = [&](std::string message) { received_.push_back(std::move(message)); };
    const auto fail = [] { ADD_FAILURE() << "a message that is too long"; };
    if (form_ == MessageForm::kJson) {
      lines_.Add(bytes, keep, fail);
    } else {
      messages_.Add(bytes, keep, fail);
    }
    return true;
  }

 protected:
  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
  const MessageForm form_;
  int engine_fd_ = -1, fd_ = -1;
  std::atomic<bool> broken_ = false;
  internal::Hello hello_;
  absl::Status ended_ = absl::UnknownError("not ended");  // written before thread_ ends
  std::thread thread_;

 private:
  LineSplitter lines_;
  MessageSplitter messages_;
  std::deque<std::string> received_;
};

}  // namespace nerf
