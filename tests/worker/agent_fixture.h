#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "tests/testing/fake_random.h"
#include "tests/testing/temp_dir.h"
#include "tests/worker/fake_server.h"
#include "worker/agent.h"

namespace nerf {

inline constexpr char kJob[] = "projects/default/jobs/j-1";

// The order to train kJob at an epoch: one scene file, `steps` steps.
inline v1::SynchronizeResponse Grant(FakeServer& server, uint64_t epoch, uint32_t steps = 30) {
  v1::SynchronizeResponse message;
  v1::DesiredJob* desired = message.mutable_desired_job();
  desired->set_action(v1::DesiredJob::TRAIN);
  desired->set_job(kJob);
  desired->set_lease_epoch(epoch);
  desired->mutable_lease_ttl()->set_seconds(30);
  desired->mutable_config()->set_method("ngp");
  desired->mutable_config()->set_steps(steps);
  v1::SceneManifestEntry* file = desired->add_files();
  file->set_path("train/transforms.json");
  *file->mutable_blob() = server.AddBlob("{\"frames\": []}");
  return message;
}

inline v1::SynchronizeResponse Order(v1::DesiredJob::Action action, uint64_t epoch) {
  v1::SynchronizeResponse message;
  message.mutable_desired_job()->set_action(action);
  message.mutable_desired_job()->set_job(kJob);
  message.mutable_desired_job()->set_lease_epoch(epoch);
  return message;
}

inline v1::SynchronizeResponse Acknowledge() {
  v1::SynchronizeResponse message;
  message.set_finished_acknowledged(kJob);
  return message;
}

inline AgentOptions TestOptions(const std::string& cache_dir) {
  AgentOptions options;
  options.worker_id = "w-test";
  options.session_id = "session";
  options.device = "cpu";
  options.version = "test";
  options.host = "here";
  options.cache_dir = cache_dir;
  return options;
}

}  // namespace nerf
