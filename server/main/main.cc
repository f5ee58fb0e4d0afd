// nerfd: queues and serves radiance fields. See docs/inside/design.md.
#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/clock.h"
#include "common/exit_code.h"
#include "common/flag_file.h"
#include "common/ids.h"
#include "common/last_resort.h"
#include "common/local_server.h"
#include "common/log_options.h"
#include "common/logging.h"
#include "common/places.h"
#include "common/rpc/channel.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/access/access_control.h"
#include "server/access/blob_owners.h"
#include "server/access/jwt_keys.h"
#include "server/access/token_registry.h"
#include "server/access/worker_keys.h"
#include "server/main/clockwork.h"
#include "server/main/data_dir.h"
#include "server/main/free_port.h"
#include "server/main/local_worker.h"
#include "server/main/server_flags.h"
#include "server/main/store_setup.h"
#include "server/metrics/metrics_text.h"
#include "server/metrics/process_collector.h"
#include "server/metrics/server_metrics.h"
#include "server/queue/catalogs/model_catalog.h"
#include "server/queue/catalogs/scene_catalog.h"
#include "server/queue/leases/lease_table.h"
#include "server/queue/leases/worker_table.h"
#include "server/queue/resources/resource_key.h"
#include "server/queue/state/job_queue.h"
#include "server/queue/state/queue_state.h"
#include "server/queue/upkeep/job_upkeep.h"
#include "server/queue/upkeep/queue_admin.h"
#include "server/queue/upkeep/resource_retention.h"
#include "server/queue/upkeep/stall_clock.h"
#include "server/rpc/connections/health_server.h"
#include "server/rpc/services/owned_blobs.h"
#include "server/rpc/services/queue_metrics.h"
#include "server/rpc/services/rpc_server.h"
#include "server/store/backup.h"
#include "server/store/blob_scrubber.h"
#include "server/store/blob_store.h"
#include "server/store/postgres/postgres_stores.h"
#include "server/store/s3/s3_blob_store.h"
#include "server/web/text_server.h"
#include "server/web/web_server.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

// nerf-worker commits a checkpoint and releases its lease within this time
// (docs/run/operations.md).
constexpr absl::Duration kWorkerStopGrace = absl::Seconds(25);
constexpr absl::Duration kRpcStopGrace = absl::Seconds(2);
constexpr absl::Duration kWebStopGrace = absl::Seconds(1);

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "nerfd: %s\n", std::string(status.message()).c_str());
  return ExitCodeFor(status.code());
}

int FailUsage(const absl::Status& status) {
  std::fprintf(stderr, "nerfd: %s\n  run `nerfd --help` for usage\n",
               std::string(status.message()).c_str());
  return kUsage;
}

// Blocks SIGINT and SIGTERM in every thread, so that only Wait receives them. Construct before the
// first thread starts.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals_, number);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }

  // Returns at the first signal. The second one ends the process at once.
  int Wait() {
    int number = 0;
    sigwait(&signals_, &number);
    LogInfo("shutting down", {{"signal", number}});
    std::thread([signals = signals_] {
      int second = 0;
      sigwait(&signals, &second);
      _exit(128 + second);
    }).detach();
    return number;
  }

 private:
  sigset_t signals_;
};

// The parts of a running server, in order of construction.
struct Server {
  RealClock machine_clock;
  StallClock clock{&machine_clock};
  SystemRandom random;
  std::unique_ptr<ServerMetrics> metrics;
  std::unique_ptr<QueueMetrics> queue_metrics;
  std::unique_ptr<BlobStore> blobs;
  ServerStores stores;
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
  std::unique_ptr<HealthServer> health;
  std::unique_ptr<TextServer> metrics_page;
  std::unique_ptr<WebServer> web;  // none with an empty --web-listen
  std::unique_ptr<Clockwork> clockwork;
};

