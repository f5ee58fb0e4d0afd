#include "server/store/postgres/pg_statements.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace nerf {
namespace {

constexpr ColumnType kText = ColumnType::kText, kNumber = ColumnType::kNumber;

std::vector<ColumnType> TypesOf(const StoreTable& table) {
  std::vector<ColumnType> types;
  for (const StoreColumn& column : table.columns) types.push_back(column.type);
  return types;
}

// As an insert; a row of the same key is replaced.
PgStatement PutStatement(const StoreTable& table) {
  PgStatement put = InsertStatement(table, fmt::format("put_{}", table.name));
  const std::vector<std::string> keys = absl::StrSplit(std::string(table.order), ", ");
  std::vector<std::string> sets;
  for (const StoreColumn& column : table.columns) {
    const std::string name(column.name);
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) {
      sets.push_back(fmt::format("{0} = EXCLUDED.{0}", name));
    }
  }
  put.sql += fmt::format(" ON CONFLICT ({}) DO ", table.order);
  put.sql += sets.empty() ? "NOTHING" : "UPDATE SET " + absl::StrJoin(sets, ", ");
  return put;
}

std::string Micros(absl::Time time) { return std::to_string(absl::ToUnixMicros(time)); }

void AppendJobs(const StoreWrite& write, std::vector<PgCommand>* commands) {
  const PgStatements& s = Statements();
  for (const JobWrite& job : write.jobs) {
    StoreRow row = EncodeJobRow(job.job);
    const bool is_new = !job.expected_epoch.has_value();
    if (!is_new) row.push_back(std::to_string(static_cast<int64_t>(*job.expected_epoch)));
    commands->push_back(
        {is_new ? &s.insert_job : &s.update_job, std::move(row), /*must_change=*/true});
  }
  for (const auto& [key, event] : write.events) {
    commands->push_back({&s.insert_event, EncodeEventRow(key, event)});
  }
  for (const auto& [key, sequence] : write.trimmed_events) {
    commands->push_back(
        {&s.trim_events, {key.project, key.id, std::to_string(static_cast<int64_t>(sequence))}});
  }
  for (const auto& [key, curve] : write.curves) {
    commands->push_back({&s.put_curve, EncodeCurveRow(key, curve)});
  }
  for (const ResourceKey& key : write.deleted_jobs) {
    commands->push_back({&s.delete_job, {key.project, key.id}});
    commands->push_back({&s.delete_curve, {key.project, key.id}});
  }
}

}  // namespace

PgStatement InsertStatement(const StoreTable& table, const std::string& name) {
  std::vector<std::string> marks;
  for (size_t i = 1; i <= table.columns.size(); ++i) marks.push_back(fmt::format("${}", i));
  return {name,
          fmt::format("INSERT INTO {} ({}) VALUES ({})", table.name, table.ColumnList(),
                      absl::StrJoin(marks, ", ")),
          TypesOf(table)};
}

std::string SelectSql(const StoreTable& table, std::string_view where) {
  std::vector<std::string> columns;
  for (const StoreColumn& column : table.columns) {
    columns.push_back(std::string(column.name) +
                      (column.type == ColumnType::kNumber ? "::text" : ""));
  }
  // Named with their table: a cast column has the name of its own in ORDER BY, and its order.
  std::vector<std::string> order = absl::StrSplit(std::string(table.order), ", ");
  for (std::string& column : order) column = fmt::format("{}.{}", table.name, column);
  return fmt::format("SELECT {} FROM {} WHERE {} ORDER BY {}", absl::StrJoin(columns, ", "),
                     table.name, where, absl::StrJoin(order, ", "));
}

