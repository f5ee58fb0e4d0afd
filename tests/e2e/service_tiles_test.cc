// Tiles of one scene that two workers train as jobs of their own. The merged model has the bytes of
// one worker that trains all tiles, though a worker and the server are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/process/exit_code.h"
#include "tests/e2e/service_harness.h"

namespace nerf {
namespace {

using testing::HasSubstr;
using testing::Not;

class ServiceTilesTest : public ServiceTest {
 protected:
  static constexpr absl::Duration kVeryLong = absl::Seconds(240 * kSlower);

  void SetUp() override {
    ASSERT_TRUE(StartNerfd(Flags())) << nerfd().err();
    CreateSmallScene();
  }
  static std::vector<std::string> Flags() {
    return {"--no-local-worker", "--checkpoint-interval", "200ms", "--lease-ttl", "3s"};
  }

  void StartWorker(const std::string& name) {
    workers_[name] =
        Start("nerf-worker", {"--server", address(), "--cache-dir", dir_ / name, "--threads", "1"});
  }

  CtlResult CreateTiles(const std::string& id, std::vector<std::string> flags) {
    flags.insert(flags.end(),
                 {"--method", "ngp-tiles", "--set", "tiles=4", "--steps", "2000", "--seed", "7"});
    return CreateJob(id, flags);
  }

  std::string ModelOf(const std::string& job) {
    const Json checkpoints = GetJob(job)["trainingStatus"]["checkpoints"];
    return checkpoints.empty() ? "" : checkpoints.back()["modelBlob"]["sha256"].get<std::string>();
  }

  std::map<std::string, std::unique_ptr<BinaryProcess>> workers_;
};

TEST_F(ServiceTilesTest, BytesAreThoseOfOneWorkerThoughAWorkerAndTheServerAreKilled) {
  StartWorker("a");
  ASSERT_EQ(CreateTiles("alone", {}).code, kOk);
  ASSERT_TRUE(WaitForState("alone", "SUCCEEDED", kVeryLong));
  EXPECT_TRUE(GetJob("alone")["trainingStatus"]["parts"].empty());

  StartWorker("b");
  const CtlResult created = CreateTiles("whole", {"--workers", "2"});
  ASSERT_EQ(created.code, kOk) << created.err;
  EXPECT_EQ(GetJob("whole")["wait"]["reason"], "PARTS");
  const std::string shown = Ctl({"job", "show", "whole"}).out;
  EXPECT_THAT(shown, HasSubstr("jobs/whole-part3"));
  EXPECT_THAT(Ctl({"job", "ls"}).out, Not(HasSubstr("whole-part0")));
  EXPECT_THAT(Ctl({"job", "ls", "--filter", "part_of = whole"}).out, HasSubstr("whole-part0"));
  EXPECT_EQ(GetJob("whole-part2")["trainingStatus"]["effectiveConfig"]["settings"]["tile"], "2");

  ASSERT_TRUE(WaitForJob(
      "whole-part0", [](const Json& job) { return LastCheckpoint(job) > 0; }, kVeryLong));
  workers_["b"]->Kill(SIGKILL);
  workers_.erase("b");
  StartWorker("c");
  EXPECT_THAT(Ctl({"job", "cancel", "whole-part0"}).err, HasSubstr("trains a part of"));
  ASSERT_TRUE(WaitForState("whole-part1", "SUCCEEDED", kVeryLong));
  nerfd().Kill(SIGKILL);
  std::vector<std::string> again = SamePorts();
  for (const std::string& flag : Flags()) again.push_back(flag);
  ASSERT_TRUE(StartNerfd(again)) << nerfd().err();
  ASSERT_TRUE(WaitForState("whole", "SUCCEEDED", kVeryLong));

  const Json whole = GetJob("whole")["trainingStatus"], alone = GetJob("alone")["trainingStatus"];
  EXPECT_NE(ModelOf("alone"), "");
  EXPECT_EQ(ModelOf("whole"), ModelOf("alone"));
  EXPECT_EQ(whole["finalPsnr"], alone["finalPsnr"]);
  EXPECT_EQ(whole["progress"]["samples"], alone["progress"]["samples"]);
  // The tiles' own models go once they are merged.
  EXPECT_TRUE(WaitForJob(
      "whole-part3", [](const Json& job) { return job["trainingStatus"]["checkpoints"].empty(); }));
  EXPECT_EQ(Ctl({"job", "rm", "whole"}).code, kOk);
  EXPECT_NE(Ctl({"job", "show", "whole-part0"}).code, kOk);
}

TEST_F(ServiceTilesTest, JointTilesAreNotSharedOut) {
  const CtlResult refused = Ctl({"job", "create", "small", "--method", "ngp-tiles", "--set",
                                 "tile_training=joint", "--workers", "2"});
  EXPECT_EQ(refused.code, kUsage) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("method ngp-tiles cannot be split among ranks"));
}

}  // namespace
}  // namespace nerf
