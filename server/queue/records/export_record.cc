#include "server/queue/records/kind_record.h"

namespace nerf {
namespace {

void FillExport(const Job& job, bool whole, v1::Job* proto) {
  v1::ExportSpec& spec = *proto->mutable_export_();
  spec = *job.exporting;
  if (!whole) spec.clear_path();
  v1::ExportStatus& status = *proto->mutable_export_status();
  if (job.progress.has_export_()) *status.mutable_progress() = job.progress.export_();
  if (job.export_result.has_value()) *status.mutable_result() = *job.export_result;
}

void StoreExport(const Job& job, internal::JobRecord* record) {
  record->mutable_export_()->set_expected_bytes(job.expected_bytes);
}

absl::Status LoadExport(const internal::JobRecord& stored, Job* job) {
  const v1::ExportStatus& status = stored.job().export_status();
  job->exporting = stored.job().export_();
  job->expected_bytes = stored.export_().expected_bytes();
  if (status.has_progress()) *job->progress.mutable_export_() = status.progress();
  if (status.has_result()) job->export_result = status.result();
  return absl::OkStatus();
}

}  // namespace

const KindRecord kExportRecord = {v1::Job::kExport, FillExport, StoreExport, LoadExport};

}  // namespace nerf
