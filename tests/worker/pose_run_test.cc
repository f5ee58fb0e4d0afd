// Pose jobs on a worker, from the order to the report of their end. A script stands in for
// nerf-engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/messages/rpc_status.h"
#include "common/process/sandbox_support.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/wait_until.h"
#include "tests/worker/scripted_agent.h"
#include "worker/runs/pose/pose_program.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPoseJob[] = "projects/default/jobs/fox";

// Begins every stand-in: `out` and `photos` are the folders that it was given.
constexpr char kHead[] = R"(#!/bin/sh
for word in "$@"; do
  [ "$last" = --out ] && out=$word
  [ "$last" = --ffprobe ] && probe=$word
  [ "$last" = --into ] && into=$word
  case $word in */photos) photos=$word ;; esac
  last=$word
done
)";
// Writes a data set of two photographs, of which one is posed.
constexpr char kPosed[] = R"(
echo '{"event":"posing","stage":5,"stages":7,"doing":"matching","done":1,"of":2}'
printf '%s' '{"event":"posing","stage":5,"stages":7,"doing":"matching",'
echo '"done":2,"of":2,"unit":"photographs"}'
printf '%s' '{"event":"posing","stage":6,"stages":7,"doing":"placing cameras",'
echo '"done":1,"of":2,"unit":"photographs","seconds":3.5,"eta_seconds":20,"matches_per_second":1e5,"points":"0aff","cameras":"010240"}'
mkdir -p "$out/images" "$out/sparse/0"
echo upright a > "$out/images/a.jpg"
echo upright b > "$out/images/b.jpg"
echo cameras > "$out/sparse/0/cameras.bin"
echo images > "$out/sparse/0/images.bin"
echo words > "$out/pose.txt"
echo picture > "$out/pose.png"
cat > "$out/pose.json" <<'REPORT'
{"event":"done","photographs":2,"usable":2,"posed":1,"points":7,"reprojection_error_pixels":0.5,
 "parallax_degrees":4,"warnings":["w"],"again":["walk around it"],"photos":[
 {"number":1,"name":"a.jpg","file":"images/a.jpg","posed":true,"points":7},
 {"number":2,"name":"b.jpg","file":"images/b.jpg","posed":false,"reason":"no overlap",
  "words":"shares nothing"}]}
REPORT
)";

class PoseRunTest : public AgentTest {
 protected:
  void UseEngine(const std::string& body) {
    const std::string path = dir_ / "engine.sh";
    std::ofstream(path) << kHead << body;
    fs::permissions(path, fs::perms::owner_all);
    options_.pose.engine = path;
    options_.pose.colmap = "/bin/true";
    options_.pose.sandboxed = false;
  }

  v1::SynchronizeResponse PoseOrder(uint64_t epoch = 3) {
    v1::SynchronizeResponse message;
    v1::DesiredJob* desired = message.mutable_desired_job();
    desired->set_action(v1::DesiredJob::POSE);
    desired->set_job(kPoseJob);
    desired->set_lease_epoch(epoch);
    desired->mutable_lease_ttl()->set_seconds(30);
    desired->mutable_pose()->set_min_posed(0.9);
    desired->mutable_pose()->set_film_frames(120);
    for (const char* name : {"a.jpg", "b.jpg"}) {
      v1::SceneManifestEntry* file = desired->mutable_pose()->add_files();
      file->set_path(name);
      *file->mutable_blob() = server_.AddBlob(std::string("photograph ") + name);
    }
    return message;
  }

  void SendOrder(uint64_t epoch = 3) {
    Send(PoseOrder(epoch));
    Settle();
  }

  void AcknowledgeEnd() {
    v1::SynchronizeResponse acknowledged;
    acknowledged.set_finished_acknowledged(kPoseJob);
    Send(acknowledged);
  }

  // What the stand-in did, as it says in files of the test's folder.
  std::string Told(const std::string& name) { return ReadFile(dir_ / name, 1 << 20).value_or(""); }
};

