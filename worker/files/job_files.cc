#include "worker/files/job_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "common/error_reason.h"
#include "common/status_macros.h"
#include "worker/files/scene_folder.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

// Links a blob's file to `path`.
absl::Status LinkBlob(const v1::BlobRef& blob, const std::string& path, BlobCache& cache,
                      const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(const auto file, cache.Fetch(blob, /*pin=*/true, stop));
  absl::Status linked = LinkFile(file, path);
  cache.Unpin(blob.sha256());
  return linked;
}

// CHECKPOINT_CORRUPT if the server's file is damaged, shorter than it should be or not there.
absl::Status AsCorrupt(const absl::Status& status) {
  if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return status;
  return WithReason(absl::DataLossError(status.message()), reason::kCheckpointCorrupt);
}

}  // namespace

absl::StatusOr<JobFiles> FetchJobFiles(const v1::DesiredJob& grant, const std::string& folder,
                                       BlobCache& cache, const std::stop_token& stop) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  for (const char* name : {"/out", "/commit"}) {
    NERF_RETURN_IF_ERROR(MakeFolders(folder + name));
  }
  NERF_RETURN_IF_ERROR(LayOutScene(grant.files(), folder + "/scene", cache, stop));
  JobFiles files;
  if (grant.has_resume()) {
    files.resume = folder + "/resume.safetensors";
    NERF_RETURN_IF_ERROR(
        AsCorrupt(LinkBlob(grant.resume().checkpoint_blob(), files.resume, cache, stop)));
  } else if (grant.merge_size() > 0) {
    for (const v1::BlobRef& model : grant.merge()) {
      files.merge.push_back(fmt::format("{}/part{}.safetensors", folder, files.merge.size()));
      NERF_RETURN_IF_ERROR(LinkBlob(model, files.merge.back(), cache, stop));
    }
  } else if (grant.has_init_blob()) {
    files.init = folder + "/init.safetensors";
    NERF_RETURN_IF_ERROR(LinkBlob(grant.init_blob(), files.init, cache, stop));
  }
  return files;
}

}  // namespace nerf
