#pragma once

#include <memory>

#include "absl/status/status.h"
#include "common/clock.h"
#include "common/ids.h"
#include "server/access/access_control.h"
#include "server/access/blob_owners.h"
#include "server/access/jwt_keys.h"
#include "server/access/token_registry.h"
#include "server/access/worker_keys.h"
#include "server/main/clockwork.h"
#include "server/main/data_dir.h"
#include "server/main/server_flags.h"
#include "server/main/store_setup.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/queue_state.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "server/queue/upkeep/queue_admin.h"
#include "server/queue/upkeep/resource_retention.h"
#include "server/queue/upkeep/stall_clock.h"
#include "server/replica/leader_lease.h"
#include "server/replica/relay.h"
#include "server/rpc/connections/health_server.h"
#include "server/rpc/services/queue_metrics.h"
#include "server/rpc/services/rpc_server.h"
#include "server/store/blob_scrubber.h"
#include "server/store/blob_store.h"
#include "server/store/s3/moving_blob_store.h"
#include "server/web/text_server.h"
#include "server/web/web_server.h"

namespace nerf {

// The parts of a running server, in order of construction.
struct Server {
  RealClock machine_clock;
  StallClock clock{&machine_clock};
  SystemRandom random;
  std::unique_ptr<ServerMetrics> metrics;
  std::unique_ptr<QueueMetrics> queue_metrics;
  std::unique_ptr<HealthServer> health;  // none without --health-listen
  std::unique_ptr<TextServer> metrics_page;
  std::unique_ptr<Relay> relay, web_relay;  // of a replica that follows
  ServerStores stores;
  std::unique_ptr<LeaderLease> lease;  // of a replica that leads
  std::unique_ptr<BlobStore> blobs;
  MovingBlobStore* moving = nullptr;  // `blobs` where a folder's go into a bucket
  std::unique_ptr<WorkerTable> workers;
  std::unique_ptr<QueueState> state;
  std::unique_ptr<JobQueue> queue;
  std::unique_ptr<LeaseTable> leases;
  std::unique_ptr<SceneCatalog> scenes;
  std::unique_ptr<ModelCatalog> models;
  std::unique_ptr<QueueAdmin> admin;
  std::unique_ptr<JobUpkeep> upkeep;
  std::unique_ptr<ResourceRetention> retention;
  std::unique_ptr<BlobScrubber> scrubber;
  std::unique_ptr<TokenRegistry> tokens;
  std::unique_ptr<JwtKeys> jwt_keys;  // none without --jwks
  std::unique_ptr<WorkerKeys> worker_keys;
  BlobOwners blob_owners;
  std::unique_ptr<AccessControl> access;
  std::unique_ptr<RpcServer> rpc;
  std::unique_ptr<WebServer> web;  // none with an empty --web-listen
  std::unique_ptr<Clockwork> clockwork;
};

// The S3 server and bucket of --blobs, with the keys of the environment. InvalidArgument.
absl::StatusOr<S3Options> S3OptionsOf(const ServerFlags& flags);

// Connections to gRPC may use descriptors below this number: the rest is for files, and for the
// web and metrics servers.
int MaxConnectionDescriptor(int max_connections);

// Starts what every nerfd has from its start on, also a replica that follows: the page of metrics,
// and health as not ready. Errors: those of the listeners.
absl::Status ServePages(const ServerFlags& flags, Server* server);

// Opens blobs and queue of the stores that are open, then the tokens, and starts to serve. Relays
// end right before. Errors: those of the parts; DataLoss with what to do.
absl::Status ServeStores(const ServerFlags& flags, DataDir& data, Server* server);

// The socket in the data folder. Whoever reaches it can read the folder, so it is plaintext.
std::string LocalSocket(const DataDir& data);

}  // namespace nerf
