#include "server/store/store_rows.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/error_reason.h"
#include "common/ids.h"
#include "common/messages/deterministic_bytes.h"
#include "common/status_macros.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/records/stored_job.h"
#include "server/store/row_seal.h"

namespace nerf {
namespace {

// Times of tokens are microseconds since 1970; no expiry is the largest number.
constexpr int64_t kNeverExpires = INT64_MAX;

absl::Status CorruptRow(std::string_view table, std::string_view why) {
  return WithReason(absl::DataLossError(fmt::format("a row of {} is damaged: {}", table, why)),
                    reason::kStoreCorrupt);
}

// Numbers are kept as signed ones, in every database.
std::string NumberText(uint64_t number) { return std::to_string(static_cast<int64_t>(number)); }

// Reads the numbers of a row. The first that is none is the status.
class RowNumbers {
 public:
  RowNumbers(const StoreTable& table, const StoreRow& row) : table_(table), row_(row) {}
  int64_t operator()(size_t column) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(row_[column], &number)) {
      status_.Update(
          CorruptRow(table_.name, fmt::format("its {} is no number", table_.columns[column].name)));
    }
    return number;
  }
  const absl::Status& status() const { return status_; }

 private:
  const StoreTable& table_;
  const StoreRow& row_;
  absl::Status status_;
};

// A row of `columns` and the body, whose seal covers both.
StoreRow Sealed(std::vector<std::string> columns, std::string_view body) {
  std::string sealed = SealRow(body, columns);
  columns.push_back(std::move(sealed));
  return columns;
}

// The body of a row that Sealed made.
absl::StatusOr<std::string> Unsealed(const StoreRow& row) {
  return UnsealRow(row.back(), {row.begin(), row.end() - 1});
}

// Reads a body as `Message` and that as a record. Messages have limits of their own: 2 GiB, and 100
// levels.
template <typename Message, typename Record>
absl::Status ReadRecord(const StoreTable& table, const std::string& body, Record* record) {
  Message message;
  if (!message.ParseFromString(body)) return CorruptRow(table.name, "its body is no record");
  return FromRecord(message, record);
}

absl::Status DecodeJobRow(const StoreRow& row, Job* job) {
  RowNumbers number(kJobTable, row);
  job->key = {row[0], row[1]};
  job->create_sequence = static_cast<uint64_t>(number(2));
  const auto state = ParseJobState(row[3]);
  if (!state.ok()) return CorruptRow(kJobTable.name, std::string(state.status().message()));
  job->state = *state;
  // Ids of workers have no comma.
  job->lease.members = absl::StrSplit(row[4], ',', absl::SkipEmpty());
  job->lease.epoch = static_cast<uint64_t>(number(5));
  NERF_RETURN_IF_ERROR(number.status());
  NERF_ASSIGN_OR_RETURN(const std::string body, Unsealed(row));
  return ReadRecord<internal::JobRecord>(kJobTable, body, job);
}

absl::Status DecodeEventRow(const StoreRow& row, ResourceKey* key, JobEvent* event) {
  RowNumbers number(kEventTable, row);
  *key = {row[0], row[1]};
  event->sequence = static_cast<uint64_t>(number(2));
  const auto kind = ParseJobEventKind(row[3]);
  if (!kind.ok()) return CorruptRow(kEventTable.name, std::string(kind.status().message()));
  event->kind = *kind;
  NERF_RETURN_IF_ERROR(number.status());
  NERF_ASSIGN_OR_RETURN(const std::string body, Unsealed(row));
  return ReadRecord<internal::EventRecord>(kEventTable, body, event);
}

// A scene's or a model's row.
template <typename Message, typename Record>
absl::Status DecodeCatalogRow(const StoreTable& table, const StoreRow& row, Record* record) {
  RowNumbers number(table, row);
  record->key = {row[0], row[1]};
  record->create_sequence = static_cast<uint64_t>(number(2));
  NERF_RETURN_IF_ERROR(number.status());
  NERF_ASSIGN_OR_RETURN(const std::string body, Unsealed(row));
  return ReadRecord<Message>(table, body, record);
}

