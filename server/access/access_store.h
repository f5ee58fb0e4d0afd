#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/principal.h"

namespace nerf {

// A token that an admin has made, or a share: the token of a link to one resource. The token itself
// is not kept.
struct TokenRecord {
  std::string id = {};            // "t-7f3k2c81"; of a share "sh-7f3k2c81"
  std::string digest = {};        // SHA-256 of the token in hexadecimal
  std::string display_name = {};  // for people
  Role role = Role::kViewer;
  std::string project = {};  // empty: every project
  absl::Time create_time = {};
  absl::Time expire_time = absl::InfiniteFuture();
  std::string resource = {};  // of a share: "projects/p/models/m", all that it is good for
  std::string start = {};     // of a share: how its view starts, as whoever made it encodes it
};

struct WorkerKeyRecord {
  std::string worker;
  std::string digest;  // SHA-256 of its key in hexadecimal
};

struct StoredAccess {
  std::vector<TokenRecord> tokens;  // by create_time
  std::vector<WorkerKeyRecord> worker_keys;
};

// Keeps tokens and keys. OK means that a change survives a power cut. Thread-safe.
class AccessStore {
 public:
  virtual ~AccessStore() = default;
  virtual absl::StatusOr<StoredAccess> Load() = 0;
  virtual absl::Status AddToken(const TokenRecord& token) = 0;
  virtual absl::Status DeleteToken(const std::string& id) = 0;
  // Replaces the key of that worker.
  virtual absl::Status PutWorkerKey(const WorkerKeyRecord& key) = 0;
  // Succeeds for a worker without a key.
  virtual absl::Status DeleteWorkerKey(const std::string& worker) = 0;
};

}  // namespace nerf
