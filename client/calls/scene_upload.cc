#include "client/calls/scene_upload.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <ostream>
#include <set>
#include <thread>

#include "client/calls/paging.h"
#include "client/calls/session.h"
#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/show/progress_display.h"
#include "common/counted.h"
#include "common/error_reason.h"
#include "common/files/nearest_path.h"
#include "common/messages/blob_ref.h"
#include "common/mutex.h"
#include "common/rpc/blob_client.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/scene/read/check_report.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"
#include "nerf/v1/scene_service.grpc.pb.h"

namespace nerf {
namespace {

constexpr size_t kMaxPathBytes = 512;
constexpr size_t kMaxNamedFiles = 8;
constexpr int kParallelUploads = 4;
// A CreateScene with more files would exceed the limit of 4 MiB for messages.
constexpr size_t kMaxFiles = 20'000;

// Calls work(i) for i below n on up to n_threads threads until one fails or `stop` is requested.
// Returns the first failure.
absl::Status ForEach(size_t n, int n_threads, std::stop_token stop,
                     const std::function<absl::Status(size_t)>& work) {
  std::atomic<size_t> next = 0;
  Mutex mutex;
  absl::Status failure;
  std::atomic<bool> failed = false;
  const auto run = [&] {
    for (size_t i = next++; i < n && !failed && !stop.stop_requested(); i = next++) {
      absl::Status status = work(i);
      if (status.ok()) continue;
      MutexLock lock(mutex);
      if (failure.ok()) failure = std::move(status);
      failed = true;
    }
  };
  std::vector<std::jthread> threads;
  const size_t wanted = std::min(n, static_cast<size_t>(std::max(1, n_threads)));
  for (size_t i = 1; i < wanted; ++i) threads.emplace_back(run);
  run();
  threads.clear();
  if (stop.stop_requested()) return absl::CancelledError("interrupted");
  return failure;
}

// The file that a name which was sent stands for.
std::string LocalPath(const std::string& dir, const std::string& sent) {
  const std::filesystem::path path = std::filesystem::path(dir) / sent;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path.string();
  std::string name;
  for (size_t i = 0; i < sent.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < sent.size() ? std::string_view("0123456789ABCDEF").find(sent[at])
                              : std::string_view::npos;
    };
    const size_t high = sent[i] == '%' ? digit(i + 1) : std::string_view::npos, low = digit(i + 2);
    if (high != std::string_view::npos && low != std::string_view::npos) {
      name += static_cast<char>(16 * high + low);
      i += 2;
    } else {
      name += sent[i];
    }
  }
  return (std::filesystem::path(dir) / name).string();
}

}  // namespace

std::string SentName(std::string_view file) {
  if (PlainText(file) == file) return std::string(file);
  std::string sent;
  for (const char c : file) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte > 0x20 && byte < 0x7f && c != '%';
    sent += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return sent;
}

absl::StatusOr<std::vector<std::string>> ListSceneFiles(const SceneDescription& description) {
  std::set<std::string> files;
  files.insert(description.list_files.begin(), description.list_files.end());
  for (const auto* views : {&description.train, &description.test}) {
    for (const ViewDescription& view : *views) {
      files.insert(view.file);
      if (!view.mask_file.empty()) files.insert(view.mask_file);
      if (!view.depth.file.empty()) files.insert(view.depth.file);
    }
  }
  std::string refused;
  size_t n_refused = 0;
  for (const std::string& file : files) {
    if (SentName(file).size() <= kMaxPathBytes || n_refused++ >= kMaxNamedFiles) continue;
    refused += fmt::format("{}{}", refused.empty() ? "" : ", ", PlainText(file.substr(0, 80)));
  }
  if (n_refused > 0) {
    return absl::InvalidArgumentError(fmt::format("{} file names are longer than {} bytes: {}",
                                                  n_refused, kMaxPathBytes, refused));
  }
  if (files.size() > kMaxFiles) {
    return absl::InvalidArgumentError(
        fmt::format("{} files, more than the {} that a scene may have", files.size(), kMaxFiles));
  }
  return std::vector<std::string>(files.begin(), files.end());
}

absl::StatusOr<std::vector<v1::SceneFile>> HashSceneFiles(const std::string& dir,
                                                          const std::vector<std::string>& files,
                                                          std::stop_token stop) {
  std::vector<v1::SceneFile> hashed(files.size());
  const int n_threads = static_cast<int>(std::thread::hardware_concurrency());
  const auto hash = [&](size_t i) -> absl::Status {
    NERF_ASSIGN_OR_RETURN(v1::BlobRef blob,
                          BlobOfFile((std::filesystem::path(dir) / files[i]).string()));
    hashed[i].set_path(SentName(files[i]));
    *hashed[i].mutable_blob() = std::move(blob);
    return absl::OkStatus();
  };
  NERF_RETURN_IF_ERROR(ForEach(files.size(), n_threads, stop, hash));
  return hashed;
}

