#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/files/sha256.h"
#include "common/messages/blob_ref.h"
#include "fmt/format.h"
#include "nerf/v1/job_service.pb.h"
#include "tests/client/fake_server.h"
#include "tests/client/run_command.h"
#include "tests/testing/temp_dir.h"

namespace nerf {

inline constexpr const char* kJob = "projects/default/jobs/j-fake";

// A message of a watch of kJob, which has 100 steps.
inline v1::WatchJobResponse Message(v1::WatchJobResponse::Kind kind, int sequence,
                                    v1::Job::State state, uint32_t step = 0) {
  v1::WatchJobResponse message;
  message.set_kind(kind);
  message.set_resume_token(fmt::format("token-{}", sequence));
  message.set_sequence(sequence);
  v1::Job& job = *message.mutable_job();
  job.set_name(kJob);
  job.set_state(state);
  job.set_attempt(1);
  job.add_workers("workers/w-1");
  job.mutable_training()->mutable_config()->set_steps(100);
  if (step > 0) {
    job.mutable_training_status()->mutable_progress()->set_step(step);
    job.mutable_training_status()->mutable_progress()->set_fraction(step / 100.0);
  }
  return message;
}

using W = v1::WatchJobResponse;
using J = v1::Job;

// A shell script to run in place of nerf-engine. Returns its path.
inline std::string FakeEngine(const TempDir& dir, const std::string& body) {
  const std::string path = dir / "engine.sh";
  std::ofstream(path) << "#!/bin/sh\n" << body;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// Commands against a scripted server on a loopback port.
class ServiceTest : public testing::Test {
 protected:
  // Suggested commands repeat --server, which is taken out of the result.
  CommandResult Run(std::vector<std::string> args, RunOptions options = {}) {
    args.insert(args.begin(), {"--server", server_.address()});
    CommandResult result = RunCommand(args, options);
    absl::StrReplaceAll({{fmt::format("nerfctl --server {} ", server_.address()), "nerfctl "}},
                        &result.err);
    return result;
  }
  // Scripts a watch of a job that succeeds.
  void ScriptSuccess() {
    W done = Message(W::STATE_CHANGED, 3, J::SUCCEEDED, 100);
    done.mutable_job()->mutable_training_status()->set_final_psnr(33.125);
    state_.watch_scripts.push_back(
        {{Message(W::SNAPSHOT, 1, J::QUEUED), Message(W::STATE_CHANGED, 2, J::RUNNING, 10), done},
         absl::OkStatus()});
  }

  // Adds the model mic with these bytes.
  void AddModel(const std::string& content) {
    state_.blobs[Sha256Hex(content)] = content;
    v1::Model& model = state_.models.emplace_back();
    model.set_name("projects/default/models/mic");
    *model.mutable_blob() = BlobOfBytes(content);
  }

  // The words of the command that is suggested next, without the program.
  static std::vector<std::string> Suggested(const CommandResult& result) {
    const std::string start = "next: nerfctl ";
    const size_t begin = result.err.find(start);
    if (begin == std::string::npos) return {};
    const std::string line = result.err.substr(begin + start.size());
    return absl::StrSplit(line.substr(0, std::min(line.find("   ("), line.find('\n'))), ' ');
  }

  FakeState state_;
  FakeServer server_{&state_};
};

}  // namespace nerf