TEST_F(PoseRunTest, PosesTheFetchedPhotographsAndCommitsTheDataSet) {
  UseEngine("cat \"$photos/a.jpg\" \"$photos/b.jpg\" > " + dir_.path() + "/seen\necho \"$@\" > " +
            dir_.path() + "/flags\n" + kPosed);
  options_.colmap_version = "3.8";
  options_.features = {"colmap"};
  Start();
  EXPECT_EQ(server_.messages().front().hello().colmap_version(), "3.8");
  SendOrder();
  EXPECT_EQ(Told("seen"), "photograph a.jpgphotograph b.jpg");
  EXPECT_THAT(Told("flags"), HasSubstr("--min-posed 0.9 --film-frames 120"));
  ASSERT_EQ(server_.pose_commits().size(), 1u);
  const v1::CommitPosesRequest commit = server_.pose_commits()[0];
  EXPECT_EQ(commit.job(), kPoseJob);
  EXPECT_EQ(commit.lease_epoch(), 3u);
  EXPECT_EQ(commit.worker_id(), "w-test");
  std::map<std::string, std::string> files;
  for (const auto& file : commit.files()) {
    files[file.path()] = server_.Blob(file.blob().sha256()).value_or("");
  }
  EXPECT_THAT(files, ElementsAre(std::pair("images/a.jpg", "upright a\n"),
                                 std::pair("sparse/0/cameras.bin", "cameras\n"),
                                 std::pair("sparse/0/images.bin", "images\n")));
  EXPECT_EQ(commit.report().posed(), 1u);
  EXPECT_EQ(commit.report().parallax_degrees(), 4);
  EXPECT_THAT(commit.report().again(), ElementsAre("walk around it"));
  EXPECT_EQ(server_.Blob(commit.report().text().sha256()), "words\n");
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
  EXPECT_EQ(server_.last_report()->pose_progress().doing(), "placing cameras");
  EXPECT_EQ(server_.last_report()->pose_progress().of(), 2u);
  EXPECT_EQ(server_.last_report()->pose_progress().unit(), "photographs");
  ASSERT_EQ(server_.last_report()->pose_progress().finished_size(), 1);
  EXPECT_EQ(server_.last_report()->pose_progress().finished(0).doing(), "matching");
  EXPECT_EQ(server_.last_report()->pose_progress().finished(0).done(), 2u) << "its last line";
  EXPECT_EQ(server_.last_report()->pose_progress().finished(0).unit(), "photographs");
  EXPECT_EQ(server_.last_report()->pose_progress().sketch().points(), "\x0a\xff");
  EXPECT_EQ(server_.last_report()->pose_progress().sketch().cameras(), "\x01\x02\x40");
  EXPECT_EQ(server_.last_report()->pose_progress().eta_seconds(), 20);
  EXPECT_EQ(server_.last_report()->pose_progress().matches_per_second(), 1e5);
  AcknowledgeEnd();
  EXPECT_TRUE(agent_->idle());
  EXPECT_TRUE(fs::is_empty(Room() + "/jobs")) << "its folder is gone";
}

TEST_F(PoseRunTest, AdditionGetsTheSceneAndCommitsAllOfTheNewOne) {
  UseEngine("echo \"$@\" > " + dir_.path() + "/flags\n" + kPosed +
            "mkdir \"$out/old\" && cp \"$into/old/x.jpg\" \"$out/old\" && rm -r \"$out/sparse\"\n"
            "echo place > \"$out/placement.json\" && rm \"$out/images/b.jpg\"\n");
  Start();
  v1::SynchronizeResponse order = PoseOrder();
  v1::PoseTask* task = order.mutable_desired_job()->mutable_pose();
  v1::SceneManifestEntry* file = task->add_into_files();
  file->set_path("old/x.jpg");
  *file->mutable_blob() = server_.AddBlob("old photograph");
  task->set_camera(v1::PoseSpec::PERSPECTIVE);
  task->set_mask_below_degrees(62.5);
  Send(order);
  Settle();
  EXPECT_THAT(Told("flags"), HasSubstr("/scene --camera perspective --mask-below 62.5"));
  ASSERT_EQ(server_.pose_commits().size(), 1u);
  const v1::CommitPosesRequest commit = server_.pose_commits()[0];
  std::vector<std::string> paths;
  for (const auto& entry : commit.files()) paths.push_back(entry.path());
  EXPECT_THAT(paths, ElementsAre("images/a.jpg", "old/x.jpg", "placement.json"));
  EXPECT_EQ(server_.Blob(commit.files(1).blob().sha256()), "old photograph");
}

