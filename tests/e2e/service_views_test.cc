// Live views through the built binaries: a moving camera beside a training.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "nerf/v1/view_service.grpc.pb.h"
#include "tests/e2e/owner_channel.h"
#include "tests/e2e/service_harness.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using testing::HasSubstr;

v1::View OrbitAt(uint32_t index) {
  v1::View view;
  view.mutable_orbit()->set_index(index % 360);
  view.mutable_orbit()->set_count(360);
  view.set_width(160);
  view.set_height(120);
  return view;
}

// Somebody who looks at a job or model and turns the camera. A thread reads the frames.
class Viewer {
 public:
  Viewer(const std::string& address, v1::StreamViewsRequest request)
      : stub_(v1::ViewService::NewStub(OwnerChannel(address))) {
    *request.mutable_view() = OrbitAt(0);
    PrepareCall(absl::Minutes(10), "", &context_);
    stream_ = stub_->StreamViews(&context_, request);
    reader_ = std::thread([this] { Read(); });
  }
  ~Viewer() { Close(); }

  // The next view of the orbit, once the stream has begun.
  absl::Status Turn() {
    const std::string name = Name();
    if (name.empty()) return absl::OkStatus();
    v1::UpdateViewRequest request;
    request.set_name(name);
    request.set_sequence(++sequence_);
    *request.mutable_view() = OrbitAt(static_cast<uint32_t>(sequence_));
    grpc::ClientContext context;
    PrepareCall(absl::Seconds(60), "", &context);
    v1::UpdateViewResponse response;
    return FromGrpcStatus(stub_->UpdateView(&context, request, &response));
  }

  std::string Name() {
    MutexLock lock(mu_);
    return name_;
  }
  std::vector<v1::ViewFrame> Frames() {
    MutexLock lock(mu_);
    return frames_;
  }
  bool HasEnded() {
    MutexLock lock(mu_);
    return has_ended_;
  }
  // Leaves, as a browser whose tab is closed.
  void Close() {
    context_.TryCancel();
    if (reader_.joinable()) reader_.join();
  }

 private:
  void Read() {
    v1::StreamViewsResponse response;
    while (stream_->Read(&response)) {
      MutexLock lock(mu_);
      if (response.has_scene()) name_ = response.scene().name();
      if (response.has_frame()) frames_.push_back(response.frame());
    }
    static_cast<void>(stream_->Finish());
    MutexLock lock(mu_);
    has_ended_ = true;
  }

  const std::unique_ptr<v1::ViewService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::StreamViewsResponse>> stream_;
  std::thread reader_;
  double sequence_ = 0;
  Mutex mu_;
  std::string name_ ABSL_GUARDED_BY(mu_);
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<v1::ViewFrame> frames_ ABSL_GUARDED_BY(mu_);
};

class ServiceViewsTest : public ServiceTest {
 protected:
  void SetUp() override { ASSERT_TRUE(StartNerfd()) << nerfd().err(); }

  // Digest of the model of the last checkpoint.
  std::string ModelOf(const std::string& job) {
    return GetJob(job)["trainingStatus"]["checkpoints"].back()["modelBlob"]["sha256"];
  }
};

TEST_F(ServiceViewsTest, LiveViewBesideATrainingShowsItLearnAndLeavesItsBytesAlone) {
  CreateSmallScene();
  for (const char* job : {"seen", "alone"}) {
    ASSERT_EQ(CreateJob(job, {"--steps", "1000"}).code, 0);
  }
  v1::StreamViewsRequest request;
  request.set_training_job("projects/default/jobs/seen");
  // Before its first step the job cannot be shown.
  std::unique_ptr<Viewer> first;
  ASSERT_TRUE(WaitUntil(3 * kLong, [&] {
    if (first == nullptr || first->HasEnded()) first = std::make_unique<Viewer>(address(), request);
    return !first->Frames().empty();
  }));
  Viewer& viewer = *first;
  std::set<uint32_t> steps;
  const bool has_seen = WaitUntil(3 * kLong, [&] {
    EXPECT_THAT(viewer.Turn(), IsOk());
    steps.clear();
    for (const v1::ViewFrame& frame : viewer.Frames()) steps.insert(frame.step());
    return viewer.Frames().size() >= 12 && steps.size() >= 2;
  });
  const std::vector<v1::ViewFrame> frames = viewer.Frames();
  EXPECT_TRUE(has_seen) << frames.size() << " frames of " << steps.size() << " steps";
  double last = 0;
  for (const v1::ViewFrame& frame : frames) {
    EXPECT_GE(frame.sequence(), last);
    last = frame.sequence();
    EXPECT_EQ(frame.content().substr(0, 3), "\xff\xd8\xff") << "not a JPEG";
    EXPECT_LE(frame.width(), 160u);
    EXPECT_GT(frame.step(), 0u);
  }
  EXPECT_GT(last, 0);
  EXPECT_LT(frames.front().step(), 1000u) << "it was not in training";
  EXPECT_THAT(Metrics(), HasSubstr("nerfd_live_views 1"));
  viewer.Close();
  EXPECT_TRUE(WaitUntil(absl::Seconds(20 * kSlower), [&] {
    return Metrics().find("nerfd_live_views 0") != std::string::npos;
  })) << "the view outlives its reader";
  ASSERT_TRUE(WaitForState("seen", "SUCCEEDED", 5 * kLong));
  ASSERT_TRUE(WaitForState("alone", "SUCCEEDED", 5 * kLong));
  EXPECT_EQ(GetJob("seen")["attempt"], 1);
  EXPECT_EQ(ModelOf("seen"), ModelOf("alone"));
}

TEST_F(ServiceViewsTest, ViewOfAModelIsRefinedToItsFullSizeAndOutlivesItsEngine) {
  CreateSmallScene();
  ASSERT_EQ(CreateJob("first", {"--steps", "200"}).code, 0);
  ASSERT_TRUE(WaitForState("first", "SUCCEEDED", 3 * kLong));
  v1::StreamViewsRequest request;
  request.set_training_job("projects/default/jobs/first");
  Viewer viewer(address(), request);
  const auto is_full = [&](size_t after) {
    const std::vector<v1::ViewFrame> frames = viewer.Frames();
    for (size_t i = after; i < frames.size(); ++i) {
      if (frames[i].stride() == 1 && !frames[i].moving() && frames[i].width() == 160) return true;
    }
    return false;
  };
  ASSERT_TRUE(WaitUntil(kLong, [&] { return is_full(0); }));
  const pid_t engine = WaitForOnly("nerf-engine");
  ASSERT_NE(engine, 0);
  kill(engine, SIGKILL);
  const size_t before = viewer.Frames().size();
  EXPECT_THAT(viewer.Turn(), IsOk());
  EXPECT_TRUE(WaitUntil(kLong, [&] { return is_full(before); }));
}

}  // namespace
}  // namespace nerf
