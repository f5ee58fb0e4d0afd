#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/queue/jobs/job_state.h"
#include "server/queue/resources/blob_ref.h"
#include "server/queue/state/job_store.h"
#include "tests/torture/recorded_disk.h"

namespace nerf {

// A fault of the disk while a story runs.
struct PlannedFault {
  size_t at = 0;  // number of the operation
  DiskFault kind = DiskFault::kNone;
  size_t n_ops = 1;  // so many fail
};

// Breaks the discipline, to show that the checks notice it.
enum class Mutant {
  kNone,
  kSkipAllSyncs,
  kSkipFileSyncs,
  kSkipFolderSyncs,
  kSkipLogSyncs,     // of queue.db-wal
  kSkipUploadSyncs,  // of files in uploads/
  kSkipAccessSyncs,  // of access.db and its journal
  kAcknowledgeBeforeCommit,
  kDropEvent,
  kForgetCheckpoint,
  kDeleteBlobsBeforeCommit,
};
inline constexpr Mutant kMutants[] = {Mutant::kSkipAllSyncs,
                                      Mutant::kSkipFileSyncs,
                                      Mutant::kSkipFolderSyncs,
                                      Mutant::kSkipLogSyncs,
                                      Mutant::kSkipUploadSyncs,
                                      Mutant::kSkipAccessSyncs,
                                      Mutant::kAcknowledgeBeforeCommit,
                                      Mutant::kDropEvent,
                                      Mutant::kForgetCheckpoint,
                                      Mutant::kDeleteBlobsBeforeCommit};
std::string_view MutantName(Mutant mutant);

struct StoryOptions {
  uint64_t seed = 1;
  int n_jobs = 20;
  bool restarts = true;  // now and then a kill or an orderly restart
  std::optional<PlannedFault> fault = {};
  Mutant mutant = Mutant::kNone;
  bool keeps_writes = false;  // StoryRecord::writes
};

// The queue's rows after a commit. Places are numbers of operations of the disk: a cut at place k
// comes after the first k operations.
struct StateMark {
  static constexpr size_t kNever = SIZE_MAX;
  uint64_t digest = 0;
  size_t began = 0;
  size_t acknowledged = kNever;
  size_t refused = kNever;  // the store said that nothing was changed
};

// What a caller of the queue was told about a job.
struct JobClaim {
  size_t place = 0;
  std::string job;
  uint64_t epoch = 0;  // of its last lease
  uint32_t step = 0;   // of its last checkpoint
  std::optional<JobState> end = {};
  bool deleting = false;  // may be deleted from here on
  bool deleted = false;
};

struct BlobMark {
  size_t place = 0;
  BlobRef blob;
  bool is_there = false;  // else deleted
};

enum class Presence { kThere, kUnknown, kGone };

// Of a token, or of a backup.
struct NameMark {
  size_t place = 0;
  std::string name;
  Presence presence = Presence::kUnknown;
};

// What a story left: the disk's operations, and what was acknowledged when.
struct StoryRecord {
  std::vector<RecordedDisk::Node> first_nodes;
  std::vector<DiskOp> ops;
  std::vector<StateMark> states;
  std::vector<JobClaim> claims;
  std::vector<BlobMark> blobs;
  std::vector<NameMark> tokens, backups;
  std::map<std::string, std::string> contents;  // of blobs, by digest
  std::vector<StoreWrite> writes;               // that were acknowledged
  int n_jobs = 0, n_restarts = 0;
  bool fault_happened = false;
  bool has_blobs = true;  // false: of the store alone
  std::string violation;  // seen while it ran; empty: none
};

// Runs the queue over SqliteStore, blobs in a folder and access.db in `folder`, which is empty:
// creates, leases, progress, checkpoints, crashes, ends, deletions, uploads, collections, backups,
// tokens, by the seed alone.
StoryRecord RunStory(const std::string& folder, const StoryOptions& options);

// Gives the writes of a story to a new store, several at a time as a server's writer does
// (StoreWriter). Ends at the first that is refused.
StoryRecord RunWritesTogether(const std::string& folder, std::span<const StoreWrite> writes,
                              const StoryOptions& options);

}  // namespace nerf