TEST_F(PoseRunTest, TooFewPosedPhotographsAreNamedOneByOne) {
  UseEngine(std::string(kPosed) + "exit 9\n");
  Start();
  SendOrder();
  ASSERT_EQ(server_.pose_commits().size(), 1u);
  EXPECT_EQ(server_.pose_commits()[0].files_size(), 0);
  EXPECT_TRUE(server_.pose_commits()[0].report().has_json());
  ASSERT_EQ(server_.phase(), v1::JobReport::FAILED);
  const v1::JobReport report = *server_.last_report();
  EXPECT_EQ(report.error().message(),
            "1 of 2 usable photographs could be posed, fewer than 90%; walk around it");
  ASSERT_EQ(report.problems_size(), 1);
  EXPECT_EQ(report.problems(0).file(), "b.jpg");
  EXPECT_EQ(report.problems(0).message(), "shares nothing");
}

TEST_F(PoseRunTest, WhatTheEngineSaysOfThePhotographsFailsTheJob) {
  UseEngine(
      R"(echo "{\"event\":\"failed\",\"code\":\"INVALID_ARGUMENT\",\"reason\":\"FIELD_INVALID\",\"message\":\"$photos/a.jpg: is cut off\"}"
exit 9
)");
  Start();
  SendOrder();
  ASSERT_EQ(server_.phase(), v1::JobReport::FAILED);
  EXPECT_THAT(server_.last_report()->error().message(), HasSubstr("a.jpg: is cut off"));
  EXPECT_THAT(server_.last_report()->error().message(), testing::Not(HasSubstr(dir_.path())));
  EXPECT_TRUE(server_.pose_commits().empty());
}

TEST_F(PoseRunTest, BrokenSearchIsACrashWhichTheServerTriesAgain) {
  const std::string failed = "echo '{\"event\":\"failed\",\"message\":\"m\",\"code\":\"";
  for (const std::string& body :
       {std::string("kill -9 $$\n"), std::string("exit 1\n"), failed + "ABORTED\"}'\nexit 3\n",
        failed + "RESOURCE_EXHAUSTED\"}'\nexit 8\n"}) {
    UseEngine(body);
    Start();
    SendOrder();
    ASSERT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED) << body;
    EXPECT_EQ(GetReason(FromRpcStatus(server_.last_report()->error()))->reason,
              reason::kEngineCrashed);
    agent_.reset();
  }
}