PgStatements::PgStatements()
    : begin{"begin", "BEGIN", {}},
      count_commit{"count_commit",
                   "UPDATE term SET commits = commits + 1 WHERE number = $1 AND commits = $2",
                   {kNumber, kNumber}},
      insert_job(InsertStatement(kJobTable, "insert_job")),
      update_job{"update_job",
                 "UPDATE jobs SET state = $4, lease_worker = $5, lease_epoch = $6, body = $7 "
                 "WHERE project = $1 AND id = $2 AND lease_epoch = $8",
                 TypesOf(kJobTable)},
      delete_job{"delete_job", "DELETE FROM jobs WHERE project = $1 AND id = $2", {kText, kText}},
      insert_event(InsertStatement(kEventTable, "insert_event")),
      trim_events{"trim_events",
                  "DELETE FROM job_events WHERE project = $1 AND job = $2 AND sequence <= $3",
                  {kText, kText, kNumber}},
      put_curve(PutStatement(kCurveTable)),
      delete_curve{
          "delete_curve", "DELETE FROM job_curves WHERE project = $1 AND job = $2", {kText, kText}},
      insert_scene(InsertStatement(kSceneTable, "insert_scene")),
      delete_scene{
          "delete_scene", "DELETE FROM scenes WHERE project = $1 AND id = $2", {kText, kText}},
      put_model(PutStatement(kModelTable)),
      delete_model{
          "delete_model", "DELETE FROM models WHERE project = $1 AND id = $2", {kText, kText}},
      put_request(PutStatement(kRequestTable)),
      forget_requests{"forget_requests", "DELETE FROM requests WHERE create_time < $1", {kNumber}},
      forget_requests_of{"forget_requests_of",
                         "DELETE FROM requests WHERE project = $1 AND create_time < $2",
                         {kText, kNumber}},
      put_meta(PutStatement(kMetaTable)),
      put_project(PutStatement(kProjectTable)),
      drain_worker(PutStatement(kDrainedTable)),
      undrain_worker{"undrain_worker", "DELETE FROM drained_workers WHERE worker = $1", {kText}},
      put_upload(PutStatement(kUploadTable)),
      delete_upload{"delete_upload",
                    "DELETE FROM uploads WHERE project = $1 AND sha256 = $2",
                    {kText, kText}},
      insert_token(InsertStatement(kTokenTable, "insert_token")),
      delete_token{"delete_token", "DELETE FROM tokens WHERE id = $1", {kText}},
      put_worker_key(PutStatement(kWorkerKeyTable)),
      delete_worker_key{"delete_worker_key", "DELETE FROM worker_keys WHERE worker = $1", {kText}} {
  update_job.types.push_back(kNumber);  // the expected epoch
}

std::vector<const PgStatement*> PgStatements::All() const {
  return {&begin,          &count_commit,     &insert_job,      &update_job,
          &delete_job,     &insert_event,     &trim_events,     &put_curve,
          &delete_curve,   &insert_scene,     &delete_scene,    &put_model,
          &delete_model,   &put_request,      &forget_requests, &forget_requests_of,
          &put_meta,       &put_project,      &drain_worker,    &undrain_worker,
          &put_upload,     &delete_upload,    &insert_token,    &delete_token,
          &put_worker_key, &delete_worker_key};
}

const PgStatements& Statements() {
  static const auto* const statements = new PgStatements();
  return *statements;
}

void AppendWrite(const StoreWrite& write, std::vector<PgCommand>* commands) {
  const PgStatements& s = Statements();
  AppendJobs(write, commands);
  for (const SceneRecord& scene : write.new_scenes) {
    commands->push_back({&s.insert_scene, EncodeSceneRow(scene)});
  }
  for (const ResourceKey& key : write.deleted_scenes) {
    commands->push_back({&s.delete_scene, {key.project, key.id}});
  }
  for (const ModelRecord& model : write.models) {
    commands->push_back({&s.put_model, EncodeModelRow(model)});
  }
  for (const ResourceKey& key : write.deleted_models) {
    commands->push_back({&s.delete_model, {key.project, key.id}});
  }
  for (const RequestRecord& request : write.new_requests) {
    commands->push_back({&s.put_request, EncodeRequestRow(request)});
  }
  if (write.age.has_value()) commands->push_back({&s.put_meta, {"age", Micros(*write.age)}});
  if (write.forget_requests_before.has_value()) {
    commands->push_back({&s.forget_requests, {Micros(*write.forget_requests_before)}});
  }
  for (const ProjectRecord& project : write.projects) {
    commands->push_back({&s.put_project, EncodeProjectRow(project)});
  }
  for (const auto& [worker, drained] : write.drained_workers) {
    commands->push_back({drained ? &s.drain_worker : &s.undrain_worker, {worker}});
  }
  for (const auto& [project, before] : write.forget_requests_of) {
    commands->push_back({&s.forget_requests_of, {project, Micros(before)}});
  }
  for (const UploadRecord& upload : write.uploads) {
    commands->push_back({&s.put_upload, EncodeUploadRow(upload)});
  }
  for (const auto& [project, sha256] : write.deleted_uploads) {
    commands->push_back({&s.delete_upload, {project, sha256}});
  }
}

}  // namespace nerf
