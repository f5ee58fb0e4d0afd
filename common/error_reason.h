#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace nerf {

// Machine-readable reasons of errors: google.rpc.ErrorInfo.reason of the API, one word per cause.
namespace reason {
inline constexpr std::string_view kFieldInvalid = "FIELD_INVALID";
inline constexpr std::string_view kResourceNotFound = "RESOURCE_NOT_FOUND";
inline constexpr std::string_view kTokenMissing = "TOKEN_MISSING";
inline constexpr std::string_view kTokenInvalid = "TOKEN_INVALID";
inline constexpr std::string_view kAlreadyExists = "ALREADY_EXISTS";
inline constexpr std::string_view kRequestIdReused = "REQUEST_ID_REUSED";
inline constexpr std::string_view kStateConflict = "STATE_CONFLICT";
inline constexpr std::string_view kBlobsMissing = "BLOBS_MISSING";
inline constexpr std::string_view kKindCannot = "KIND_CANNOT";
inline constexpr std::string_view kInitMismatch = "INIT_MISMATCH";
inline constexpr std::string_view kQueueFull = "QUEUE_FULL";
inline constexpr std::string_view kSizeLimit = "SIZE_LIMIT";
inline constexpr std::string_view kNoWorker = "NO_WORKER";
inline constexpr std::string_view kWorkerLost = "WORKER_LOST";
inline constexpr std::string_view kWorkerExhausted = "WORKER_EXHAUSTED";
inline constexpr std::string_view kWorkerReplaced = "WORKER_REPLACED";
inline constexpr std::string_view kDraining = "DRAINING";
inline constexpr std::string_view kNotReady = "NOT_READY";
inline constexpr std::string_view kStoreReadOnly = "STORE_READ_ONLY";
inline constexpr std::string_view kCheckpointCorrupt = "CHECKPOINT_CORRUPT";
inline constexpr std::string_view kStoreCorrupt = "STORE_CORRUPT";
inline constexpr std::string_view kEpochMismatch = "EPOCH_MISMATCH";
inline constexpr std::string_view kEtagMismatch = "ETAG_MISMATCH";
inline constexpr std::string_view kLeaseFenced = "LEASE_FENCED";
inline constexpr std::string_view kEngineCrashed = "ENGINE_CRASHED";
inline constexpr std::string_view kTrainingDiverged = "TRAINING_DIVERGED";
inline constexpr std::string_view kGridEmpty = "GRID_EMPTY";
inline constexpr std::string_view kPosesMissing = "POSES_MISSING";
inline constexpr std::string_view kDatasetInvalid = "DATASET_INVALID";
inline constexpr std::string_view kInitInvalid = "INIT_INVALID";
inline constexpr std::string_view kBusy = "BUSY";
inline constexpr std::string_view kOutOfMemory = "OUT_OF_MEMORY";
inline constexpr std::string_view kGpuOutOfMemory = "GPU_OUT_OF_MEMORY";
inline constexpr std::string_view kGpuFailed = "GPU_FAILED";
inline constexpr std::string_view kFeatureNotBuilt = "FEATURE_NOT_BUILT";
inline constexpr std::string_view kStartDeadlineExceeded = "START_DEADLINE_EXCEEDED";
inline constexpr std::string_view kEndDeadlineExceeded = "END_DEADLINE_EXCEEDED";
inline constexpr std::string_view kBlobDamaged = "BLOB_DAMAGED";
inline constexpr std::string_view kOffsetOutOfRange = "OFFSET_OUT_OF_RANGE";
}  // namespace reason

using ErrorMetadata = std::map<std::string, std::string>;

struct ErrorReason {
  std::string reason;      // one of nerf::reason
  ErrorMetadata metadata;  // facts a program can use, e.g. current_epoch
};

// One thing that is wrong with a request, with the flags of a command or with a data set.
struct Problem {
  Problem(std::string field, std::string message)
      : field(std::move(field)), message(std::move(message)) {}
  Problem(std::string file, std::string field, std::string message)
      : file(std::move(file)), field(std::move(field)), message(std::move(message)) {}

  std::string file;     // of a data set, relative to its folder; empty: the folder, or no data set
  std::string field;    // "files[3].path", "--steps", "line 12"; empty: none of them
  std::string message;  // what is wrong, or what it must be

  bool operator==(const Problem&) const = default;
};

// Attaches reason and metadata to an error as a payload; an OK status stays as it is. A second call
// replaces what the first one attached.
absl::Status WithReason(absl::Status status, std::string_view reason, ErrorMetadata metadata = {});

// What WithReason attached; nullopt when nothing (readable) is attached.
std::optional<ErrorReason> GetReason(const absl::Status& status);

// InvalidArgument FIELD_INVALID that lists every problem by field, in its message and as a payload.
// Requires: at least one, none of a file.
absl::Status InvalidFieldsError(const std::vector<Problem>& problems);

// The problems of InvalidFieldsError; empty for every other status.
std::vector<Problem> GetProblems(const absl::Status& status);

// FailedPrecondition BLOBS_MISSING that lists blobs by name ("blobs/{sha256}/{size}"), in its
// message and as a payload. Requires: at least one.
absl::Status BlobsMissingError(const std::vector<std::string>& blob_names);

// The blobs of BlobsMissingError; empty for every other status.
std::vector<std::string> GetMissingBlobs(const absl::Status& status);

}  // namespace nerf