TEST_F(PoseRunTest, CrashMessagesNameNoFolderOfThisMachine) {
  UseEngine(
      R"(echo "{\"event\":\"failed\",\"code\":\"ABORTED\",\"message\":\"colmap: it said: $out.partial-a/few.db / $photos/a b.jpg: /opt/x.cc:3 failed\"}"
exit 3
)");
  Start();
  SendOrder();
  ASSERT_EQ(server_.phase(), v1::JobReport::ENGINE_CRASHED);
  EXPECT_EQ(server_.last_report()->error().message(),
            "the search for poses broke down: colmap: it said: few.db / a b.jpg: x.cc:3 failed");
}

TEST_F(PoseRunTest, FullDiskHandsTheJobBackForLackOfRoom) {
  UseEngine(
      R"(echo "{\"event\":\"failed\",\"code\":\"RESOURCE_EXHAUSTED\",\"reason\":\"STORE_READ_ONLY\",\"message\":\"colmap: the disk is full while matching features of $photos/a.jpg\"}"
exit 8
)");
  Start();
  SendOrder();
  ASSERT_EQ(server_.phase(), v1::JobReport::RELEASED);
  EXPECT_EQ(server_.last_report()->release_reason(), v1::JobReport::NO_ROOM);
  EXPECT_EQ(server_.last_report()->error().message(),
            "on the worker: colmap: the disk is full while matching features of a.jpg");
}

TEST_F(PoseRunTest, FailedCommitIsRepeatedWithoutPosingAgain) {
  UseEngine("echo once >> " + dir_.path() + "/runs\n" + kPosed);
  Start();
  server_.SetCommitResult({absl::StatusCode::kUnavailable, "no server", ""});
  SendOrder();
  EXPECT_TRUE(server_.pose_commits().empty());
  server_.SetCommitResult({});
  Pass(absl::Seconds(10));
  EXPECT_EQ(server_.pose_commits().size(), 1u);
  EXPECT_EQ(Told("runs"), "once\n");
  EXPECT_EQ(server_.phase(), v1::JobReport::SUCCEEDED);
}

TEST_F(PoseRunTest, LostLeaseAndFullQuotaEndIt) {
  UseEngine(kPosed);
  Start();
  server_.SetCommitResult(
      {absl::StatusCode::kFailedPrecondition, "stale", std::string(reason::kLeaseFenced)});
  SendOrder();
  EXPECT_TRUE(agent_->idle());
  server_.SetCommitResult(
      {absl::StatusCode::kResourceExhausted, "full", std::string(reason::kQuotaExceeded)});
  SendOrder(4);
  EXPECT_EQ(server_.phase(), v1::JobReport::FAILED);
}

TEST_F(PoseRunTest, HostileDataSetIsNotUploaded) {
  const std::string secret = dir_ / "secret";
  std::ofstream(secret) << "the token";
  for (const std::string& trick :
       {"ln -sf " + secret + " \"$out/images/a.jpg\"", "ln -sf " + secret + " \"$out/pose.json\"",
        std::string("sed -i s,images/a.jpg,../../../../../secret, \"$out/pose.json\""),
        std::string("sed -i s,images/a.jpg,/etc/passwd, \"$out/pose.json\""),
        "ln -sf " + secret + " \"$out/sparse/0/x.bin\"",
        std::string("mkdir \"$out/sparse/0/folder\""), std::string("rm \"$out/pose.png\""),
        std::string("echo '[[[[' > \"$out/pose.json\""), std::string("rm -r \"$out/sparse\"")}) {
    UseEngine(std::string(kPosed) + trick + "\n");
    Start();
    SendOrder();
    EXPECT_EQ(server_.phase(), v1::JobReport::FAILED) << trick;
    EXPECT_TRUE(server_.pose_commits().empty()) << trick;
    agent_.reset();
  }
  // Of an addition all files are taken.
  for (const std::string& trick :
       {"ln -s " + secret + " \"$out/secret.jpg\"", "ln -s " + dir_.path() + " \"$out/all\"",
        std::string("mkfifo \"$out/pipe\""), std::string("touch \"$out/a\\b.jpg\"")}) {
    UseEngine(std::string(kPosed) + trick + "\n");
    Start();
    v1::SynchronizeResponse order = PoseOrder();
    v1::SceneManifestEntry* file = order.mutable_desired_job()->mutable_pose()->add_into_files();
    file->set_path("x.jpg");
    *file->mutable_blob() = server_.AddBlob("old photograph");
    Send(order);
    Settle();
    EXPECT_EQ(server_.phase(), v1::JobReport::FAILED) << trick;
    EXPECT_TRUE(server_.pose_commits().empty()) << trick;
    agent_.reset();
  }
}

TEST_F(PoseRunTest, OrdersAboutAnUnknownPoseJobAreAnsweredWithItsEnd) {
  UseEngine(kPosed);
  Start();
  v1::SynchronizeResponse cancel = PoseOrder();
  cancel.mutable_desired_job()->set_action(v1::DesiredJob::CANCEL);
  cancel.mutable_desired_job()->clear_pose();
  Send(cancel);
  EXPECT_EQ(server_.phase(), v1::JobReport::CANCELLED);
}

class PoseProgramTest : public testing::Test {
 protected:
  PoseProgramTest() {
    fs::create_directories(dir_ / "photos");
    fs::create_directories(dir_ / "work");
    std::ofstream(dir_ / "photos/a.jpg") << "photograph";
    options_.colmap = "/bin/sh";  // so that the sandbox lets the stand-in run
    options_.sandboxed = false;
  }
  void UseEngine(const std::string& body) {
    options_.engine = dir_ / "engine.sh";
    std::ofstream(options_.engine) << kHead << body;
    fs::permissions(options_.engine, fs::perms::owner_all);
  }
  absl::StatusOr<bool> Search(const std::stop_token& stop = {}) {
    return SearchPosesInSandbox(
        options_, {dir_ / "photos", dir_ / "work"},
        [this](const protocol::Posing& posing) { said_.push_back(posing.doing); }, stop);
  }

  TempDir dir_;
  PoseProgramOptions options_;
  std::vector<std::string> said_;
};

TEST_F(PoseProgramTest, StopKillsEveryProcessOfItWithinASecond) {
  UseEngine("sleep 1000 &\necho $! > \"$photos/../pid\"\necho $$ > \"$photos/../shell\"\nwait\n");
  std::stop_source stop;
  absl::Time stopped;
  std::jthread stopper([&] {
    ASSERT_TRUE(WaitUntil(absl::Seconds(30), [&] {
      return fs::exists(dir_ / "shell") && fs::file_size(dir_ / "shell") > 0;
    }));
    stopped = absl::Now();
    stop.request_stop();
  });
  const auto end = Search(stop.get_token());
  const absl::Time ended = absl::Now();
  stopper.join();
  EXPECT_THAT(end.status(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_LT(ended - stopped, absl::Seconds(1));
  // Killed with the group; what is left of it waits to be reaped by init.
  const std::string stat = "/proc/" + std::to_string(std::stoi(*ReadFile(dir_ / "pid", 100)));
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] {
    return ReadFile(stat + "/stat", 1000).value_or(") Z").find(") Z") != std::string::npos;
  }));
}

TEST_F(PoseProgramTest, TimeLimitEndsIt) {
  options_.time_limit = absl::Milliseconds(200);
  UseEngine("sleep 1000\n");
  EXPECT_THAT(Search().status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(PoseProgramTest, MemoryLimitHoldsForItAndForWhatItStarts) {
  options_.max_data_bytes = uint64_t{600} << 20;
  UseEngine(R"sh(
say() { echo "{\"event\":\"posing\",\"stage\":1,\"stages\":1,\"doing\":\"$1\"}"; }
say "$(ulimit -d)"
say "$(/bin/sh -c 'ulimit -d')"
)sh");
  EXPECT_THAT(Search(), IsOk());
  EXPECT_THAT(said_, ElementsAre("614400", "614400"));
}

TEST_F(PoseProgramTest, ToolsAreAskedForTheirVersions) {
  UseEngine(R"(case "$*" in *--tools*) echo '{"event":"done","colmap":"3.8","ffmpeg":"5.1"}' ;; esac
)");
  const auto tools = AskPoseTools(options_);
  ASSERT_THAT(tools, IsOk());
  EXPECT_EQ(tools->colmap, "3.8");
  EXPECT_EQ(tools->ffmpeg, "5.1");
  UseEngine("exit 0\n");
  EXPECT_FALSE(AskPoseTools(options_).ok());
  options_.colmap.clear();
  EXPECT_THAT(AskPoseTools(options_).status(), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST_F(PoseProgramTest, SandboxOpensItsTwoFoldersAndItsProgramsAlone) {
  if (LandlockVersion() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  options_.sandboxed = true;
  options_.ffmpeg = "/bin/sleep";
  options_.ffprobe = "/usr/bin/setsid";
  const std::string secret = dir_ / "secret";
  std::ofstream(secret) << "the token";
  setenv("NERF_WORKER_TOKEN_FILE", secret.c_str(), 1);
  UseEngine(R"(
say() { echo "{\"event\":\"posing\",\"stage\":1,\"stages\":1,\"doing\":\"$1\"}"; }
read x < "$photos/a.jpg"; [ "$x" = photograph ] && say "reads photographs"
echo x > "$out" && say "writes its folder"
/bin/sleep 0 && say "starts its program"
/bin/sh -c 'exit 0' && say "starts another"
(read x < SECRET) 2>/dev/null && say "reads a secret"
(echo x > "$photos/new") 2>/dev/null && say "writes among the photographs"
(echo x >> "$photos/a.jpg") 2>/dev/null && say "changes a photograph"
/bin/cat "$photos/a.jpg" > /dev/null 2>&1 && say "starts a program that is not its own"
"$probe" /bin/sleep 0 2> /dev/null && say "leaves its process group"
[ -n "$NERF_WORKER_TOKEN_FILE" ] && say "knows the token's file"
exit 0
)");
  std::string script = *ReadFile(options_.engine, 1 << 20);
  script.replace(script.find("SECRET"), 6, secret);
  std::ofstream(options_.engine) << script;
  const auto end = Search();
  unsetenv("NERF_WORKER_TOKEN_FILE");
  EXPECT_THAT(end, IsOk());
  EXPECT_THAT(said_, ElementsAre("reads photographs", "writes its folder", "starts its program",
                                 "starts another"));
}

}  // namespace
}  // namespace nerf
