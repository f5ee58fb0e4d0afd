#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/queue/jobs/export_spec.h"
#include "server/store/record_io.h"

namespace nerf {

// Records of export jobs, as parts of those of record_codec.h. Errors: as there.

std::string EncodeExport(const ExportSpec& spec);
absl::Status DecodeExport(std::string_view record, ExportSpec* spec);

std::string EncodeExportResult(const ExportResult& result);
absl::Status DecodeExportResult(std::string_view record, ExportResult* result);

// Of render jobs, too.
void PutModelSource(RecordWriter& writer, const ModelSource& model);
void GetModelSource(RecordReader& reader, ModelSource* model);

}  // namespace nerf