template <typename Record>
StoreRow EncodeCatalogRow(const Record& record) {
  return Sealed({record.key.project, record.key.id, NumberText(record.create_sequence)},
                DeterministicBytes(ToRecord(record)));
}

absl::Status DecodeRequestRow(const StoreRow& row, RequestRecord* request) {
  RowNumbers number(kRequestTable, row);
  *request = {static_cast<RequestRecord::Kind>(number(2)),
              row[0],
              row[1],
              row[3],
              row[4],
              absl::FromUnixMicros(number(5))};
  return number.status();
}

absl::Status DecodeTokenRow(const StoreRow& row, TokenRecord* token) {
  RowNumbers number(kTokenTable, row);
  const int64_t role_number = number(3), expires = number(6);
  *token = {.id = row[0],
            .digest = row[1],
            .display_name = row[2],
            .project = row[4],
            .create_time = absl::FromUnixMicros(number(5)),
            .resource = row[7],
            .start = row[8]};
  NERF_RETURN_IF_ERROR(number.status());
  if (expires != kNeverExpires) token->expire_time = absl::FromUnixMicros(expires);
  for (const Role role : {Role::kViewer, Role::kEditor, Role::kWorker, Role::kAdmin}) {
    if (static_cast<int64_t>(role) != role_number) continue;
    token->role = role;
    return absl::OkStatus();
  }
  return CorruptRow(kTokenTable.name, fmt::format("{} is no role", role_number));
}

absl::Status ReadMeta(const ReadTable& read, StoredState* stored) {
  NERF_RETURN_IF_ERROR(read(kMetaTable, [&](const StoreRow& row) {
    int64_t micros = 0;
    if (row[0] == "store_epoch") stored->store_epoch = row[1];
    if (row[0] == "token_secret") stored->token_secret = row[1];
    if (row[0] == "age" && absl::SimpleAtoi(row[1], &micros)) {
      stored->age = absl::FromUnixMicros(micros);
    }
    return absl::OkStatus();
  }));
  if (IsUuid4(stored->store_epoch)) return absl::OkStatus();
  return WithReason(absl::DataLossError("the store has no epoch that can be read"),
                    reason::kStoreCorrupt);
}

absl::Status ReadCatalogs(const ReadTable& read, StoredState* stored) {
  NERF_RETURN_IF_ERROR(read(kSceneTable, [&](const StoreRow& row) {
    return DecodeCatalogRow<internal::SceneRecord>(kSceneTable, row,
                                                   &stored->scenes.emplace_back());
  }));
  NERF_RETURN_IF_ERROR(read(kModelTable, [&](const StoreRow& row) {
    return DecodeCatalogRow<internal::ModelRecord>(kModelTable, row,
                                                   &stored->models.emplace_back());
  }));
  return read(kRequestTable, [&](const StoreRow& row) {
    return DecodeRequestRow(row, &stored->requests.emplace_back());
  });
}

}  // namespace

std::string StoreTable::ColumnList() const {
  return absl::StrJoin(
      columns, ", ", [](std::string* out, const StoreColumn& column) { out->append(column.name); });
}

StoreRow EncodeJobRow(const Job& job) {
  return Sealed({job.key.project, job.key.id, NumberText(job.create_sequence),
                 std::string(JobStateName(job.state)), absl::StrJoin(job.lease.members, ","),
                 NumberText(job.lease.epoch)},
                DeterministicBytes(ToRecord(job)));
}

StoreRow EncodeEventRow(const ResourceKey& job, const JobEvent& event) {
  return Sealed(
      {job.project, job.id, NumberText(event.sequence), std::string(JobEventKindName(event.kind))},
      DeterministicBytes(ToRecord(event)));
}

StoreRow EncodeCurveRow(const ResourceKey& job, const TrainingCurve& curve) {
  return Sealed({job.project, job.id}, DeterministicBytes(curve.record()));
}

StoreRow EncodeSceneRow(const SceneRecord& scene) { return EncodeCatalogRow(scene); }

StoreRow EncodeModelRow(const ModelRecord& model) { return EncodeCatalogRow(model); }