absl::StatusOr<UploadCounts> UploadMissingFiles(Session& session, const std::string& dir,
                                                const std::vector<v1::SceneFile>& files) {
  // Files with the same content share a blob.
  std::map<std::string, const v1::SceneFile*> by_digest;
  for (const v1::SceneFile& file : files) by_digest.emplace(file.blob().sha256(), &file);
  std::vector<v1::BlobRef> blobs;
  for (const auto& [digest, file] : by_digest) blobs.push_back(file->blob());

  std::vector<v1::BlobRef> missing;
  NERF_RETURN_IF_ERROR(session.RideOut([&]() -> absl::Status {
    NERF_ASSIGN_OR_RETURN(missing, session.Blobs().FindMissing(blobs, session.stop()));
    return absl::OkStatus();
  }));
  BlobClient client = session.Blobs();
  UploadCounts counts{.files = blobs.size(), .files_sent = missing.size()};
  for (const v1::BlobRef& blob : missing) counts.bytes_sent += blob.size_bytes();
  if (missing.empty()) return counts;

  Mutex mutex;
  ProgressDisplay display(session.io(), session.flags().progress);
  double bytes_done = 0;
  size_t files_done = 0;
  std::vector<double> sent(missing.size(), 0);
  const auto show = [&](size_t i, double bytes, bool done) {
    MutexLock lock(mutex);
    bytes_done += bytes - sent[i];
    sent[i] = bytes;
    files_done += done;
    display.Update(
        {.fraction = counts.bytes_sent > 0 ? bytes_done / counts.bytes_sent : 1,
         .label = fmt::format("upload  {}/{} files", files_done, missing.size()),
         .details =
             fmt::format("{} of {}", FormatBytes(bytes_done), FormatBytes(counts.bytes_sent)),
         .json = fmt::format(R"({{"event":"upload","bytes":{:.0f},"totalBytes":{:.0f}}})",
                             bytes_done, counts.bytes_sent)});
  };
  const auto upload = [&](size_t i) -> absl::Status {
    const v1::BlobRef& blob = missing[i];
    const auto file = by_digest.find(blob.sha256());
    if (file == by_digest.end()) {
      return absl::InternalError("the server reports a missing blob that was not in the request");
    }
    if (session.TimeLeft() <= absl::ZeroDuration()) {
      return session.TimeIsOver("while files were being sent");
    }
    absl::Status uploaded =
        client.UploadFile(LocalPath(dir, file->second->path()), blob, session.stop(),
                          [&](uint64_t bytes) { show(i, static_cast<double>(bytes), false); });
    if (uploaded.ok()) show(i, blob.size_bytes(), true);
    return uploaded;
  };
  NERF_RETURN_IF_ERROR(ForEach(missing.size(), kParallelUploads, session.stop(), upload));
  display.Finish();
  return counts;
}

absl::Status RequireFolder(const Source& source) {
  switch (source.kind) {
    case Source::Kind::kMissing:
      return NoSuchFolder(source.path);
    case Source::Kind::kPhotographs:
    case Source::Kind::kFolder:
      return absl::OkStatus();
    case Source::Kind::kFile:
    case Source::Kind::kFilm:
      break;
  }
  const std::string folder = std::filesystem::path(source.path).parent_path().string();
  return absl::InvalidArgumentError(
      PlainText(fmt::format("{} is a file; name the folder that holds the pictures, such as {}",
                            source.path, folder.empty() ? "." : ShellWord(folder))));
}

int FailFolder(Session& session, const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? session.FailUsage(status) : session.Fail(status);
}

std::string FolderName(const std::string& dir) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(dir, error);
  if (error) return "";
  return PlainText(path.filename().string().substr(0, 64));
}

void SuggestPosing(const Session& session, const Source& source) {
  if (!source.HasNoPoses()) return;
  const std::string photos = ShellWord(source.path);
  session.SayNext(PlainText(
      source.was_posed
          ? fmt::format("nerfctl train {}   (their poses were found before: {})", photos,
                        ShellWord(source.posed))
          : fmt::format("nerfctl train {}   (finds where the photographs were taken, then trains)",
                        photos)));
}

SceneReading ReadingOf(const google::protobuf::Map<std::string, std::string>& settings) {
  TrainConfig config;
  for (const char* key : {"poses", "apply_exif"}) {
    const auto found = settings.find(key);
    if (found != settings.end()) SetConfigField(key, found->second, &config).IgnoreError();
  }
  return {config.poses, config.apply_exif != 0};
}

