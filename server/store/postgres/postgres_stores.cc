#include "server/store/postgres/postgres_stores.h"

#include <libpq-fe.h>

#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "common/status_macros.h"
#include "server/store/postgres/pg_session.h"
#include "server/store/postgres/postgres_access_store.h"
#include "server/store/postgres/postgres_store.h"

namespace nerf {

absl::Status CheckPostgresUri(const std::string& uri) {
  // libpq's message would repeat parts of the text, which may have a password in it.
  const absl::Status bad =
      absl::InvalidArgumentError("not a URI such as postgresql://nerfd@db.example.com/nerfd");
  if (!absl::StartsWith(uri, "postgresql://") && !absl::StartsWith(uri, "postgres://")) return bad;
  char* message = nullptr;
  PQconninfoOption* const options = PQconninfoParse(uri.c_str(), &message);
  PQfreemem(message);
  if (options == nullptr) return bad;
  bool has_password = false;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    const bool is_secret = std::strcmp(option->keyword, "password") == 0 ||
                           std::strcmp(option->keyword, "sslpassword") == 0;
    has_password = has_password || (is_secret && option->val != nullptr);
  }
  PQconninfoFree(options);
  if (!has_password) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "has a password, which others can read in the list of processes; put it into the file that "
      "PGPASSFILE names");
}

absl::StatusOr<PostgresStores> OpenPostgresStores(const PostgresOptions& options,
                                                  RandomSource& random) {
  PgSessionOptions session_options = {.uri = options.uri,
                                      .seat = options.seat,
                                      .commits_file = options.commits_file,
                                      .accept_data_loss = options.accept_data_loss};
  // The session that has to be ended first is gone after some milliseconds.
  if (options.seat.is_one()) session_options.lock_wait = absl::Milliseconds(300);
  NERF_ASSIGN_OR_RETURN(std::shared_ptr<PgSession> session,
                        PgSession::Open(session_options, random));
  return PostgresStores{.jobs = std::make_unique<PostgresStore>(session),
                        .access = std::make_unique<PostgresAccessStore>(session),
                        .term = session->term(),
                        .lease_began = session->began(),
                        .is_broken = [session] { return session->is_broken(); }};
}

}  // namespace nerf