// Each connection takes a descriptor, and the soft limit is 1024 on most systems.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Connections to gRPC may use descriptors below this number: the rest is for files, and for the
// web and metrics servers.
int MaxConnectionDescriptor(int max_connections) {
  constexpr rlim_t kForOthers = 400;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_connections;
  const rlim_t most =
      limit.rlim_cur > 2 * kForOthers ? limit.rlim_cur - kForOthers : limit.rlim_cur / 2;
  return static_cast<int>(std::min(most, static_cast<rlim_t>(max_connections)));
}

// glibc keeps freed memory in an arena for each thread, and returns large blocks only while it has
// not learned to keep them. Few arenas and a fixed threshold let messages go back to the system.
void LimitHeap() {
  mallopt(M_ARENA_MAX, 4);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

absl::Status WithRestoreHint(const absl::Status& status, bool accept_data_loss) {
  if (!absl::IsDataLoss(status)) return status;
  return absl::DataLossError(fmt::format(
      "{}. Nothing was restored. Restore another backup{}", std::string(status.message()),
      accept_data_loss ? "" : ", or add --accept-data-loss to take what is left"));
}

absl::StatusOr<S3Options> S3OptionsOf(const ServerFlags& flags) {
  return ParseS3Options(flags.blobs, flags.s3_endpoint, [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  });
}

absl::Status OpenBlobs(const ServerFlags& flags, const DataDir& data,
                       const BlobStoreOptions& options, Server* server) {
  if (flags.blobs.empty()) {
    NERF_ASSIGN_OR_RETURN(server->blobs,
                          BlobStore::Open(data.path(), options, &server->machine_clock));
    return absl::OkStatus();
  }
  NERF_ASSIGN_OR_RETURN(const S3Options s3, S3OptionsOf(flags));
  NERF_ASSIGN_OR_RETURN(server->blobs, S3BlobStore::Open(data.path(), s3, options,
                                                         &server->machine_clock, &server->random));
  return absl::OkStatus();
}

absl::Status OpenStores(const ServerFlags& flags, const DataDir& data, Server* server) {
  server->metrics = std::make_unique<ServerMetrics>(
      BuildInfo{NERF_VERSION, NERF_REVISION, NERF_CUDA, grpc::Version()});
  server->queue_metrics = std::make_unique<QueueMetrics>(server->metrics.get());
  const bool restores = !flags.restore.empty();
  if (restores) {
    NERF_RETURN_IF_ERROR(RestoreBackup(flags.restore, data.path()));
    LogInfo("restored a backup", {{"from", flags.restore}, {"data_dir", data.path()}});
  }
  BlobStoreOptions blob_options;
  blob_options.on_deleted = [server](const std::string& sha256) {
    server->blob_owners.Forget(sha256);
  };
  blob_options.on_damaged = [server](const std::string&) { server->metrics->BlobDamaged(); };
  NERF_RETURN_IF_ERROR(OpenBlobs(flags, data, blob_options, server));
  NERF_ASSIGN_OR_RETURN(
      server->stores,
      OpenServerStores(flags, data, restores, server->blobs->Stats().n_blobs > 0, server->random));
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
  NERF_ASSIGN_OR_RETURN(const std::string admin, data.Token("admin.token", server->random));
  NERF_ASSIGN_OR_RETURN(const std::string worker, flags.worker_token_file.empty()
                                                      ? data.Token("worker.token", server->random)
                                                      : ReadTokenFile(flags.worker_token_file));
  AccessStore* const store = server->stores.access.get();
  NERF_ASSIGN_OR_RETURN(StoredAccess stored, store->Load());
  server->worker_keys =
      std::make_unique<WorkerKeys>(store, stored.worker_keys, &server->machine_clock);
  server->tokens = std::make_unique<TokenRegistry>(store, std::move(stored.tokens),
                                                   &server->machine_clock, &server->random);
  server->tokens->AddFixed(admin, {"admin.token", {{Role::kAdmin}}});
  server->tokens->AddFixed(worker, {"worker.token", {{Role::kWorker}}});
  std::vector<const PrincipalSource*> sources = {server->tokens.get()};
  if (!flags.jwks.empty()) {
    NERF_ASSIGN_OR_RETURN(
        server->jwt_keys,
        JwtKeys::Open({flags.jwks, flags.jwt_issuer, flags.jwt_audience}, &server->machine_clock));
    sources.push_back(server->jwt_keys.get());
  }
  server->access = std::make_unique<AccessControl>(std::move(sources));
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

// Whoever reaches it can read the data folder, so it is plaintext.
std::string LocalSocket(const DataDir& data) { return "unix:" + data.File("nerfd.sock"); }

// The address in numbers, for listeners that do not resolve names.
ListenAddress Numeric(ListenAddress address) {
  if (address.host == "localhost") address.host = "127.0.0.1";
  return address;
}

absl::Status ServeWeb(const ServerFlags& flags, Server* server) {
  if (flags.web_listen.empty()) return absl::OkStatus();
  ListenAddress address = Numeric(*ParseListenAddress("--web-listen", flags.web_listen));
  if (flags.web_port_may_move) address = FirstFree(address);
  WebServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.tls = flags.tls;
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
  options.times.heartbeat_interval = std::min(absl::Seconds(5), flags.lease_ttl / 6);
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
  if (!flags.health_listen.empty()) {
    NERF_ASSIGN_OR_RETURN(server->health, HealthServer::Start(flags.health_listen));
  }
  NERF_RETURN_IF_ERROR(ServeMetrics(flags, server));
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
      server->upkeep.get(), server->retention.get(), server->scrubber.get(), flags.tls.cert});
  return absl::OkStatus();
}

