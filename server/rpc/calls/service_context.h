#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "server/access/blob_owners.h"
#include "server/access/token_registry.h"
#include "server/access/worker_keys.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/upkeep/queue_admin.h"
#include "server/rpc/calls/authorizer.h"
#include "server/rpc/calls/executor.h"
#include "server/rpc/calls/live_calls.h"
#include "server/rpc/calls/request_broker.h"
#include "server/rpc/connections/call_origins.h"
#include "server/store/backup.h"
#include "server/store/blob_store.h"

namespace grpc {
class CallbackServerContext;
class ServerUnaryReactor;
}  // namespace grpc

namespace nerf {

// gRPC's, of a call that answers with one message.
using CallContext = grpc::CallbackServerContext;
using UnaryReactor = grpc::ServerUnaryReactor;

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
