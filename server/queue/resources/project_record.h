#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace nerf {

// Upper limits of a project; 0 is no limit. As nerf.v1.Project.Quota.
struct ProjectQuota {
  uint64_t max_queued_jobs = 0;
  uint64_t max_running_jobs = 0;
  uint64_t max_stored_bytes = 0;
  double max_device_seconds_per_day = 0;
  uint64_t max_renders = 0;

  bool operator==(const ProjectQuota&) const = default;
};

// How long resources of a project are kept. As nerf.v1.Project.Retention.
struct ProjectRetention {
  static constexpr uint64_t kDefaultMaxEndedJobs = 10'000;

  absl::Duration ended_job_age = absl::InfiniteDuration();
  uint64_t max_ended_jobs = 0;  // 0: kDefaultMaxEndedJobs
  absl::Duration unused_scene_age = absl::InfiniteDuration();
  absl::Duration model_age = absl::InfiniteDuration();

  bool operator==(const ProjectRetention&) const = default;
};

// What is stored about a project.
struct ProjectRecord {
  std::string project;
  ProjectQuota quota;
  ProjectRetention retention;
  // Seconds in which workers held its jobs, on that day (since 1970, UTC).
  int64_t day = 0;
  double device_seconds = 0;

  bool operator==(const ProjectRecord&) const = default;
};

}  // namespace nerf
