#include "client/calls/doctor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/files/file_io.h"
#include "common/process/exit_code.h"
#include "common/process/local_server.h"
#include "fmt/format.h"
#include "tests/client/fake_server.h"
#include "tests/client/run_command.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void WriteScript(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body << '\n';
  chmod(path.c_str(), 0755);
}

class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    for (const char* name : {"nerfd", "nerf-worker"}) WriteScript(dir_ / name, "exit 0");
    SetEngine(R"(echo '{"event":"done","cpu":"EPYC","threads":2,"problems":[]}')");
    v1::Worker worker;
    worker.set_name("workers/w-1");
    worker.set_state(v1::Worker::IDLE);
    worker.set_version(NERF_VERSION);
    worker.set_device("cuda:0");
    worker.add_methods("ngp");
    state_.workers.push_back(worker);
  }
  void SetEngine(const std::string& body) { WriteScript(dir_ / "nerf-engine", body); }
  CommandResult Run(const std::string& server) {
    return RunCommand(
        {"doctor", "--server", server, "--bin-dir", dir_.path(), "--data-dir", dir_ / "data"});
  }

  TempDir dir_;
  FakeState state_;
  FakeServer server_{&state_};
};

TEST_F(DoctorTest, HealthySetUpHasNoProblems) {
  const CommandResult result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kOk) << result.out;
  EXPECT_THAT(result.out, HasSubstr("answers and serves"));
  EXPECT_THAT(result.out, HasSubstr("1 connected"));
  EXPECT_THAT(result.out, HasSubstr("cpu EPYC, threads 2"));
  EXPECT_THAT(result.out, Not(HasSubstr("problem")));
}

TEST_F(DoctorTest, DevicesAndMethodsOfTheConnectedWorkersAreListed) {
  v1::Worker other;
  other.set_name("workers/w-2");
  other.set_state(v1::Worker::BUSY);
  other.set_version(NERF_VERSION);
  other.set_device("cpu");
  other.add_methods("ngp");
  other.add_methods("ngp-autograd");
  state_.workers.push_back(other);
  other.set_name("workers/w-3");
  other.set_state(v1::Worker::LOST);
  state_.workers.push_back(other);
  other.set_name("workers/w-4");
  other.set_state(v1::Worker::IDLE);
  other.clear_methods();
  state_.workers.push_back(other);
  const std::string out = Run(server_.address()).out;
  EXPECT_THAT(out, HasSubstr("offers    w-1 on cuda:0 trains ngp\n"));
  EXPECT_THAT(out, HasSubstr("offers    w-2 on cpu trains ngp, ngp-autograd\n"));
  EXPECT_THAT(out, Not(HasSubstr("w-3 on cpu")));
  EXPECT_THAT(out, HasSubstr("w-4 on cpu does not say which methods it trains\n"));
}

TEST_F(DoctorTest, MissingProgramsOfPhotographsAndFilmsAreNotedWithTheirPackages) {
  CommandResult result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kOk) << "scenes with poses need none";
  EXPECT_THAT(result.out, HasSubstr("note     colmap    no worker has it: photographs without "
                                    "poses wait: apt-get install colmap where a worker runs"));
  EXPECT_THAT(result.out, HasSubstr("note     ffmpeg    no worker has it: films without poses"));
  EXPECT_THAT(result.err, HasSubstr("no problems, 2 notes"));
  state_.workers.push_back(state_.workers[0]);
  state_.workers[1].set_name("workers/w-2");
  state_.workers[1].set_colmap_version("3.8");
  state_.workers[1].set_ffmpeg_version("5.1.9");
  result = Run(server_.address());
  EXPECT_THAT(result.out, HasSubstr("ok       colmap    3.8 of a worker, photographs"));
  EXPECT_THAT(result.out, HasSubstr("ok       ffmpeg    5.1.9 of a worker, films"));
  EXPECT_THAT(result.err, HasSubstr("no problems\n"));
}

TEST_F(DoctorTest, UnreachableServerIsNamedWithARemedyAndTheRestIsExamined) {
  const CommandResult result = Run("127.0.0.1:1");
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.out, HasSubstr("nothing answers at 127.0.0.1:1: start `nerfd`"));
  EXPECT_THAT(result.out, HasSubstr("engine"));
}

