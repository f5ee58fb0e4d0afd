#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/printer.h"
#include "common/ids.h"
#include "nerf/v1/training_service.pb.h"

namespace CLI {
class App;
}

namespace nerf {

// The flags that `train` and `job create` share, as typed.
struct JobFlags {
  std::string method, steps, samples, seconds, seed, background, test_every, init;
  std::vector<std::string> settings;
  std::string display_name, id, request_id;
  bool validate_only = false;
  bool detach = false;
  bool help_settings = false;
};

void AddJobFlags(CLI::App& app, JobFlags* flags);

// The request that the flags ask for, without its scene. A request id is drawn from `random` where
// none was given, so that a create that is sent twice makes one job. Errors: InvalidArgument that
// lists every wrong flag, by what engine/config allows: what passes here, the server accepts, but
// for what it alone can tell (names that are taken or missing, tensors of --init, a full queue).
absl::StatusOr<v1::CreateTrainingJobRequest> BuildJobRequest(const JobFlags& flags,
                                                             const std::string& project,
                                                             RandomSource& random);

// Every setting with default, range and meaning (--help-settings).
void PrintSettings(const Printer& printer);

// --test-every as a number; nullopt when not given. Errors: as BuildJobRequest.
absl::StatusOr<std::optional<int>> ParseTestEvery(const std::string& text);

// The id itself when it is a UUID4, a new one when it is empty. Errors: InvalidArgument.
absl::StatusOr<std::string> RequestIdOrNew(const std::string& text, RandomSource& random);

}  // namespace nerf