// So that nerfctl finds the folder's tokens by the address.
void NoteAddress(const std::string& address, const DataDir& data) {
  if (const absl::Status status = NoteLocalServer(address, data.path()); !status.ok()) {
    LogInfo("nerfctl will not find the tokens by itself", {{"error", status.ToString()}});
  }
}

// Prints the link only on a terminal: it holds a token, and output that goes elsewhere may be
// stored.
void PrintPageLink(const std::string& page, const DataDir& data) {
  const absl::StatusOr<std::string> token = ReadTokenFile(data.File("admin.token"));
  if (isatty(STDOUT_FILENO) != 0 && token.ok()) {
    std::printf("nerfd: page on %s#token=%s\n", page.c_str(), token->c_str());
  } else {
    std::printf("nerfd: page on %s\n", page.c_str());
  }
}

// The files that flags name, before a data folder is made or changed.
absl::Status CheckFiles(const ServerFlags& flags) {
  if (!flags.blobs.empty()) NERF_RETURN_IF_ERROR(S3OptionsOf(flags).status());
  if (flags.blobs.empty() && !flags.s3_endpoint.empty()) {
    return absl::InvalidArgumentError("--s3-endpoint needs --blobs");
  }
  if (UsesTls(flags.tls)) NERF_RETURN_IF_ERROR(CheckServerTls(flags.tls));
  if (!flags.worker_token_file.empty()) {
    const absl::Status token = ReadTokenFile(flags.worker_token_file).status();
    if (!token.ok()) return FlagFileError("--worker-token-file", token);
  }
  if (!flags.jwks.empty()) {
    RealClock clock;
    NERF_RETURN_IF_ERROR(
        JwtKeys::Open({flags.jwks, flags.jwt_issuer, flags.jwt_audience}, &clock).status());
  }
  if (flags.restore.empty()) return absl::OkStatus();
  return WithRestoreHint(CheckBackup(flags.restore, flags.data_dir, flags.accept_data_loss),
                         flags.accept_data_loss);
}