TEST_F(DoctorTest, LostAndOutdatedWorkersAreNamed) {
  state_.workers[0].set_state(v1::Worker::LOST);
  CommandResult result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_THAT(result.out, HasSubstr("no worker is connected"));
  state_.workers[0].set_state(v1::Worker::IDLE);
  state_.workers[0].set_version("0.0.9");
  result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_THAT(result.out, HasSubstr("worker w-1 has version 0.0.9"));
}

// The server that answers here uses another data folder.
TEST_F(DoctorTest, MissingDataFolderIsNoClaimThatNoServerHasRun) {
  const CommandResult result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kOk) << result.out;
  EXPECT_THAT(result.out, HasSubstr("note     data      " + (dir_ / "data") +
                                    " is missing; if nerfd uses another folder, name it "
                                    "with --data-dir\n"));
}

TEST_F(DoctorTest, DataFolderOfOnesOwnServerIsFoundByItsAddress) {
  const ScopedEnvironment state("XDG_STATE_HOME", dir_ / "state");
  const std::string served = dir_ / "served";
  std::filesystem::create_directory(served);
  std::ofstream(served + "/nerfd.ports")
      << fmt::format(R"({{"pid":1,"grpc":"{}"}})", server_.address());
  const UniqueFd lock(open((served + "/nerfd.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  ASSERT_THAT(NoteLocalServer(server_.address(), served), IsOk());
  const CommandResult result =
      RunCommand({"doctor", "--server", server_.address(), "--bin-dir", dir_.path()});
  EXPECT_THAT(result.out, HasSubstr(" data      " + served + ": "));
}

TEST_F(DoctorTest, DataFolderIsLeftOutForAServerElsewhere) {
  const CommandResult result =
      RunCommand({"doctor", "--server", "nowhere.invalid:1", "--bin-dir", dir_.path()});
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.out, Not(HasSubstr(" data ")));
}

TEST_F(DoctorTest, TokenThatOthersCanReadIsAProblem) {
  std::filesystem::create_directory(dir_ / "data");
  std::ofstream(dir_ / "data/worker.token") << "secret";
  chmod((dir_ / "data/worker.token").c_str(), 0644);
  CommandResult result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_THAT(result.out, HasSubstr("(mode 0644): chmod 600 "));
  chmod((dir_ / "data/worker.token").c_str(), 0600);
  EXPECT_THAT(Run(server_.address()).out, HasSubstr("belongs to its owner alone"));
}

TEST_F(DoctorTest, ProblemsOfTheEngineArePassedOn) {
  SetEngine(
      R"(echo '{"event":"done","problems":["no AVX2",{"message":"driver too old"}]}'; exit 7)");
  const CommandResult result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_THAT(result.out, HasSubstr("no AVX2"));
  EXPECT_THAT(result.out, HasSubstr("driver too old"));
}

TEST_F(DoctorTest, EngineThatIsMissingOrSaysNonsenseIsAProblem) {
  SetEngine("echo hello; exit 1");
  EXPECT_THAT(Run(server_.address()).out, HasSubstr("is not JSON (exit 1)"));
  SetEngine("kill -SEGV $$");
  EXPECT_THAT(Run(server_.address()).out, HasSubstr("ended by signal 11"));
  std::filesystem::remove(dir_ / "nerf-engine");
  const CommandResult result = Run(server_.address());
  EXPECT_EQ(result.exit_code, kWrongState);
  EXPECT_THAT(result.out, HasSubstr("nerf-engine is missing"));
}

TEST_F(DoctorTest, JsonListsEveryFinding) {
  const CommandResult result = RunCommand({"doctor", "--json", "--server", server_.address(),
                                           "--bin-dir", dir_.path(), "--data-dir", dir_ / "data"});
  const auto findings = nlohmann::json::parse(result.out);
  ASSERT_TRUE(findings.is_array());
  EXPECT_EQ(findings[0]["check"], "server");
  EXPECT_EQ(findings[0]["result"], "ok");
}

TEST(RunForOutputTest, SlowProgramIsEnded) {
  int exit_code = 0;
  const absl::Time start = absl::Now();
  EXPECT_THAT(RunForOutput({"/bin/sleep", "600"}, absl::Milliseconds(100), &exit_code),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "did not end"));
  EXPECT_LT(absl::Now() - start, absl::Minutes(2));
  EXPECT_THAT(RunForOutput({"/nonexistent"}, absl::Seconds(1), &exit_code),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace nerf
