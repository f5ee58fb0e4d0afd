#include "server/main/server_parts.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/files/atomic_file.h"
#include "common/files/file_io.h"
#include "common/logging.h"
#include "common/process/local_server.h"
#include "common/rpc/channel.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "server/main/free_port.h"
#include "server/metrics/metrics_text.h"
#include "server/metrics/process_collector.h"
#include "server/queue/resources/resource_key.h"
#include "server/rpc/services/owned_blobs.h"
#include "server/store/backup.h"

namespace nerf {
namespace {

constexpr absl::Duration kMaxHeartbeatInterval = absl::Seconds(5);

// Says in a data folder that its blobs went into a bucket, and into which.
constexpr char kBlobsMoved[] = "blobs.moved";
constexpr uint64_t kMaxMarkerBytes = 4096;

absl::Status OpenBlobs(const ServerFlags& flags, const DataDir& data,
                       const BlobStoreOptions& options, Server* server) {
  const std::string moved = data.File(kBlobsMoved);
  if (flags.blobs.empty()) {
    std::error_code error;
    if (std::filesystem::exists(moved, error)) {
      return absl::FailedPreconditionError(fmt::format(
          "the blobs of {} went into a bucket, which {} names: start nerfd with --blobs",
          data.path(), kBlobsMoved));
    }
    NERF_ASSIGN_OR_RETURN(server->blobs,
                          BlobStore::Open(data.path(), options, &server->machine_clock));
    return absl::OkStatus();
  }
  NERF_ASSIGN_OR_RETURN(const S3Options s3, S3OptionsOf(flags));
  if (const auto noted = ReadFile(moved, kMaxMarkerBytes);
      noted.ok() && absl::StripTrailingAsciiWhitespace(*noted) != flags.blobs) {
    return absl::FailedPreconditionError(fmt::format(
        "the blobs of {} went to {}: name that bucket, or delete {} once yours has them all",
        data.path(), std::string(absl::StripTrailingAsciiWhitespace(*noted)), kBlobsMoved));
  }
  NERF_ASSIGN_OR_RETURN(const bool has_files, HasBlobFiles(data.path()));
  if (!has_files) {
    NERF_ASSIGN_OR_RETURN(
        server->blobs,
        S3BlobStore::Open(data.path(), s3, options, &server->machine_clock, &server->random));
    return absl::OkStatus();
  }
  NERF_ASSIGN_OR_RETURN(
      auto moving,
      MovingBlobStore::Open(data.path(), s3, options, &server->machine_clock, &server->random));
  NERF_RETURN_IF_ERROR(WriteFileAtomically(moved, flags.blobs + "\n", 0644));
  server->moving = moving.get();
  server->blobs = std::move(moving);
  return absl::OkStatus();
}

absl::Status OpenQueue(const ServerFlags& flags, const DataDir& data, Server* server) {
  BlobStoreOptions blob_options;
  blob_options.on_deleted = [server](const std::string& sha256) {
    server->blob_owners.Forget(sha256);
  };
  blob_options.on_damaged = [server](const std::string&) { server->metrics->BlobDamaged(); };
  if (server->lease != nullptr) {
    blob_options.may_delete = [server] { return server->lease->valid(); };
  }
  if (!flags.restore.empty()) {
    NERF_RETURN_IF_ERROR(RestoreBackup(flags.restore, data.path()));
    LogInfo("restored a backup", {{"from", flags.restore}, {"data_dir", data.path()}});
  }
  // Files: a missing queue.db is told from a new folder by the blobs beside it.
  NERF_RETURN_IF_ERROR(OpenBlobs(flags, data, blob_options, server));
  if (server->stores.jobs == nullptr) {
    const bool has_blobs = server->blobs->Stats().n_blobs > 0;
    NERF_ASSIGN_OR_RETURN(server->stores, OpenServerStores(flags, data, has_blobs, server->random));
  }
  server->queue_metrics = std::make_unique<QueueMetrics>(server->metrics.get());
  QueueOptions options;
  options.lease_ttl = flags.lease_ttl;
  options.projects.clear();  // every name that a token may use
  auto state = QueueState::Open(options, {.clock = &server->clock,
                                          .random = &server->random,
                                          .store = server->stores.jobs.get(),
                                          .blobs = server->blobs.get(),
                                          .observer = server->queue_metrics.get(),
                                          .machine_clock = &server->machine_clock,
                                          .groups_commits = true});
  NERF_RETURN_IF_ERROR(WithDataLossHint(state.status(), flags));
  server->state = *std::move(state);
  server->workers = std::make_unique<WorkerTable>(&server->clock, flags.lease_ttl);
  server->queue = std::make_unique<JobQueue>(server->state.get());
  server->leases = std::make_unique<LeaseTable>(server->state.get(), server->workers.get());
  server->scenes = std::make_unique<SceneCatalog>(server->state.get());
  server->models = std::make_unique<ModelCatalog>(server->state.get());
  server->admin = std::make_unique<QueueAdmin>(server->state.get(), server->workers.get());
  server->upkeep = std::make_unique<JobUpkeep>(server->state.get(), server->workers.get());
  return absl::OkStatus();
}

// The tokens of the data folder's files, and those that were made.
absl::Status OpenAccess(const ServerFlags& flags, DataDir& data, Server* server) {
  NERF_ASSIGN_OR_RETURN(const std::string admin, flags.admin_token_file.empty()
                                                     ? data.Token("admin.token", server->random)
                                                     : ReadTokenFile(flags.admin_token_file));
  NERF_ASSIGN_OR_RETURN(const std::string worker, flags.worker_token_file.empty()
                                                      ? data.Token("worker.token", server->random)
                                                      : ReadTokenFile(flags.worker_token_file));
  AccessStore* const store = server->stores.access.get();
  NERF_ASSIGN_OR_RETURN(StoredAccess stored, store->Load());
  server->worker_keys =
      std::make_unique<WorkerKeys>(store, stored.worker_keys, &server->machine_clock);
  server->tokens = std::make_unique<TokenRegistry>(
      store, std::move(stored.tokens), &server->machine_clock, &server->random, &BlobsOfShare);
  server->tokens->AddFixed(admin, {"admin.token", {{Role::kAdmin}}});
  server->tokens->AddFixed(worker, {"worker.token", {{Role::kWorker}}});
  std::vector<const PrincipalSource*> sources = {server->tokens.get()};
  if (!flags.jwks.empty()) {
    NERF_ASSIGN_OR_RETURN(
        server->jwt_keys,
        JwtKeys::Open({flags.jwks, flags.jwt_issuer, flags.jwt_audience}, &server->machine_clock));
    sources.push_back(server->jwt_keys.get());
  }
  std::function<bool()> may_answer;
  if (server->lease != nullptr)
    may_answer = [lease = server->lease.get()] { return lease->valid(); };
  server->access = std::make_unique<AccessControl>(std::move(sources), std::move(may_answer));
  return absl::OkStatus();
}

// Shares of models that are gone, as a crash may have left them: a later model may take the id.
void DropLostShares(ModelCatalog& models, TokenRegistry& tokens) {
  for (const TokenRecord& share : tokens.ListShares(std::nullopt)) {
    const auto key = ParseModelName("", share.resource);
    if (key.ok() && !absl::IsNotFound(models.Get(*key).status())) continue;
    tokens.Delete(share.id, share.resource).IgnoreError();
  }
}

// The address in numbers, for listeners that do not resolve names.
ListenAddress Numeric(ListenAddress address) {
  if (address.host == "localhost") address.host = "127.0.0.1";
  return address;
}

// How a person on this machine opens the page; empty if the page is served beyond loopback, be it
// by a proxy.
std::string OpenCommand(const ServerFlags& flags, const Server& server) {
  if (!IsLoopbackAddress(flags.web_listen) || !flags.web_origins.empty()) return "";
  ListenAddress grpc = *ParseListenAddress("--listen", flags.listen);
  if (!grpc.is_unix) grpc.port = server.rpc->port();
  const std::string address = ConnectAddress(grpc);
  if (address == ServerFlags().listen) return "nerfctl open";
  return fmt::format("nerfctl --server {} open", ShellWord(address));
}

absl::Status ServeWeb(const ServerFlags& flags, Server* server) {
  if (flags.web_listen.empty()) return absl::OkStatus();
  ListenAddress address = Numeric(*ParseListenAddress("--web-listen", flags.web_listen));
  if (flags.web_port_may_move) address = FirstFree(address);
  WebServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.tls = flags.tls;
  options.open_command = OpenCommand(flags, *server);
  options.check_token = [server](std::string_view authorization) {
    return server->rpc->CheckToken(authorization);
  };
  for (const std::string& origin : flags.web_origins) {
    options.allowed_origins.push_back(*ParseOrigin(origin));
  }
  NERF_ASSIGN_OR_RETURN(server->web,
                        WebServer::Start(options, server->rpc->InProcessChannel(), &server->clock));
  return absl::OkStatus();
}

absl::Status ServeMetrics(const ServerFlags& flags, Server* server) {
  ListenAddress address = Numeric(*ParseListenAddress("--metrics-listen", flags.metrics_listen));
  if (flags.metrics_port_may_move) address = FirstFree(address);
  const std::vector<std::shared_ptr<prometheus::Collectable>> sources = {
      server->metrics->collectable(), MakeProcessCollector()};
  auto page = TextServer::Start(
      {.host = address.host,
       .port = address.port,
       .path = "/metrics",
       .content_type = kMetricsContentType},
      [sources] { return MetricsText(sources); }, &server->clock);
  if (!page.ok()) {
    return absl::FailedPreconditionError(fmt::format("cannot serve metrics on {}: {}",
                                                     address.ToString(),
                                                     std::string(page.status().message())));
  }
  server->metrics_page = *std::move(page);
  return absl::OkStatus();
}

absl::Status Serve(const ServerFlags& flags, const DataDir& data, Server* server) {
  server->relay.reset();
  server->web_relay.reset();
  RpcServerOptions options;
  options.listen = flags.listen;
  options.max_descriptor = MaxConnectionDescriptor(flags.max_connections);
  if (UsesTls(flags.tls)) {
    NERF_ASSIGN_OR_RETURN(options.credentials, ServerTls(flags.tls));
    // A certificate names a host of the network. Programs of this machine come by the socket.
    options.local_listen = LocalSocket(data);
  }
  options.times.lease_ttl = flags.lease_ttl;
  // Five heartbeats may be lost before a lease expires.
  options.times.heartbeat_interval = std::min(kMaxHeartbeatInterval, flags.lease_ttl / 6);
  options.times.checkpoint_interval = flags.checkpoint_interval;
  auto backup = [server](const std::string& id) {
    return server->stores.backup(*server->blobs, id);
  };
  NERF_ASSIGN_OR_RETURN(server->rpc,
                        RpcServer::Start(options, {.clock = &server->clock,
                                                   .random = &server->random,
                                                   .queue = server->queue.get(),
                                                   .leases = server->leases.get(),
                                                   .scenes = server->scenes.get(),
                                                   .models = server->models.get(),
                                                   .workers = server->workers.get(),
                                                   .blobs = server->blobs.get(),
                                                   .metrics = server->metrics.get(),
                                                   .access = server->access.get(),
                                                   .tokens = server->tokens.get(),
                                                   .worker_keys = server->worker_keys.get(),
                                                   .blob_owners = &server->blob_owners,
                                                   .backup = std::move(backup),
                                                   .admin = server->admin.get()}));
  NERF_RETURN_IF_ERROR(ServeWeb(flags, server));
  server->retention = std::make_unique<ResourceRetention>(
      server->state.get(), server->queue.get(), server->scenes.get(), server->models.get(),
      [server](const ResourceKey& model) {
        server->tokens->DeleteShares(ModelName(model)).IgnoreError();
      });
  server->scrubber = std::make_unique<BlobScrubber>(server->blobs.get(), &server->machine_clock,
                                                    ScrubOptions{.interval = flags.scrub_interval});
  server->clockwork = std::make_unique<Clockwork>(Clockwork::Parts{
      &server->clock, server->stores.jobs.get(), server->state.get(), server->queue.get(),
      server->leases.get(), server->workers.get(), server->blobs.get(), server->rpc.get(),
      server->health.get(), server->metrics.get(), server->jwt_keys.get(), server->admin.get(),
      server->upkeep.get(), server->retention.get(), server->scrubber.get(), server->moving,
      flags.tls.cert});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<S3Options> S3OptionsOf(const ServerFlags& flags) {
  auto options = ParseS3Options(flags.blobs, flags.s3_endpoint, [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  });
  if (options.ok()) options->signs_urls = flags.signed_urls;
  return options;
}

int MaxConnectionDescriptor(int max_connections) {
  constexpr rlim_t kForOthers = 400;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_connections;
  const rlim_t most =
      limit.rlim_cur > 2 * kForOthers ? limit.rlim_cur - kForOthers : limit.rlim_cur / 2;
  return static_cast<int>(std::min(most, static_cast<rlim_t>(max_connections)));
}

std::string LocalSocket(const DataDir& data) { return "unix:" + data.File("nerfd.sock"); }

absl::Status ServePages(const ServerFlags& flags, Server* server) {
  server->metrics = std::make_unique<ServerMetrics>(
      BuildInfo{NERF_VERSION, NERF_REVISION, NERF_CUDA, grpc::Version()});
  if (!flags.health_listen.empty()) {
    NERF_ASSIGN_OR_RETURN(server->health, HealthServer::Start(flags.health_listen));
  }
  return ServeMetrics(flags, server);
}

absl::Status ServeStores(const ServerFlags& flags, DataDir& data, Server* server) {
  NERF_RETURN_IF_ERROR(OpenQueue(flags, data, server));
  NERF_RETURN_IF_ERROR(OpenAccess(flags, data, server));
  DropLostShares(*server->models, *server->tokens);
  TakeUpStoredBlobs(*server->state, *server->admin, *server->blobs, &server->blob_owners);
  return Serve(flags, data, server);
}

}  // namespace nerf
