#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/calls/preview.h"
#include "client/flags/new_resource_flags.h"
#include "client/show/printer.h"
#include "common/ids.h"
#include "common/problems.h"
#include "nerf/v1/job_service.pb.h"

namespace CLI {
class App;
}

namespace nerf {

// The flags that `train` and `job create` share, as typed.
struct JobFlags : NewResourceFlags {
  std::string method, steps, samples, seconds, seed, background, test_every, init;
  std::vector<std::string> settings, labels;
  std::string priority, max_side, workers, start_by, end_by;
  std::string poses;
  bool apply_exif = false;
  bool no_eval = false;
  bool validate_only = false;
  bool detach = false;
  bool help_settings = false;
  PreviewFlags preview;
};

void AddJobFlags(CLI::App& app, JobFlags* flags);

// --steps, --samples and --seconds, which exclude each other; also of AddJobFlags.
void AddBudgetFlags(CLI::App& app, JobFlags* flags);
// Sets the budget that they name, if they name one.
void TakeBudget(const JobFlags& flags, v1::TrainingConfig* config, Problems* problems);

// --poses and --apply-exif, of every command that reads a data set's folder.
void AddReadingFlags(CLI::App& app, std::string* poses, bool* apply_exif);

// The request that the flags ask for, without its scene. Without --request-id a random one is
// drawn, so that a request that is sent twice creates one job. Errors: InvalidArgument that lists
// every wrong flag. The rules are those of engine/base/config, as on the server; only the server
// can check names, tensors of --init and the length of the queue.
absl::StatusOr<v1::CreateJobRequest> BuildJobRequest(const JobFlags& flags,
                                                     const std::string& project,
                                                     RandomSource& random);

// Sets the job's deadlines from --start-by and --end-by. Errors: InvalidArgument.
absl::Status SetDeadlines(const JobFlags& flags, absl::Time now, v1::Job* job);

// Checks the flags that need a watch. Errors: InvalidArgument.
absl::Status CheckWatchFlags(const Session& session, const JobFlags& flags, bool watch);

// Every setting of the method with default, range and meaning (--help-settings). Errors:
// InvalidArgument that lists the methods.
absl::Status PrintSettings(const JobFlags& flags, const Printer& printer);

// --test-every as a number; nullopt without the flag. Errors: as BuildJobRequest.
absl::StatusOr<std::optional<int>> ParseTestEvery(const std::string& text);

}  // namespace nerf
