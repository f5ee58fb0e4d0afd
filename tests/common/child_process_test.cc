#include "common/process/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using Kind = ChildProcessEnd::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChildProcessSpec Shell(const std::string& script) {
  ChildProcessSpec spec;
  spec.arguments = {"/bin/sh", "-c", script};
  return spec;
}

TEST(ChildProcessTest, LinesOfBothOutputsAndTheCodeArrive) {
  std::vector<std::string> lines;
  const auto end =
      RunChildProcess(Shell("echo one; echo two >&2; printf 'a\\rb'; exit 7"),
                      [&](std::string_view line) { lines.emplace_back(line); }, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, Kind::kExited);
  EXPECT_EQ(end->code, 7);
  EXPECT_THAT(lines, ElementsAre("one", "two", "a", "b"));
  EXPECT_THAT(end->last_output, HasSubstr("two"));
}

TEST(ChildProcessTest, SignalOfAnotherIsTold) {
  const auto end = RunChildProcess(Shell("kill -SEGV $$"), nullptr, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, Kind::kSignaled);
  EXPECT_EQ(end->code, SIGSEGV);
}

TEST(ChildProcessTest, GroupIsKilledAtTheLimit) {
  TempDir dir;
  ChildProcessSpec spec = Shell("(sleep 600 & echo $! > pid; wait)");
  spec.folder = dir.path();
  spec.time_limit = absl::Seconds(1);
  const auto end = RunChildProcess(spec, nullptr, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, Kind::kTimeLimit);
  const pid_t grandchild = std::stoi(ReadFile(dir / "pid", 100).value());
  // Killed with the group; what is left of it waits to be reaped by init.
  const std::string stat = "/proc/" + std::to_string(grandchild) + "/stat";
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] {
    return ReadFile(stat, 1000).value_or(") Z").find(") Z") != std::string::npos;
  }));
}

TEST(ChildProcessTest, StopKillsIt) {
  std::stop_source source;
  const auto end = RunChildProcess(
      Shell("echo ready; sleep 600"), [&](std::string_view) { source.request_stop(); }, nullptr,
      source.get_token());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, Kind::kStopped);
}

TEST(ChildProcessTest, StopGivesItsGraceToCleanUp) {
  TempDir dir;
  std::stop_source source;
  ChildProcessSpec spec =
      Shell("trap 'rm file; exit 1' TERM; touch file; sleep 600 & echo ready; wait");
  spec.folder = dir.path();
  spec.stop_grace = absl::Seconds(60);
  auto end = RunChildProcess(
      spec, [&](std::string_view) { source.request_stop(); }, nullptr, source.get_token());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, Kind::kStopped);
  EXPECT_FALSE(std::filesystem::exists(dir / "file"));
  // One that does not heed SIGTERM is killed.
  spec.arguments.back() = "trap '' TERM; echo ready; while :; do sleep 1; done";
  spec.stop_grace = absl::Milliseconds(50);
  std::stop_source second;
  end = RunChildProcess(
      spec, [&](std::string_view) { second.request_stop(); }, nullptr, second.get_token());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, Kind::kStopped);
}

TEST(ChildProcessTest, OutputHeldByWhatItLeftBehindDoesNotHoldTheWait) {
  const auto end = RunChildProcess(Shell("sleep 600 & exit 0"), nullptr, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_TRUE(end->ok());
}

TEST(ChildProcessTest, FilesBeyondTheLimitEndIt) {
  TempDir dir;
  ChildProcessSpec spec = Shell("head -c 100000 /dev/zero > big");
  spec.folder = dir.path();
  spec.max_file_bytes = 1000;
  const auto end = RunChildProcess(spec, nullptr, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->ok());
  EXPECT_LE(std::filesystem::file_size(dir / "big"), 1000u);
}

TEST(ChildProcessTest, EnvironmentIsReplacedAndSignalsAreOpen) {
  std::vector<std::string> lines;
  ChildProcessSpec spec = Shell("echo $HOME $NERF_X; grep SigBlk /proc/self/status");
  spec.environment = {{"HOME", "/h"}, {"NERF_X", "1"}};
  ASSERT_THAT(
      RunChildProcess(spec, [&](std::string_view l) { lines.emplace_back(l); }, nullptr, {}),
      IsOk());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "/h 1");
  EXPECT_THAT(lines[1], HasSubstr("0000000000000000"));
}

TEST(ChildProcessTest, PreparedChildHasTheGivenEnvironmentAlone) {
  std::string said;
  ChildProcessSpec spec = Shell("echo [$HOME] [$NERF_X]; umask");
  spec.environment = {{"NERF_X", "1"}};
  spec.inherits_environment = false;
  spec.prepare = [] {
    umask(0123);
    return true;
  };
  const auto end = RunChildProcess(
      spec, [&](std::string_view line) { said.append(line).append("\n"); }, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(said, "[] [1]\n0123\n");
  spec.prepare = [] { return false; };
  EXPECT_EQ(RunChildProcess(spec, nullptr, nullptr, {})->code, 126);
}

TEST(ChildProcessTest, LongLinesAndMuchOutputAreBounded) {
  size_t longest = 0;
  const auto end = RunChildProcess(
      Shell("head -c 1000000 /dev/zero | tr '\\0' x; echo end"),
      [&](std::string_view line) { longest = std::max(longest, line.size()); }, nullptr, {});
  ASSERT_THAT(end, IsOk());
  EXPECT_LE(longest, 4096u);
  EXPECT_LE(end->last_output.size(), size_t{16} << 10);
  EXPECT_THAT(end->last_output, HasSubstr("end"));
}

TEST(ChildProcessTest, AbsentProgramIsNotFound) {
  EXPECT_THAT(FindProgram("no-such-program"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(FindProgram("/etc/passwd"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(FindProgram(""), StatusIs(absl::StatusCode::kNotFound));
  ChildProcessSpec spec;
  EXPECT_THAT(RunChildProcess(spec, nullptr, nullptr, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ChildProcessTest, InputIsWrittenWhileOutputIsRead) {
  auto process = ChildProcess::Start(Shell("cat; echo done"), /*has_input=*/true);
  ASSERT_THAT(process, IsOk());
  const std::string megabyte(size_t{1} << 20, 'x');
  for (int i = 0; i < 4; ++i) ASSERT_THAT(process->Write(megabyte + "\n", {}), IsOk());
  std::string last;
  const ChildProcessEnd end =
      process->Wait([&](std::string_view line) { last = line; }, nullptr, {});
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(last, "done");
}

TEST(ChildProcessTest, InputThatNobodyReadsIsAnError) {
  auto process = ChildProcess::Start(Shell("exit 3"), /*has_input=*/true);
  ASSERT_THAT(process, IsOk());
  absl::Status status;
  const std::string megabyte(size_t{1} << 20, 'x');
  while (status.ok()) status = process->Write(megabyte, {});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(process->Wait(nullptr, nullptr, {}).code, 3);
}

TEST(ChildProcessTest, DestructorKillsAndReaps) {
  auto process = ChildProcess::Start(Shell("sleep 600"));
  ASSERT_THAT(process, IsOk());
}

}  // namespace
}  // namespace nerf
