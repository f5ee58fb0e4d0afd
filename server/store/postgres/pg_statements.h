#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/queue/state/job_store.h"
#include "server/store/postgres/pg_connection.h"

namespace nerf {

// The statements of a session. Those that insert or put take a row of their table.
struct PgStatements {
  PgStatements();

  PgStatement begin, count_commit;                 // count_commit: the term, the commits so far
  PgStatement insert_job, update_job, delete_job;  // update_job: a row and the expected epoch
  PgStatement insert_event, trim_events;
  PgStatement put_curve, delete_curve;
  PgStatement insert_scene, delete_scene, put_model, delete_model;
  PgStatement put_request, forget_requests, forget_requests_of;
  PgStatement put_meta, put_project, drain_worker, undrain_worker;
  PgStatement put_upload, delete_upload;
  PgStatement insert_token, delete_token, put_worker_key, delete_worker_key;

  std::vector<const PgStatement*> All() const;
};

// Made at the first call, never destroyed.
const PgStatements& Statements();

// "INSERT INTO ..." for a row of the table, prepared as `name`.
PgStatement InsertStatement(const StoreTable& table, const std::string& name);

// The query for the rows of a table in its order, with numbers as text; for those that `where`
// selects, or all.
std::string SelectSql(const StoreTable& table, std::string_view where = "true");

// Appends what `write` does: its jobs first, a command for each.
void AppendWrite(const StoreWrite& write, std::vector<PgCommand>* commands);

}  // namespace nerf