int MoveStore(const ServerFlags& flags, const DataDir& data) {
  SystemRandom random;
  const absl::StatusOr<uint64_t> n_rows = MoveToPostgres(data.path(), flags.move_store, random);
  if (!n_rows.ok()) return Fail(n_rows.status());
  std::printf(
      "nerfd: moved %llu rows, each read back and compared\n"
      "nerfd: start it with --store from now on\n",
      static_cast<unsigned long long>(*n_rows));
  return kOk;
}

int Run(const ServerFlags& flags, EndSignals& signals) {
  if (absl::Status status = CheckFiles(flags); !status.ok()) return Fail(status);
  absl::StatusOr<DataDir> data = DataDir::Open(flags.data_dir);
  if (!data.ok()) return Fail(data.status());
  if (!flags.move_store.empty()) return MoveStore(flags, *data);
  Server server;
  unlink(data->File("nerfd.sock").c_str());  // of one that was killed
  if (absl::Status status = OpenStores(flags, *data, &server); !status.ok()) return Fail(status);
  if (absl::Status status = OpenAccess(flags, *data, &server); !status.ok()) return Fail(status);
  DropLostShares(*server.models, *server.tokens);
  AddOwnersOf(*server.state, &server.blob_owners);
  if (absl::Status status = Serve(flags, *data, &server); !status.ok()) return Fail(status);

  ListenAddress grpc_address = *ParseListenAddress("--listen", flags.listen);
  ListenAddress metrics_address = *ParseListenAddress("--metrics-listen", flags.metrics_listen);
  if (!grpc_address.is_unix) grpc_address.port = server.rpc->port();
  metrics_address.port = server.metrics_page->port();
  ServedAddresses served = {grpc_address.ToString(), metrics_address.ToString()};
  if (server.web != nullptr) {
    ListenAddress web_address = *ParseListenAddress("--web-listen", flags.web_listen);
    web_address.port = server.web->port();
    served.web = web_address.ToString();
    served.page =
        fmt::format("{}://{}/", UsesTls(flags.tls) ? "https" : "http", ConnectAddress(web_address));
    PrintPageLink(served.page, *data);
  }
  if (server.health != nullptr) {
    ListenAddress health_address = *ParseListenAddress("--health-listen", flags.health_listen);
    if (!health_address.is_unix) health_address.port = server.health->port();
    served.health = health_address.ToString();
  }
  std::printf("nerfd: grpc on %s\nnerfd: metrics on http://%s/metrics\nnerfd: data in %s\n",
              served.grpc.c_str(), served.metrics.c_str(), data->path().c_str());
  std::fflush(stdout);
  NoteAddress(ConnectAddress(grpc_address), *data);
  // Written last, because scripts wait for this file.
  if (absl::Status status = data->WriteAddresses(served); absl::IsUnavailable(status)) {
    LogWarning("the disk is full: nerfd.ports is not written", {{"error", status.ToString()}});
  } else if (!status.ok()) {
    return Fail(status);
  }
  LogInfo("serving", {{"grpc", served.grpc},
                      {"metrics", served.metrics},
                      {"web", served.web},
                      {"data_dir", data->path()},
                      {"version", NERF_VERSION}});

  std::unique_ptr<LocalWorker> worker;
  if (!flags.no_local_worker) {
    worker = std::make_unique<LocalWorker>(LocalWorkerOptions{
        .program = ProgramBesideThis("nerf-worker"),
        .server = UsesTls(flags.tls) ? LocalSocket(*data) : ConnectAddress(grpc_address),
        .cache_dir = data->File("worker"),
        .token_file =
            flags.worker_token_file.empty() ? data->File("worker.token") : flags.worker_token_file,
        .log_level = flags.log_level,
        .log_format = flags.log_format});
  }
  server.clockwork->SetServing(true);
  const int signal_number = signals.Wait();
  server.clockwork->SetServing(false);
  // Balancers and probes take time to notice NOT_SERVING. Until then calls still arrive and are
  // answered.
  if (signal_number == SIGTERM) absl::SleepFor(flags.shutdown_delay);
  // Stop the worker first: it needs the server to commit its checkpoint and release its lease.
  if (worker != nullptr) worker->Stop(kWorkerStopGrace);
  server.clockwork.reset();
  server.rpc->Shutdown(kRpcStopGrace);
  // Stop the gateway last, so that browsers get the status of their streams.
  if (server.web != nullptr) server.web->Shutdown(kWebStopGrace);
  ForgetLocalServer(ConnectAddress(grpc_address));
  unlink(data->File("nerfd.sock").c_str());
  data->RemoveAddresses();
  LogInfo("ended");
  return kOk;
}

