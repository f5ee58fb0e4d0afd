#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "server/access/blob_owners.h"
#include "server/access/token_registry.h"
#include "server/access/worker_keys.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/job_queue.h"
#include "server/queue/lease_table.h"
#include "server/queue/model_catalog.h"
#include "server/queue/queue_admin.h"
#include "server/queue/scene_catalog.h"
#include "server/queue/worker_table.h"
#include "server/rpc/authorizer.h"
#include "server/rpc/call_origins.h"
#include "server/rpc/executor.h"
#include "server/rpc/live_calls.h"
#include "server/rpc/request_broker.h"
#include "server/store/backup.h"
#include "server/store/blob_store.h"

namespace nerf {

// Times of the services.
struct ServiceTimes {
  absl::Duration lease_ttl = absl::Seconds(30);
  absl::Duration heartbeat_interval = absl::Seconds(5);
  absl::Duration checkpoint_interval = absl::Seconds(30);
  absl::Duration bookmark_interval = absl::Seconds(10);
  // Between two answers of a watch of a list: changes of that time share one.
  absl::Duration list_interval = absl::Milliseconds(200);
  // Limit of a render or check whose caller sets no deadline.
  absl::Duration request_timeout = absl::Minutes(10);
  // Time in which the peer of a watch, an upload or a download has to take or send something; at
  // most twice this passes.
  absl::Duration stall_limit = absl::Seconds(15);
  // Limit of every render or check.
  absl::Duration max_request_timeout = absl::Hours(1);
};

// What the services share. All of it outlives them.
struct ServiceContext {
  Clock& clock;
  JobQueue& queue;
  LeaseTable& leases;
  SceneCatalog& scenes;
  ModelCatalog& models;
  WorkerTable& workers;
  BlobStore& blobs;
  ServerMetrics& metrics;
  const Authorizer& authorizer;
  Executor& executor;
  RequestBroker& broker;
  LiveCalls& live_calls;
  const ServiceTimes times;
  TokenRegistry& tokens;
  WorkerKeys& worker_keys;
  BlobOwners& blob_owners;
  // Writes a backup of this name; may be empty.
  std::function<absl::StatusOr<BackupSummary>(const std::string& id)> backup = {};
  QueueAdmin* admin = nullptr;           // null in tests without projects and drains
  const CallOrigins* origins = nullptr;  // of the calls in progress; never null in a server
};

}  // namespace nerf