StoreRow EncodeRequestRow(const RequestRecord& request) {
  return {request.project,
          request.request_id,
          std::to_string(static_cast<int>(request.kind)),
          request.resource_id,
          request.fingerprint,
          std::to_string(absl::ToUnixMicros(request.create_time))};
}

StoreRow EncodeProjectRow(const ProjectRecord& project) {
  return Sealed({project.project}, DeterministicBytes(ToRecord(project)));
}

StoreRow EncodeUploadRow(const UploadRecord& upload) {
  return {upload.project, upload.blob.sha256, NumberText(upload.blob.byte_size),
          std::to_string(absl::ToUnixMicros(upload.time))};
}

StoreRow EncodeTokenRow(const TokenRecord& token) {
  const int64_t expires = token.expire_time == absl::InfiniteFuture()
                              ? kNeverExpires
                              : absl::ToUnixMicros(token.expire_time);
  return {token.id,
          token.digest,
          token.display_name,
          std::to_string(static_cast<int>(token.role)),
          token.project,
          std::to_string(absl::ToUnixMicros(token.create_time)),
          std::to_string(expires),
          token.resource,
          token.start};
}

absl::StatusOr<std::optional<Job>> DecodeJobRow(const std::optional<StoreRow>& row) {
  std::optional<Job> job;
  if (row.has_value()) NERF_RETURN_IF_ERROR(DecodeJobRow(*row, &job.emplace()));
  return job;
}

absl::StatusOr<TrainingCurve> DecodeCurveRow(const std::optional<StoreRow>& row) {
  if (!row.has_value()) return TrainingCurve();
  NERF_ASSIGN_OR_RETURN(const std::string body, Unsealed(*row));
  internal::CurveRecord record;
  if (!record.ParseFromString(body)) return CorruptRow(kCurveTable.name, "its body is no record");
  return TrainingCurve(std::move(record));
}

absl::StatusOr<StoredState> ReadStoredState(const ReadTable& read) {
  StoredState stored;
  NERF_RETURN_IF_ERROR(ReadMeta(read, &stored));
  NERF_RETURN_IF_ERROR(read(kJobTable, [&](const StoreRow& row) {
    Job& job = stored.jobs.emplace_back();
    NERF_RETURN_IF_ERROR(DecodeJobRow(row, &job));
    LeaveFilesInStore(&job);
    return absl::OkStatus();
  }));
  NERF_RETURN_IF_ERROR(read(kEventTable, [&](const StoreRow& row) {
    auto& [key, event] = stored.events.emplace_back();
    return DecodeEventRow(row, &key, &event);
  }));
  NERF_RETURN_IF_ERROR(ReadCatalogs(read, &stored));
  NERF_RETURN_IF_ERROR(read(kProjectTable, [&](const StoreRow& row) {
    ProjectRecord& project = stored.projects.emplace_back();
    project.project = row[0];
    NERF_ASSIGN_OR_RETURN(const std::string body, Unsealed(row));
    return ReadRecord<internal::ProjectRecord>(kProjectTable, body, &project);
  }));
  NERF_RETURN_IF_ERROR(read(kDrainedTable, [&](const StoreRow& row) {
    stored.drained_workers.push_back(row[0]);
    return absl::OkStatus();
  }));
  NERF_RETURN_IF_ERROR(read(kUploadTable, [&](const StoreRow& row) {
    RowNumbers number(kUploadTable, row);
    stored.uploads.push_back(
        {row[0], {row[1], static_cast<uint64_t>(number(2))}, absl::FromUnixMicros(number(3))});
    return number.status();
  }));
  return stored;
}

absl::StatusOr<StoredAccess> ReadStoredAccess(const ReadTable& read) {
  StoredAccess stored;
  NERF_RETURN_IF_ERROR(read(kTokenTable, [&](const StoreRow& row) {
    return DecodeTokenRow(row, &stored.tokens.emplace_back());
  }));
  NERF_RETURN_IF_ERROR(read(kWorkerKeyTable, [&](const StoreRow& row) {
    stored.worker_keys.push_back({row[0], row[1]});
    return absl::OkStatus();
  }));
  return stored;
}

}  // namespace nerf