SceneOptions LocalSceneOptions(std::optional<int> test_every, const SceneReading& reading) {
  SceneOptions options;
  options.reading = reading;
  options.test_every = test_every;
  options.follow_links = true;
  options.to_train = true;
  return options;
}

absl::StatusOr<SceneDescription> CheckLocalScene(Session& session, const std::string& dir,
                                                 std::optional<int> test_every,
                                                 const std::string& background,
                                                 const SceneReading& reading) {
  SceneDescription description = DescribeScene(dir, LocalSceneOptions(test_every, reading));
  const std::string report = CheckReportText(description, background);
  if (!description.ok()) {
    for (std::string_view rest = report; !rest.empty();) {
      const size_t end = rest.find('\n');
      session.SayError(rest.substr(0, end));
      rest.remove_prefix(std::min(end, rest.size() - 1) + 1);
    }
    SuggestPosing(session, SourceAt(dir));
    return WithReason(
        absl::InvalidArgumentError(fmt::format("{}: {} in the data set; nothing was sent", dir,
                                               Counted(description.problems.size(), "problem"))),
        reason::kDatasetInvalid);
  }
  session.Say(std::string_view(report).substr(0, report.size() - 1));
  return description;
}

absl::StatusOr<std::vector<v1::SceneFile>> ManifestOf(Session& session, const std::string& dir,
                                                      const SceneDescription& description) {
  NERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListSceneFiles(description));
  return HashSceneFiles(dir, names, session.stop());
}

absl::StatusOr<std::optional<v1::Scene>> FindSceneOfFiles(Session& session,
                                                          const std::vector<v1::SceneFile>& files) {
  double size_bytes = 0;
  for (const v1::SceneFile& file : files) size_bytes += file.blob().size_bytes();
  const auto stub = session.Stub<v1::SceneService>();
  // Listings leave out the files, so only scenes of the same size are fetched.
  NERF_ASSIGN_OR_RETURN(const auto scenes,
                        (ListAll<v1::Scene, v1::ListScenesRequest>(
                            session, *stub, &v1::SceneService::Stub::ListScenes, /*limit=*/0,
                            [](auto& page) { return page.mutable_scenes(); })));
  for (auto listed = scenes.rbegin(); listed != scenes.rend(); ++listed) {
    if (listed->size_bytes() != size_bytes) continue;
    v1::GetSceneRequest request;
    request.set_name(listed->name());
    absl::StatusOr<v1::Scene> scene =
        session.Call(*stub, &v1::SceneService::Stub::GetScene, request);
    if (absl::IsNotFound(scene.status())) continue;  // deleted meanwhile
    NERF_RETURN_IF_ERROR(scene.status());
    const bool same =
        std::equal(scene->files().begin(), scene->files().end(), files.begin(), files.end(),
                   [](const v1::SceneFile& a, const v1::SceneFile& b) {
                     return a.path() == b.path() && a.blob().sha256() == b.blob().sha256();
                   });
    if (same) return std::optional<v1::Scene>(*std::move(scene));
  }
  return std::optional<v1::Scene>();
}

absl::StatusOr<v1::Scene> CreateSceneFromFolder(Session& session, const SceneUpload& upload,
                                                const std::vector<v1::SceneFile>& files) {
  v1::CreateSceneRequest request;
  NERF_ASSIGN_OR_RETURN(const std::string parent, ProjectName(session.flags().project));
  request.set_parent(parent);
  request.set_scene_id(upload.id);
  request.set_request_id(upload.request_id);
  request.mutable_scene()->set_display_name(upload.display_name);
  for (const v1::SceneFile& file : files) *request.mutable_scene()->add_files() = file;

  const auto stub = session.Stub<v1::SceneService>();
  absl::StatusOr<v1::Scene> scene = absl::UnknownError("");
  for (int attempt = 0; attempt < 2; ++attempt) {
    NERF_ASSIGN_OR_RETURN(const UploadCounts counts,
                          UploadMissingFiles(session, upload.dir, files));
    session.Say(counts.files_sent == 0
                    ? fmt::format("all {} files are on the server already", counts.files)
                    : fmt::format("sent {} of {}, {}", counts.files_sent,
                                  Counted(counts.files, "file"), FormatBytes(counts.bytes_sent)));
    scene = session.Call(*stub, &v1::SceneService::Stub::CreateScene, request);
    // The server may have collected a blob between the check and the create.
    const std::optional<ErrorReason> why = GetReason(scene.status());
    if (!why.has_value() || why->reason != reason::kBlobsMissing) break;
  }
  return scene;
}

}  // namespace nerf
