#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_store.h"
#include "server/queue/state/job_store.h"

namespace nerf {

// What every database of a store holds: its tables, and how records become their rows. A database
// adds how rows are written, read and kept.

enum class ColumnType { kText, kNumber, kBytes };

struct StoreColumn {
  std::string_view name;
  ColumnType type = ColumnType::kText;
};

struct StoreTable {
  std::string_view name;
  std::span<const StoreColumn> columns;
  std::string_view order;  // the columns that rows are read by; a key of the table

  // Names of the columns, with commas between.
  std::string ColumnList() const;
};

// One row: the values of the columns in their order, numbers in decimal.
using StoreRow = std::vector<std::string>;

namespace store_columns {
inline constexpr StoreColumn kMeta[] = {{"key"}, {"value"}};
inline constexpr StoreColumn kJobs[] = {{"project"},
                                        {"id"},
                                        {"create_sequence", ColumnType::kNumber},
                                        {"state"},
                                        {"lease_worker"},
                                        {"lease_epoch", ColumnType::kNumber},
                                        {"body", ColumnType::kBytes}};
inline constexpr StoreColumn kEvents[] = {{"project"},
                                          {"job"},
                                          {"sequence", ColumnType::kNumber},
                                          {"kind"},
                                          {"body", ColumnType::kBytes}};
inline constexpr StoreColumn kCurves[] = {{"project"}, {"job"}, {"body", ColumnType::kBytes}};
inline constexpr StoreColumn kCatalog[] = {
    {"project"}, {"id"}, {"create_sequence", ColumnType::kNumber}, {"body", ColumnType::kBytes}};
inline constexpr StoreColumn kRequests[] = {
    {"project"},     {"request_id"},  {"kind", ColumnType::kNumber},
    {"resource_id"}, {"fingerprint"}, {"create_time", ColumnType::kNumber}};
inline constexpr StoreColumn kProjects[] = {{"project"}, {"body", ColumnType::kBytes}};
inline constexpr StoreColumn kDrainedWorkers[] = {{"worker"}};
inline constexpr StoreColumn kUploads[] = {
    {"project"}, {"sha256"}, {"byte_size", ColumnType::kNumber}, {"time", ColumnType::kNumber}};
inline constexpr StoreColumn kTokens[] = {{"id"},
                                          {"digest"},
                                          {"display_name"},
                                          {"role", ColumnType::kNumber},
                                          {"project"},
                                          {"create_time", ColumnType::kNumber},
                                          {"expire_time", ColumnType::kNumber},
                                          {"resource"},
                                          {"start", ColumnType::kBytes}};
inline constexpr StoreColumn kWorkerKeys[] = {{"worker"}, {"digest"}};
}  // namespace store_columns

inline constexpr StoreTable kMetaTable = {"meta", store_columns::kMeta, "key"};
inline constexpr StoreTable kJobTable = {"jobs", store_columns::kJobs, "create_sequence"};
inline constexpr StoreTable kEventTable = {"job_events", store_columns::kEvents,
                                           "project, job, sequence"};
inline constexpr StoreTable kCurveTable = {"job_curves", store_columns::kCurves, "project, job"};
inline constexpr StoreTable kSceneTable = {"scenes", store_columns::kCatalog, "create_sequence"};
inline constexpr StoreTable kModelTable = {"models", store_columns::kCatalog, "create_sequence"};
inline constexpr StoreTable kRequestTable = {"requests", store_columns::kRequests,
                                             "project, request_id"};
inline constexpr StoreTable kProjectTable = {"projects", store_columns::kProjects, "project"};
inline constexpr StoreTable kDrainedTable = {"drained_workers", store_columns::kDrainedWorkers,
                                             "worker"};
inline constexpr StoreTable kUploadTable = {"uploads", store_columns::kUploads, "project, sha256"};
inline constexpr StoreTable kTokenTable = {"tokens", store_columns::kTokens, "create_time, id"};
inline constexpr StoreTable kWorkerKeyTable = {"worker_keys", store_columns::kWorkerKeys, "worker"};

// All tables of the queue, and those of access.
inline constexpr StoreTable kQueueTables[] = {
    kMetaTable,  kJobTable,     kEventTable,   kCurveTable,   kSceneTable,
    kModelTable, kRequestTable, kProjectTable, kDrainedTable, kUploadTable};
inline constexpr StoreTable kAccessTables[] = {kTokenTable, kWorkerKeyTable};

// Rows of records. The body is sealed (row_seal.h).
StoreRow EncodeJobRow(const Job& job);
StoreRow EncodeEventRow(const ResourceKey& job, const JobEvent& event);
StoreRow EncodeCurveRow(const ResourceKey& job, const TrainingCurve& curve);
StoreRow EncodeSceneRow(const SceneRecord& scene);
StoreRow EncodeModelRow(const ModelRecord& model);
StoreRow EncodeRequestRow(const RequestRecord& request);
StoreRow EncodeProjectRow(const ProjectRecord& project);
StoreRow EncodeUploadRow(const UploadRecord& upload);
StoreRow EncodeTokenRow(const TokenRecord& token);

// The job of a row; no row has none. DataLoss STORE_CORRUPT.
absl::StatusOr<std::optional<Job>> DecodeJobRow(const std::optional<StoreRow>& row);
// The curve of a row; no row has no points. DataLoss STORE_CORRUPT.
absl::StatusOr<TrainingCurve> DecodeCurveRow(const std::optional<StoreRow>& row);

// Calls `visit` for every row of a table in its order, until one fails. Returns the first error.
using VisitRow = std::function<absl::Status(const StoreRow& row)>;
using ReadTable = std::function<absl::Status(const StoreTable& table, const VisitRow& visit)>;

// Everything that the tables of the queue hold. DataLoss STORE_CORRUPT when a row cannot be read or
// there is no store epoch.
absl::StatusOr<StoredState> ReadStoredState(const ReadTable& read);
// Of the tables of access. DataLoss STORE_CORRUPT.
absl::StatusOr<StoredAccess> ReadStoredAccess(const ReadTable& read);

}  // namespace nerf
