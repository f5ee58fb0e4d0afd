#include "client/calls/job_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/calls/job_calls.h"
#include "client/flags/file_flag.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLookInterval = absl::Milliseconds(250);

// What names of files that jobs make end in.
constexpr std::string_view kFileEndings[] = {".exr",  ".glb", ".html",       ".json", ".mp4",
                                             ".nvdb", ".ply", ".png",        ".txt",  ".vdb",
                                             ".webm", ".zip", ".safetensors"};

std::string EndingOf(const std::string& out) {
  return absl::AsciiStrToLower(fs::path(out).extension().string());
}

// own: the ending of the job's one file, where it is known. Another dot is that of a folder's name.
bool IsFileName(const std::string& out, std::string_view own = "") {
  const std::string ending = EndingOf(out);
  const bool is_ending =
      std::find(std::begin(kFileEndings), std::end(kFileEndings), ending) != std::end(kFileEndings);
  std::error_code ignored;
  return !ending.empty() && (is_ending || ending == own) && !fs::is_directory(out, ignored);
}

}  // namespace

absl::Status CheckJobOut(const std::string& out) {
  if (IsFileName(out)) return CheckFolderOfFile("--out", out);
  std::error_code ignored;
  if (!fs::exists(out, ignored) || fs::is_directory(out, ignored)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--out: {} is a file; name a folder, or a file such as movie.mp4", out));
}

JobFiles::JobFiles(Session& session, std::string out, bool is_file)
    : session_(session), out_(std::move(out)), is_file_(is_file) {}

bool JobFiles::IsFile(const v1::Job& job) const {
  return is_file_ || IsFileName(out_, KindViewOf(job).FileEnding(job));
}

absl::Status JobFiles::Check(const v1::Job& job) const {
  if (!IsFile(job)) return absl::OkStatus();
  const KindView& kind = KindViewOf(job);
  if (kind.OutputOf(job) != JobOutput::kOneFile) {
    return InvalidFieldsError(
        {{"--out", out_ + " is a file's name, and the job makes several files: name a folder"}});
  }
  const std::string own = kind.FileEnding(job);
  if (is_file_ || own.empty() || EndingOf(out_) == own) return absl::OkStatus();
  return InvalidFieldsError(
      {{"--out", fmt::format("{}: the job makes a file that ends in {}", out_, own)}});
}

absl::Status JobFiles::Fetch(const v1::Job& job) {
  NERF_RETURN_IF_ERROR(Check(job));
  const KindView& kind = KindViewOf(job);
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
  const bool is_file = IsFile(whole);
  BlobClient blobs = session_.Blobs(job.name());
  paths_.clear();
  for (const JobFile& file : kind.FilesOf(whole)) {
    // A name from the server leads into no other folder.
    const std::string path =
        is_file ? out_ : (fs::path(out_) / fs::path(file.name).filename()).string();
    paths_.push_back(path);
    if (fetched_.contains(path)) continue;
    std::error_code error;
    if (!is_file) fs::create_directories(out_, error);
    if (error) return absl::InternalError(fmt::format("{}: {}", out_, error.message()));
    NERF_RETURN_IF_ERROR(blobs.DownloadToFile(file.blob, path, session_.stop()));
    fetched_.insert(path);
  }
  return absl::OkStatus();
}

}  // namespace nerf
