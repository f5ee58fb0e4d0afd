#include "server/rpc/convert/convert_project.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/ids.h"
#include "common/status_macros.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/resources/request_check.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {
namespace {

constexpr double kMaxCount = 9007199254740992.0;  // 2^53: above it doubles skip whole numbers
constexpr int kMaxPaths = 32;                     // of an update mask; there are 11 different ones
constexpr int64_t kMaxAgeSeconds = int64_t{100} * 365 * 24 * 3600;

using Change = std::function<void(ProjectRecord&)>;

// A number from 0 to 2^53.
double Amount(const std::string& field, double value, RequestCheck& check) {
  const bool valid = std::isfinite(value) && value >= 0 && value <= kMaxCount;
  check.Require(valid, field, "must be a number from 0 to 2^53");
  return valid ? value : 0;
}

uint64_t Count(const std::string& field, double value, RequestCheck& check) {
  const double amount = Amount(field, value, check);
  check.Require(std::floor(amount) == amount, field, "must be a whole number");
  return static_cast<uint64_t>(amount);
}

absl::Duration Age(const std::string& field, bool is_set, const google::protobuf::Duration& age,
                   RequestCheck& check) {
  if (!is_set) return absl::InfiniteDuration();
  const bool valid = age.seconds() >= 0 && age.seconds() <= kMaxAgeSeconds && age.nanos() >= 0 &&
                     age.nanos() < 1'000'000'000;
  check.Require(valid, field, "must be a duration from 0 to 100 years");
  return valid ? absl::Seconds(age.seconds()) + absl::Nanoseconds(age.nanos())
               : absl::InfiniteDuration();
}

// Each field of a project that can be changed, with the change to the value in `project`.
std::vector<std::pair<std::string_view, std::function<Change(const std::string&, RequestCheck&)>>>
ChangesTo(const v1::Project& project) {
  const v1::Project::Quota& quota = project.quota();
  const v1::Project::Retention& retention = project.retention();
  const auto count = [](double value, uint64_t ProjectQuota::*member) {
    return [=](const std::string& field, RequestCheck& check) -> Change {
      return [member, n = Count(field, value, check)](ProjectRecord& record) {
        record.quota.*member = n;
      };
    };
  };
  const auto age = [](bool is_set, const google::protobuf::Duration& value,
                      absl::Duration ProjectRetention::*member) {
    return [=](const std::string& field, RequestCheck& check) -> Change {
      return [member, duration = Age(field, is_set, value, check)](ProjectRecord& record) {
        record.retention.*member = duration;
      };
    };
  };
  return {
      {"quota.max_queued_jobs", count(quota.max_queued_jobs(), &ProjectQuota::max_queued_jobs)},
      {"quota.max_running_jobs", count(quota.max_running_jobs(), &ProjectQuota::max_running_jobs)},
      {"quota.max_stored_bytes", count(quota.max_stored_bytes(), &ProjectQuota::max_stored_bytes)},
      {"quota.max_device_seconds_per_day",
       [seconds = quota.max_device_seconds_per_day()](const std::string& field,
                                                      RequestCheck& check) -> Change {
         return [amount = Amount(field, seconds, check)](ProjectRecord& record) {
           record.quota.max_device_seconds_per_day = amount;
         };
       }},
      {"quota.max_renders", count(quota.max_renders(), &ProjectQuota::max_renders)},
      {"retention.ended_job_age", age(retention.has_ended_job_age(), retention.ended_job_age(),
                                      &ProjectRetention::ended_job_age)},
      {"retention.max_ended_jobs",
       [max = retention.max_ended_jobs()](const std::string& field, RequestCheck& check) -> Change {
         return [n = Count(field, max, check)](ProjectRecord& record) {
           record.retention.max_ended_jobs = n;
         };
       }},
      {"retention.unused_scene_age",
       age(retention.has_unused_scene_age(), retention.unused_scene_age(),
           &ProjectRetention::unused_scene_age)},
      {"retention.model_age",
       age(retention.has_model_age(), retention.model_age(), &ProjectRetention::model_age)},
  };
}

}  // namespace

v1::Project ToProto(const ProjectView& project) {
  v1::Project proto = ToProto(project.record);
  v1::Project::Usage* usage = proto.mutable_usage();
  usage->set_queued_jobs(static_cast<double>(project.usage.queued_jobs));
  usage->set_running_jobs(static_cast<double>(project.usage.running_jobs));
  usage->set_stored_bytes(static_cast<double>(project.usage.stored_bytes));
  usage->set_device_seconds(project.usage.device_seconds);
  usage->set_renders(static_cast<double>(project.usage.renders));
  return proto;
}

absl::StatusOr<ProjectUpdate> FromProto(const v1::UpdateProjectRequest& request) {
  RequestCheck check;
  ProjectUpdate update;
  check.Require(!request.project().name().empty(), "project.name", "must be projects/{project}");
  update.project = TakeOr(ParseProjectName("project.name", request.project().name()), check);
  const auto& paths = request.update_mask().paths();
  check.Require(!paths.empty() && paths.size() <= kMaxPaths, "update_mask",
                "must name 1 to 32 fields");
  std::vector<Change> changes;
  for (int i = 0; i < std::min(paths.size(), kMaxPaths); ++i) {
    const std::string& path = paths[i];
    bool known = false;
    for (const auto& [field, make] : ChangesTo(request.project())) {
      // `quota` stands for all of its fields.
      if (field != path && !field.starts_with(path + ".")) continue;
      known = true;
      changes.push_back(make("project." + std::string(field), check));
    }
    check.Require(known, "update_mask", "must be of quota, retention and their fields");
  }
  NERF_RETURN_IF_ERROR(check.Result());
  update.change = [changes = std::move(changes)](ProjectRecord& record) {
    for (const Change& change : changes) change(record);
  };
  return update;
}

absl::StatusOr<std::string> ParseWorkerName(std::string_view field, std::string_view name) {
  constexpr std::string_view kPrefix = "workers/";
  if (!name.starts_with(kPrefix) || !IsResourceId(name.substr(kPrefix.size()))) {
    return InvalidFieldsError({{std::string(field), "must have the form workers/{worker}"}});
  }
  return std::string(name.substr(kPrefix.size()));
}

}  // namespace nerf
