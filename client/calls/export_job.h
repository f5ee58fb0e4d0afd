#pragma once

#include <string>

#include "absl/status/status.h"
#include "nerf/v1/export_job_service.pb.h"

namespace nerf {

class Session;

// Follows an export job to its end and shows how far it is, as AwaitEndOf does. Returns the exit
// code: 9 for a model of which this cannot be made. *job: at its end.
int AwaitExportJob(Session& session, const std::string& name, v1::ExportJob* job);

// Downloads the file that a job has made. Errors: NotFound without one; those of
// BlobClient::DownloadToFile.
absl::Status DownloadExport(Session& session, const v1::ExportJob& job, const std::string& path);

// "about 5.6 MB", "at most 12.3 MB"; empty where nothing is known before the file is made.
std::string ExpectedSizeText(const v1::ExportJob& job);

// "surface 40%"; empty before the first step.
std::string ExportProgressText(const v1::ExportJob& job);

}  // namespace nerf
