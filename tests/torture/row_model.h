#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "server/store/sqlite_store.h"
#include "server/store/store_rows.h"

namespace nerf {

// What the rows of the queue's tables must be after a list of writes, and one number for all of
// them. Of the table meta only the age.
class RowModel {
 public:
  void Apply(const StoreWrite& write) {
    for (const JobWrite& job : write.jobs) {
      Put(kJobTable, KeyOf(job.job.key), EncodeJobRow(job.job));
    }
    for (const auto& [key, event] : write.events) {
      Put(kEventTable, KeyOf(key, event.sequence), EncodeEventRow(key, event));
    }
    for (const auto& [key, last] : write.trimmed_events) {
      std::erase_if(rows_, [&, &key = key, last = last](const auto& row) {
        const auto& [table, project, id, number] = row.first;
        const bool goes =
            table == kEventTable.name && project == key.project && id == key.id && number <= last;
        if (goes) digest_ -= row.second.hash;
        return goes;
      });
    }
    for (const auto& [key, curve] : write.curves) {
      Put(kCurveTable, KeyOf(key), EncodeCurveRow(key, curve));
    }
    for (const ResourceKey& key : write.deleted_jobs) {
      Erase(kJobTable, KeyOf(key));
      Erase(kCurveTable, KeyOf(key));
    }
    for (const SceneRecord& scene : write.new_scenes) {
      Put(kSceneTable, KeyOf(scene.key), EncodeSceneRow(scene));
    }
    for (const ResourceKey& key : write.deleted_scenes) Erase(kSceneTable, KeyOf(key));
    for (const ModelRecord& model : write.models) {
      Put(kModelTable, KeyOf(model.key), EncodeModelRow(model));
    }
    for (const ResourceKey& key : write.deleted_models) Erase(kModelTable, KeyOf(key));
    for (const RequestRecord& request : write.new_requests) {
      Put(kRequestTable, {request.project, request.request_id, 0}, EncodeRequestRow(request),
          request.create_time);
    }
    if (write.age.has_value()) {
      Put(kMetaTable, {"age", "", 0}, {"age", std::to_string(absl::ToUnixMicros(*write.age))});
    }
    if (write.forget_requests_before.has_value()) {
      ForgetRequests(*write.forget_requests_before, nullptr);
    }
    for (const ProjectRecord& project : write.projects) {
      Put(kProjectTable, {project.project, "", 0}, EncodeProjectRow(project));
    }
    for (const auto& [worker, drained] : write.drained_workers) {
      if (drained) {
        Put(kDrainedTable, {worker, "", 0}, {worker});
      } else {
        Erase(kDrainedTable, {worker, "", 0});
      }
    }
    for (const UploadRecord& upload : write.uploads) {
      Put(kUploadTable, {upload.project, upload.blob.sha256, 0}, EncodeUploadRow(upload));
    }
    for (const auto& [project, sha256] : write.deleted_uploads) {
      Erase(kUploadTable, {project, sha256, 0});
    }
    for (const auto& [project, before] : write.forget_requests_of) {
      ForgetRequests(before, &project);
    }
  }

  // The sum of the rows' hashes.
  uint64_t digest() const { return digest_; }

  static absl::StatusOr<uint64_t> DigestOf(SqliteStore& store) {
    uint64_t digest = 0;
    for (const StoreTable& table : kQueueTables) {
      const absl::Status read = store.ReadRows(table, [&](const StoreRow& row) {
        if (table.name != kMetaTable.name || row[0] == "age") digest += HashOf(table, row);
        return absl::OkStatus();
      });
      if (!read.ok()) return read;
    }
    return digest;
  }

 private:
  using Key = std::tuple<std::string, std::string, uint64_t>;
  struct Row {
    uint64_t hash = 0;
    absl::Time time = absl::InfiniteFuture();
  };

  static Key KeyOf(const ResourceKey& key, uint64_t number = 0) {
    return {key.project, key.id, number};
  }

  static uint64_t HashOf(const StoreTable& table, const StoreRow& row) {
    uint64_t hash = std::hash<std::string_view>()(table.name);
    for (const std::string& value : row) {
      hash = (hash ^ std::hash<std::string>()(value)) * 0x9E3779B97F4A7C15u;
    }
    return hash;
  }

  void Put(const StoreTable& table, const Key& key, const StoreRow& row,
           absl::Time time = absl::InfiniteFuture()) {
    const auto& [a, b, number] = key;
    Row& kept = rows_[{std::string(table.name), a, b, number}];
    digest_ -= kept.hash;
    kept = {HashOf(table, row), time};
    digest_ += kept.hash;
  }
  void Erase(const StoreTable& table, const Key& key) {
    const auto& [a, b, number] = key;
    const auto found = rows_.find({std::string(table.name), a, b, number});
    if (found == rows_.end()) return;
    digest_ -= found->second.hash;
    rows_.erase(found);
  }
  void ForgetRequests(absl::Time before, const std::string* project) {
    std::erase_if(rows_, [&](const auto& row) {
      const bool goes = std::get<0>(row.first) == kRequestTable.name && row.second.time < before &&
                        (project == nullptr || std::get<1>(row.first) == *project);
      if (goes) digest_ -= row.second.hash;
      return goes;
    });
  }

  std::map<std::tuple<std::string, std::string, std::string, uint64_t>, Row> rows_;
  uint64_t digest_ = 0;
};

}  // namespace nerf
