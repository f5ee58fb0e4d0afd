#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "common/clock.h"
#include "engine/kernels/cuda/device.h"
#include "engine/serve/serve_loop.h"
#include "nlohmann/json.hpp"
#include "tests/engine/commands/ball_dataset.h"
#include "tests/testing/temp_dir.h"

namespace nerf {

using Json = nlohmann::json;

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
  ServeLoopTest() {
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
      options.exit_grace = absl::InfiniteDuration();
      BreakableDevice device(&pool, &broken_);
      ended_ = ServeLoop(options, &device, &pool, &clock).Run();
    });
    hello_ = Receive();
    EXPECT_EQ(hello_["type"], "hello");
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

  void SendRaw(const std::string& bytes) {
    LineSocket socket(fd_);
    ASSERT_TRUE(socket.Write(bytes));
  }
  void Send(const Json& message) { SendRaw(message.dump() + "\n"); }

  Json Receive() {
    size_t newline;
    while ((newline = received_.find('\n')) == std::string::npos) {
      char buffer[65536];
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) {
        ADD_FAILURE() << "nothing came";
        return Json::object();
      }
      received_.append(buffer, static_cast<size_t>(n));
    }
    const std::string line = received_.substr(0, newline);
    received_.erase(0, newline + 1);
    EXPECT_LE(line.size(), kMaxLineBytes);
    Json message = Json::parse(line, nullptr, false);
    EXPECT_TRUE(message.is_object()) << line;
    return message;
  }

  // The next message that is neither progress nor preview.
  Json ReceiveAnswer() {
    while (true) {
      Json message = Receive();
      const std::string type = message.value("type", "");
      if (type != "progress" && type != "preview") return message;
    }
  }

  // The types of all messages that come before the engine hangs up.
  std::vector<std::string> ReceiveToTheEnd() {
    char buffer[65536];
    while (true) {
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      EXPECT_GE(n, 0) << "it did not hang up";
      if (n <= 0) break;
      received_.append(buffer, static_cast<size_t>(n));
    }
    std::vector<std::string> types;
    std::istringstream lines(received_);
    for (std::string line; std::getline(lines, line);)
      types.push_back(Json::parse(line, nullptr, false).value("type", ""));
    return types;
  }

  Json TrainMessage(const std::string& job, double steps) {
    return {{"type", "train"},
            {"job", job},
            {"dataset", dataset_},
            {"out", dir_ / job},
            {"method", "ngp"},
            {"seed", 3},
            {"budget", {{"kind", "steps"}, {"amount", steps}}},
            {"preview_interval_seconds", 3600},
            {"settings",
             {{"log2_hashmap_size", "12"},
              {"grid_resolution", "32"},
              {"target_samples", "512"},
              {"initial_rays", "64"},
              {"warmup_steps", "10"},
              {"step", "0.05"}}}};
  }

  Json RenderMessage(const std::string& id) {
    return {{"type", "render"},
            {"id", id},
            {"orbit", {{"index", 1}, {"count", 4}}},
            {"width", 16},
            {"height", 12},
            {"channels", {"rgb", "depth", "opacity"}},
            {"format", "png"},
            {"out", dir_ / "renders"}};
  }

  // Trains a job to its end; returns its "done".
  Json TrainToTheEnd(const std::string& job, double steps) {
    Send(TrainMessage(job, steps));
    EXPECT_EQ(ReceiveAnswer()["type"], "started");
    EXPECT_EQ(ReceiveAnswer()["type"], "checkpoint");
    Json done = ReceiveAnswer();
    EXPECT_EQ(done["type"], "done") << done;
    return done;
  }

  // Sends a check and expects its answer.
  void ExpectAlive() {
    Send({{"type", "check"}, {"id", "alive"}, {"dataset", dataset_}});
    const Json answer = ReceiveAnswer();
    EXPECT_EQ(answer["type"], "checked") << answer;
    EXPECT_EQ(answer["id"], "alive");
    EXPECT_EQ(answer["ok"], true) << answer;
  }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
  int engine_fd_ = -1, fd_ = -1;
  std::atomic<bool> broken_ = false;
  Json hello_;
  absl::Status ended_ = absl::UnknownError("not ended");  // written before thread_ ends
  std::thread thread_;
  std::string received_;
};

}  // namespace nerf
