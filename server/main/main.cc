// nerfd: queues and serves radiance fields. See docs/inside/design.md.
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "absl/time/clock.h"
#include "common/files/flag_file.h"
#include "common/files/places.h"
#include "common/ids.h"
#include "common/log_options.h"
#include "common/logging.h"
#include "common/process/exit_code.h"
#include "common/process/last_resort.h"
#include "common/process/local_server.h"
#include "common/rpc/channel.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/access/jwt_keys.h"
#include "server/main/backup_reports.h"
#include "server/main/data_dir.h"
#include "server/main/end_signals.h"
#include "server/main/local_worker.h"
#include "server/main/replica.h"
#include "server/main/server_flags.h"
#include "server/main/server_options.h"
#include "server/main/server_parts.h"
#include "server/store/backup.h"
#include "server/store/postgres/postgres_stores.h"

#include "server/web/text_server.h"

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

// Each connection takes a descriptor, and the soft limit is 1024 on most systems.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
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
  if (flags.blobs.empty() && flags.signed_urls) {
    return absl::InvalidArgumentError("--signed-urls needs --blobs");
  }
  if (UsesTls(flags.tls)) NERF_RETURN_IF_ERROR(CheckServerTls(flags.tls));
  if (!flags.worker_token_file.empty()) {
    const absl::Status token = ReadTokenFile(flags.worker_token_file).status();
    if (!token.ok()) return FlagFileError("--worker-token-file", token);
  }
  if (!flags.admin_token_file.empty()) {
    const absl::Status token = ReadTokenFile(flags.admin_token_file).status();
    if (!token.ok()) return FlagFileError("--admin-token-file", token);
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

// What ends without serving, which takes no data folder into use.
int Report(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return Fail(text.status());
  std::fputs(text->c_str(), stdout);
  return kOk;
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

// Prints and writes the addresses, last of all, because scripts wait for the file. A replica has
// the same ones while it follows.
absl::Status Announce(const ServerFlags& flags, const Server& server, DataDir& data) {
  ListenAddress grpc_address = *ParseListenAddress("--listen", flags.listen);
  ListenAddress metrics_address = *ParseListenAddress("--metrics-listen", flags.metrics_listen);
  if (server.rpc != nullptr && !grpc_address.is_unix) grpc_address.port = server.rpc->port();
  metrics_address.port = server.metrics_page->port();
  ServedAddresses served = {grpc_address.ToString(), metrics_address.ToString()};
  if (!flags.web_listen.empty()) {
    ListenAddress web_address = *ParseListenAddress("--web-listen", flags.web_listen);
    if (server.web != nullptr) web_address.port = server.web->port();
    served.web = web_address.ToString();
    served.page =
        fmt::format("{}://{}/", UsesTls(flags.tls) ? "https" : "http", ConnectAddress(web_address));
    PrintPageLink(served.page, data);
    // Without the token: pages of another site could read it.
    if (!flags.web_origins.empty()) {
      served.shared_page = flags.web_origins.front() + "/";
      std::printf("nerfd: shares open on %s\n", served.shared_page.c_str());
    }
  }
  if (server.health != nullptr) {
    ListenAddress health_address = *ParseListenAddress("--health-listen", flags.health_listen);
    if (!health_address.is_unix) health_address.port = server.health->port();
    served.health = health_address.ToString();
  }
  std::printf("nerfd: grpc on %s\nnerfd: metrics on http://%s/metrics\nnerfd: data in %s\n",
              served.grpc.c_str(), served.metrics.c_str(), data.path().c_str());
  std::fflush(stdout);
  NoteAddress(ConnectAddress(grpc_address), data);
  if (absl::Status status = data.WriteAddresses(served); absl::IsUnavailable(status)) {
    LogWarning("the disk is full: nerfd.ports is not written", {{"error", status.ToString()}});
  } else if (!status.ok()) {
    return status;
  }
  LogInfo("serving", {{"grpc", served.grpc},
                      {"metrics", served.metrics},
                      {"web", served.web},
                      {"data_dir", data.path()},
                      {"version", NERF_VERSION}});
  return absl::OkStatus();
}

std::unique_ptr<LocalWorker> StartWorker(const ServerFlags& flags, const Server& server,
                                         const DataDir& data) {
  if (flags.no_local_worker || flags.is_replica()) return nullptr;
  ListenAddress address = *ParseListenAddress("--listen", flags.listen);
  if (!address.is_unix) address.port = server.rpc->port();
  return std::make_unique<LocalWorker>(
      LocalWorkerOptions{.program = ProgramBesideThis("nerf-worker"),
                         .server = UsesTls(flags.tls) ? LocalSocket(data) : ConnectAddress(address),
                         .cache_dir = data.File("worker"),
                         .token_file = flags.worker_token_file.empty() ? data.File("worker.token")
                                                                       : flags.worker_token_file,
                         .log_level = flags.log_level,
                         .log_format = flags.log_format});
}

// Serves until a signal comes, then ends all parts in order.
void ServeUntilSignal(const ServerFlags& flags, const DataDir& data, EndSignals& signals,
                      Server* server) {
  std::unique_ptr<LocalWorker> worker = StartWorker(flags, *server, data);
  server->clockwork->SetServing(true);
  const int signal_number = *signals.Wait();
  NoteEnding();
  server->clockwork->SetServing(false);
  // Balancers and probes take time to notice NOT_SERVING. Until then calls still arrive and are
  // answered.
  if (signal_number == SIGTERM) absl::SleepFor(flags.shutdown_delay);
  // Stop the worker first: it needs the server to commit its checkpoint and release its lease.
  if (worker != nullptr) worker->Stop(kWorkerStopGrace);
  server->clockwork.reset();
  server->rpc->Shutdown(kRpcStopGrace);
  HandOver(server);
  // Stop the gateway last, so that browsers get the status of their streams.
  if (server->web != nullptr) server->web->Shutdown(kWebStopGrace);
}

// Everything after the flags. Announces a replica before it follows, others when they serve.
absl::Status RunServer(const ServerFlags& flags, char** argv, EndSignals& signals, DataDir& data,
                       Server* server) {
  NERF_RETURN_IF_ERROR(ServePages(flags, server));
  std::optional<int> ended_by;
  if (flags.is_replica()) {
    NERF_RETURN_IF_ERROR(StartRelays(flags, server));
    NERF_RETURN_IF_ERROR(Announce(flags, *server, data));
    NERF_ASSIGN_OR_RETURN(ended_by, FollowUntilLeader(flags, argv, data, signals, server));
  } else {
    server->metrics->SetLeader(true, 0);
    if (server->health != nullptr) server->health->SetLeading(true);
  }
  if (ended_by.has_value()) {
    if (*ended_by == SIGTERM) absl::SleepFor(flags.shutdown_delay);
    return absl::OkStatus();
  }
  if (absl::Status status = ServeStores(flags, data, server); !status.ok()) {
    HandOver(server);
    return status;
  }
  if (!flags.is_replica()) NERF_RETURN_IF_ERROR(Announce(flags, *server, data));
  ServeUntilSignal(flags, data, signals, server);
  return absl::OkStatus();
}

int Run(const ServerFlags& flags, char** argv, EndSignals& signals) {
  if (absl::Status status = CheckFiles(flags); !status.ok()) return Fail(status);
  absl::StatusOr<DataDir> data = DataDir::Open(flags.data_dir);
  if (!data.ok()) return Fail(data.status());
  if (!flags.move_store.empty()) return MoveStore(flags, *data);
  if (flags.is_replica()) {
    if (absl::Status status = CheckReplicaFolder(*data); !status.ok()) return Fail(status);
  }
  Server server;
  unlink(data->File("nerfd.sock").c_str());  // of one that was killed
  if (absl::Status status = RunServer(flags, argv, signals, *data, &server); !status.ok()) {
    return Fail(status);
  }
  ListenAddress address = *ParseListenAddress("--listen", flags.listen);
  if (server.rpc != nullptr && !address.is_unix) address.port = server.rpc->port();
  ForgetLocalServer(ConnectAddress(address));
  unlink(data->File("nerfd.sock").c_str());
  data->RemoveAddresses();
  LogInfo("ended");
  return kOk;
}

int Main(int argc, char** argv) {
  LimitHeap();
  RaiseDescriptorLimit();
  EndSignals signals;
  ServerFlags flags;
  flags.data_dir = DefaultDataDir();
  CLI::App app("Queues training jobs for radiance fields, serves scenes, models and renders.",
               "nerfd");
  app.set_version_flag("-v,--version", "nerfd " NERF_VERSION);
  AddServerOptions(app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
    std::fprintf(stderr, "%s", UsageErrorLines(app, e).c_str());
    return kUsage;
  }
  flags.metrics_port_may_move = app.get_option("--metrics-listen")->count() == 0;
  flags.web_port_may_move = app.get_option("--web-listen")->count() == 0 && !flags.is_replica();
  if (flags.web_listen == "none") flags.web_listen.clear();
  if (auto s = InitLogging("nerfd", flags.log_level); !s.ok()) return FailUsage(s);
  if (auto s = SetLogFormat(flags.log_format); !s.ok()) return FailUsage(s);
  if (auto s = CheckFlags(flags); !s.ok()) return FailUsage(s);
  std::error_code error;
  flags.data_dir = fs::absolute(flags.data_dir, error).lexically_normal().string();
  if (flags.list_backups) return Report(BackupsText(flags.data_dir));
  if (!flags.check_backup.empty()) return Report(BackupCheckText(flags.check_backup));
  return Run(flags, argv, signals);
}

}  // namespace
}  // namespace nerf

int main(int argc, char** argv) {
  return nerf::WithLastResort("nerfd", [&] { return nerf::Main(argc, argv); });
}
