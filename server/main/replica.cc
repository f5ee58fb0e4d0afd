#include "server/main/replica.h"

#include <fmt/format.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "common/logging.h"
#include "common/process/exit_code.h"
#include "common/status_macros.h"
#include "server/store/postgres/leader_table.h"

namespace nerf {
namespace {

constexpr absl::Duration kLookInterval = absl::Milliseconds(250);

// Set once the process is to end: then a lost lease ends nothing more.
std::atomic<bool> is_ending = false;

// Runs this program from its start with the same arguments. Connections and files are closed.
[[noreturn]] void StartAnew(char** argv) {
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  execv(program.c_str(), argv);
  execv("/proc/self/exe", argv);  // its file was replaced or deleted
  _exit(ExitCodeFor(absl::StatusCode::kInternal));
}

absl::StatusOr<std::unique_ptr<Relay>> StartRelay(const ServerFlags& flags,
                                                  const std::string& listen) {
  const ListenAddress address = *ParseListenAddress("", listen);
  // Two relays, and two descriptors for a connection.
  const int max_connections = MaxConnectionDescriptor(4 * flags.max_connections) / 4;
  return Relay::Start(
      {.host = address.host, .port = address.port, .max_connections = max_connections});
}

// What a replica sees of the others.
class Lookout {
 public:
  explicit Lookout(std::string uri) : uri_(std::move(uri)) {}

  // nullopt without PostgreSQL.
  std::optional<LeaderRow> Look() {
    absl::StatusOr<LeaderRow> row = Read();
    if (row.ok()) {
      Note("");
      return *std::move(row);
    }
    table_.reset();
    Note(fmt::format("cannot see who leads: {}", std::string(row.status().message())));
    return std::nullopt;
  }

  // Logs a new reason why this replica does not lead.
  void Note(const std::string& why) {
    if (why != std::exchange(why_, why) && !why.empty()) LogWarning("following", {{"why", why}});
  }

 private:
  absl::StatusOr<LeaderRow> Read() {
    if (table_ == nullptr) {
      NERF_ASSIGN_OR_RETURN(table_, LeaderTable::Open(uri_));
    }
    return table_->Read();
  }

  const std::string uri_;
  std::unique_ptr<LeaderTable> table_;
  std::string why_;
};

void BeginToLead(const ServerFlags& flags, char** argv, ServerStores stores, Server* server) {
  server->stores = std::move(stores);
  server->metrics->SetLeader(true, server->stores.term);
  if (server->health != nullptr) server->health->SetLeading(true);
  LogInfo("leading", {{"term", server->stores.term}});
  server->lease = std::make_unique<LeaderLease>(
      LeaderLease::Options{.duration = SeatOf(flags).lease},
      [uri = flags.store] { return LeaderTable::Open(uri); }, server->stores.term,
      server->stores.lease_began, server->stores.is_broken,
      [argv](const std::string& why) {
        LogWarning("leading no more", {{"why", why}});
        if (!is_ending) StartAnew(argv);
      });
}

}  // namespace

absl::Status StartRelays(const ServerFlags& flags, Server* server) {
  NERF_ASSIGN_OR_RETURN(server->relay, StartRelay(flags, flags.listen));
  if (!flags.web_listen.empty()) {
    NERF_ASSIGN_OR_RETURN(server->web_relay, StartRelay(flags, flags.web_listen));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int>> FollowUntilLeader(const ServerFlags& flags, char** argv,
                                                     const DataDir& data, EndSignals& signals,
                                                     Server* server) {
  const std::string own_address = SeatOf(flags).grpc_address;
  Lookout lookout(flags.store);
  std::string leader;
  std::optional<int> ended_by;
  do {
    const std::optional<LeaderRow> row = lookout.Look();
    if (!row.has_value()) continue;  // connections stay: the leader may be there
    // The lease of an earlier process of this address may not be over yet.
    const bool is_led = !row->is_free && row->grpc_address != own_address;
    server->metrics->SetLeader(false, row->term);
    server->relay->SetTarget(is_led ? row->grpc_address : "");
    if (server->web_relay != nullptr) server->web_relay->SetTarget(is_led ? row->web_address : "");
    if (server->health != nullptr) server->health->SetReady(is_led);
    if (is_led && leader != std::exchange(leader, row->grpc_address)) {
      LogInfo("following", {{"leader", leader}, {"term", row->term}});
    }
    if (!row->is_free) continue;
    absl::StatusOr<ServerStores> stores =
        OpenServerStores(flags, data, /*has_blobs=*/false, server->random);
    if (stores.ok()) {
      BeginToLead(flags, argv, *std::move(stores), server);
      return std::nullopt;
    }
    const absl::Status& status = stores.status();
    if (!absl::IsFailedPrecondition(status) && !absl::IsUnavailable(status)) return status;
    lookout.Note(std::string(status.message()));
  } while (!(ended_by = signals.Wait(kLookInterval)).has_value());
  if (server->health != nullptr) server->health->SetReady(false);
  return ended_by;
}

void NoteEnding() { is_ending = true; }

void HandOver(Server* server) {
  NoteEnding();
  if (server->lease != nullptr) server->lease->Resign();
}

}  // namespace nerf