void AddDuration(CLI::App& app, const char* flag, const char* environment, const char* help,
                 absl::Duration* value) {
  app.add_option_function<std::string>(
         flag,
         [flag, value](const std::string& text) {
           if (absl::ParseDuration(text, value)) return;
           throw CLI::ValidationError(flag,
                                      "'" + text + "' is not a duration such as 30s or 1m30s");
         },
         help)
      ->envname(environment)
      ->default_str(absl::FormatDuration(*value));
}

void AddFlags(CLI::App& app, ServerFlags* flags) {
  app.option_defaults()->take_last();  // so that arguments override those of a shell alias
  app.set_version_flag("-v,--version", "nerfd " NERF_VERSION);
  app.add_option("--listen", flags->listen, "Address of the gRPC server, HOST:PORT; port 0: any")
      ->envname("NERFD_LISTEN")
      ->capture_default_str();
  app.add_option("--metrics-listen", flags->metrics_listen, "Address of /metrics, HOST:PORT")
      ->envname("NERFD_METRICS_LISTEN")
      ->capture_default_str();
  app.add_option("--web-listen", flags->web_listen,
                 "Address of the web page and of calls from browsers, HOST:PORT; '' or none: none")
      ->envname("NERFD_WEB_LISTEN")
      ->capture_default_str();
  app.add_option("--web-origin", flags->web_origins,
                 "Other site whose pages may call, such as https://nerf.example.com; its host is "
                 "also accepted as a name of this server. May be repeated")
      ->envname("NERFD_WEB_ORIGIN")
      ->take_all()
      ->delimiter(',');
  app.add_option("--health-listen", flags->health_listen,
                 "Address of grpc.health.v1 alone, for probes, HOST:PORT; empty: none")
      ->envname("NERFD_HEALTH_LISTEN");
  app.add_option("--worker-token-file", flags->worker_token_file,
                 "File with the token of workers; default: worker.token in the data folder")
      ->envname("NERFD_WORKER_TOKEN_FILE");
  app.add_option("--data-dir", flags->data_dir, "Folder of the queue, the blobs and the token")
      ->envname("NERFD_DATA_DIR")
      ->capture_default_str();
  app.add_option("--store", flags->store,
                 "PostgreSQL database for queue and tokens, postgresql://USER@HOST/DATABASE; "
                 "default: files of the data folder")
      ->envname("NERFD_STORE")
      ->type_name("URI");
  app.add_option("--move-store", flags->move_store,
                 "Move queue.db and access.db of the data folder into this empty database, and end")
      ->type_name("URI");
  app.add_option("--blobs", flags->blobs,
                 "Keep blobs in this S3 bucket, s3://BUCKET/PREFIX, with the keys "
                 "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; default: in the data folder")
      ->envname("NERFD_BLOBS");
  app.add_option("--s3-endpoint", flags->s3_endpoint,
                 "The S3 server, https://HOST:PORT; default: Amazon's of AWS_REGION")
      ->envname("NERFD_S3_ENDPOINT");
  app.add_option("--tls-cert", flags->tls.cert,
                 "Serve gRPC and the page by TLS with this certificate and its chain, in PEM")
      ->envname("NERFD_TLS_CERT");
  app.add_option("--tls-key", flags->tls.key, "Key of that certificate, in PEM")
      ->envname("NERFD_TLS_KEY");
  app.add_option("--client-ca", flags->tls.ca,
                 "CA, in PEM, whose certificate every client has to show")
      ->envname("NERFD_CLIENT_CA");
  app.add_option(
         "--jwks", flags->jwks,
         "Take JSON Web Tokens (RS256, ES256) that are signed by a key of this set (a file)")
      ->envname("NERFD_JWKS");
  app.add_option("--jwt-issuer", flags->jwt_issuer, "The issuer that they have to name")
      ->envname("NERFD_JWT_ISSUER");
  app.add_option("--jwt-audience", flags->jwt_audience, "The audience that they have to name")
      ->envname("NERFD_JWT_AUDIENCE")
      ->capture_default_str();
  app.add_option("--max-connections", flags->max_connections,
                 "Most connections to gRPC; fewer where the limit of descriptors is lower")
      ->envname("NERFD_MAX_CONNECTIONS")
      ->check(CLI::Range(16, 1'000'000))
      ->capture_default_str();
  app.add_flag("--no-local-worker", flags->no_local_worker, "Start no nerf-worker on this machine")
      ->envname("NERFD_NO_LOCAL_WORKER");
  AddDuration(app, "--lease-ttl", "NERFD_LEASE_TTL",
              "Time without a message after which a worker is lost", &flags->lease_ttl);
  AddDuration(app, "--checkpoint-interval", "NERFD_CHECKPOINT_INTERVAL",
              "Time between checkpoints of a job", &flags->checkpoint_interval);
  app.add_flag("--accept-data-loss", flags->accept_data_loss,
               "Start with what is left of a damaged or lost queue.db, or of a backup")
      ->envname("NERFD_ACCEPT_DATA_LOSS");
  app.add_option("--restore", flags->restore,
                 "Fill an empty data folder from this backup, with a new store epoch, and serve it")
      ->type_name("DIR");
  AddDuration(app, "--scrub-interval", "NERFD_SCRUB_INTERVAL",
              "Time between two readings of all blobs, to find damaged ones; 0: never",
              &flags->scrub_interval);
  AddDuration(app, "--shutdown-delay", "NERFD_SHUTDOWN_DELAY",
              "Time to keep serving after SIGTERM, while health reports NOT_SERVING",
              &flags->shutdown_delay);
  app.add_flag("--insecure", flags->insecure, "Allow listening beyond this machine without TLS")
      ->envname("NERFD_INSECURE");
  app.add_option("--log-level", flags->log_level, "debug, info, warning, error or off")
      ->envname("NERFD_LOG_LEVEL")
      ->capture_default_str();
  app.add_option("--log-format", flags->log_format, "text, or json: one object per line")
      ->envname("NERFD_LOG_FORMAT")
      ->capture_default_str();
}

int Main(int argc, char** argv) {
  LimitHeap();
  RaiseDescriptorLimit();
  EndSignals signals;
  ServerFlags flags;
  flags.data_dir = DefaultDataDir();
  CLI::App app("Queues training jobs for radiance fields, serves scenes, models and renders.",
               "nerfd");
  AddFlags(app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    std::fprintf(stderr, "%s", UsageErrorLines(app, e).c_str());
    return kUsage;
  }
  flags.metrics_port_may_move = app.get_option("--metrics-listen")->count() == 0;
  flags.web_port_may_move = app.get_option("--web-listen")->count() == 0;
  if (flags.web_listen == "none") flags.web_listen.clear();
  if (auto s = InitLogging("nerfd", flags.log_level); !s.ok()) return FailUsage(s);
  if (auto s = SetLogFormat(flags.log_format); !s.ok()) return FailUsage(s);
  if (auto s = CheckFlags(flags); !s.ok()) return FailUsage(s);
  std::error_code error;
  flags.data_dir = fs::absolute(flags.data_dir, error).lexically_normal().string();
  return Run(flags, signals);
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  return nerf::WithLastResort("nerfd", [&] { return nerf::Main(argc, argv); });
}
