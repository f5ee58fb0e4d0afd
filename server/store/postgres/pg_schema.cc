#include "server/store/postgres/pg_schema.h"

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "server/queue/resources/token_sealer.h"
#include "server/store/schema.h"

namespace nerf {
namespace {

// The tables are those of store_rows.h. Text sorts by its bytes, as in the other stores.
constexpr char kPgSchema[] = R"sql(
    CREATE SCHEMA nerfd;
    CREATE TABLE schema_version (version bigint NOT NULL);
    INSERT INTO schema_version VALUES (0);
    CREATE TABLE term (
      number bigint PRIMARY KEY,
      holder text NOT NULL,
      since timestamptz NOT NULL,
      commits bigint NOT NULL);
    INSERT INTO term VALUES (0, '', now(), 0);
    CREATE TABLE meta (key text COLLATE "C" PRIMARY KEY, value text NOT NULL);
    CREATE TABLE jobs (
      project text COLLATE "C" NOT NULL,
      id text COLLATE "C" NOT NULL,
      create_sequence bigint NOT NULL UNIQUE,
      state text NOT NULL,
      lease_worker text NOT NULL,
      lease_epoch bigint NOT NULL,
      body bytea NOT NULL,
      PRIMARY KEY (project, id));
    CREATE TABLE job_events (
      project text COLLATE "C" NOT NULL,
      job text COLLATE "C" NOT NULL,
      sequence bigint NOT NULL,
      kind text NOT NULL,
      body bytea NOT NULL,
      PRIMARY KEY (project, job, sequence));
    CREATE TABLE job_curves (
      project text COLLATE "C" NOT NULL,
      job text COLLATE "C" NOT NULL,
      body bytea NOT NULL,
      PRIMARY KEY (project, job));
    CREATE TABLE scenes (
      project text COLLATE "C" NOT NULL,
      id text COLLATE "C" NOT NULL,
      create_sequence bigint NOT NULL UNIQUE,
      body bytea NOT NULL,
      PRIMARY KEY (project, id));
    CREATE TABLE models (
      project text COLLATE "C" NOT NULL,
      id text COLLATE "C" NOT NULL,
      create_sequence bigint NOT NULL UNIQUE,
      body bytea NOT NULL,
      PRIMARY KEY (project, id));
    CREATE TABLE requests (
      project text COLLATE "C" NOT NULL,
      request_id text COLLATE "C" NOT NULL,
      kind bigint NOT NULL,
      resource_id text NOT NULL,
      fingerprint text NOT NULL,
      create_time bigint NOT NULL,
      PRIMARY KEY (project, request_id));
    CREATE TABLE projects (project text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
    CREATE TABLE drained_workers (worker text COLLATE "C" PRIMARY KEY);
    CREATE TABLE tokens (
      id text COLLATE "C" PRIMARY KEY,
      digest text NOT NULL UNIQUE,
      display_name text NOT NULL,
      role bigint NOT NULL,
      project text NOT NULL,
      create_time bigint NOT NULL,
      expire_time bigint NOT NULL,
      resource text NOT NULL,
      start bytea NOT NULL);
    CREATE TABLE worker_keys (worker text COLLATE "C" PRIMARY KEY, digest text NOT NULL);
    -- The lease of the one that leads. Not in `term`, whose row each transaction locks.
    CREATE TABLE leader (
      one boolean PRIMARY KEY CHECK (one),
      term bigint NOT NULL,
      holder text NOT NULL,
      grpc_address text NOT NULL,
      web_address text NOT NULL,
      expires timestamptz NOT NULL);
    INSERT INTO leader VALUES (true, 0, '', '', '', '-infinity');
    CREATE TABLE uploads (
      project text COLLATE "C" NOT NULL,
      sha256 text COLLATE "C" NOT NULL,
      byte_size bigint NOT NULL,
      time bigint NOT NULL,
      PRIMARY KEY (project, sha256));
    )sql";

absl::StatusOr<int> ReadPgVersion(PgConnection& connection) {
  NERF_ASSIGN_OR_RETURN(const auto schema, connection.Query("SELECT oid::text FROM pg_namespace "
                                                            "WHERE nspname = 'nerfd'"));
  if (schema.empty()) return 0;
  NERF_ASSIGN_OR_RETURN(const auto rows,
                        connection.Query("SELECT version::text FROM schema_version"));
  int version = 0;
  if (rows.size() != 1 || !absl::SimpleAtoi(rows[0][0], &version) || version < 1) {
    return WithReason(absl::DataLossError(fmt::format("the {} has a schema nerfd without a version",
                                                      connection.place())),
                      reason::kStoreCorrupt);
  }
  return version;
}

absl::Status CreateInTransaction(PgConnection& connection) {
  NERF_RETURN_IF_ERROR(connection.Exec(kPgSchema));
  return connection.Exec(fmt::format("UPDATE schema_version SET version = {}", kPgSchemaVersion));
}

}  // namespace

absl::Status DrawPgSecrets(PgConnection& connection, RandomSource& random, bool anew) {
  const std::string sql = fmt::format("INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO {}",
                                      anew ? "UPDATE SET value = EXCLUDED.value" : "NOTHING");
  NERF_RETURN_IF_ERROR(connection.Query(sql, {"store_epoch", NewUuid4(random)}).status());
  return connection.Query(sql, {"token_secret", DrawTokenSecret(random)}).status();
}

absl::Status OpenPgSchema(PgConnection& connection, RandomSource& random) {
  NERF_ASSIGN_OR_RETURN(const int version, ReadPgVersion(connection));
  if (version != 0 && version != kPgSchemaVersion)
    return WrongSchemaVersion(connection.place(), version, kPgSchemaVersion);
  NERF_RETURN_IF_ERROR(connection.Exec("BEGIN"));
  absl::Status status = version == 0 ? CreateInTransaction(connection) : absl::OkStatus();
  if (status.ok()) status = DrawPgSecrets(connection, random, /*anew=*/false);
  if (status.ok()) status = connection.Commit();
  if (!status.ok()) connection.Exec("ROLLBACK").IgnoreError();
  return status;
}

}  // namespace nerf
