#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/jobs/model_record.h"
#include "server/queue/resources/page.h"
#include "server/queue/state/queue_state.h"

namespace nerf {

struct ModelSpec {
  std::string project;
  std::string id;          // empty: drawn ("m-7f3k2c81")
  std::string request_id;  // empty, or a UUID4
  std::string display_name;
  CheckpointKey checkpoint;  // what to promote, of the same project; without a step the newest
};

// The models: checkpoints that were promoted. Thread-safe; shares the queue's lock. `state`
// outlives it. Common errors: NotFound RESOURCE_NOT_FOUND, Unavailable STORE_READ_ONLY.
class ModelCatalog {
 public:
  explicit ModelCatalog(QueueState* state) : state_(*state) {}

  // Makes a model of a checkpoint, which is kept from then on. The same request_id with the same
  // spec returns the earlier model. Errors: InvalidArgument FIELD_INVALID; AlreadyExists
  // ALREADY_EXISTS or REQUEST_ID_REUSED.
  absl::StatusOr<ModelRecord> Promote(const ModelSpec& spec);
  absl::StatusOr<ModelRecord> Get(const ResourceKey& key);
  absl::StatusOr<ModelRecord> SetCrop(const ResourceKey& key, const v1::CropBox& crop);
  // Newest first.
  absl::StatusOr<Page<ModelRecord>> List(const PageRequest& request);
  // Releases its blob; its checkpoint may be retired again unless it has another model.
  // FailedPrecondition STATE_CONFLICT while a job that is not final starts from it.
  absl::Status Delete(const ResourceKey& key);

 private:
  // STATE_CONFLICT while a job that is not final starts from it.
  absl::Status CheckUnused(const ResourceKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mu);

  QueueState& state_;
};

}  // namespace nerf
