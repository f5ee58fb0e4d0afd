#include "client/calls/job_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "client/calls/job_calls.h"
#include "client/flags/file_flag.h"
#include "client/kinds/job_kind.h"
#include "client/kinds/job_words.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLookInterval = absl::Milliseconds(250);

bool IsFileName(const std::string& out) {
  std::error_code ignored;
  return fs::path(out).has_extension() && !fs::is_directory(out, ignored);
}

}  // namespace

absl::Status CheckJobOut(const std::string& out) {
  if (IsFileName(out)) return CheckFolderOfFile("--out", out);
  std::error_code ignored;
  if (!fs::exists(out, ignored) || fs::is_directory(out, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--out: {} is a file; name a folder, or a file with an ending", out));
}

JobFiles::JobFiles(Session& session, std::string out, bool is_file)
    : session_(session), out_(std::move(out)), is_file_(is_file || IsFileName(out_)) {}

absl::Status JobFiles::Check(const v1::Job& job) const {
  if (!is_file_ || KindOfJob(job).OutputOf(job) == JobOutput::kOneFile) return absl::OkStatus();
  return InvalidFieldsError(
      {{"--out", out_ + " is a file's name, and the job makes several files: name a folder"}});
}

absl::Status JobFiles::Fetch(const v1::Job& job) {
  NERF_RETURN_IF_ERROR(Check(job));
  const JobKind& kind = KindOfJob(job);
  const bool meanwhile = kind.OutputOf(job) == JobOutput::kFilesMeanwhile;
  const SteadyTime now = session_.io().clock->Now();
  if (!IsFinal(job.state()) && (!meanwhile || now - looked_at_ < kLookInterval)) {
    return absl::OkStatus();
  }
  looked_at_ = now;
  v1::Job whole = job;  // watches leave out long lists, such as frames
  if (meanwhile) {
    NERF_ASSIGN_OR_RETURN(whole, GetJob(session_, job.name()));
  }
  BlobClient blobs = session_.Blobs(job.name());
  paths_.clear();
  for (const JobFile& file : kind.FilesOf(whole)) {
    // A name from the server leads into no other folder.
    const std::string path =
        is_file_ ? out_ : (fs::path(out_) / fs::path(file.name).filename()).string();
    paths_.push_back(path);
    if (fetched_.contains(path)) continue;
    std::error_code error;
    if (!is_file_) fs::create_directories(out_, error);
    if (error) return absl::InternalError(fmt::format("{}: {}", out_, error.message()));
    NERF_RETURN_IF_ERROR(blobs.DownloadToFile(file.blob, path, session_.stop()));
    fetched_.insert(path);
  }
  return absl::OkStatus();
}

}  // namespace nerf
