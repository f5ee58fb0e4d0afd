#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "google/protobuf/map.h"
#include "nerf/v1/scene_service.pb.h"

namespace nerf {

class Session;

// The name of a file in the API, whose names are UTF-8 without control characters: the name itself,
// or with its other bytes as in URLs ("%B5%E5_1.jpg"). The reader of data sets takes the one for
// the other.
std::string SentName(std::string_view file);

// The files that the reader of a data set uses, relative to the folder, sorted: transforms files or
// COLMAP's cameras and images, and the images of all views. Errors: InvalidArgument that lists the
// names that the API refuses (too long).
absl::StatusOr<std::vector<std::string>> ListSceneFiles(const SceneDescription& description);

// The files by their SentName with their digests, computed on all cores. Errors: those of the file
// system; Cancelled.
absl::StatusOr<std::vector<v1::SceneFile>> HashSceneFiles(const std::string& dir,
                                                          const std::vector<std::string>& files,
                                                          std::stop_token stop);

struct UploadCounts {
  size_t files = 0;       // files with distinct content
  size_t files_sent = 0;  // those that the server did not hold
  double bytes_sent = 0;
};

// Uploads the files that the server does not hold, several at a time, with progress. A broken
// upload resumes at the committed byte. Errors: those of the server; Cancelled.
absl::StatusOr<UploadCounts> UploadMissingFiles(Session& session, const std::string& dir,
                                                const std::vector<v1::SceneFile>& files);

// How a folder of this user is read: symbolic links in it are followed.
SceneOptions LocalSceneOptions(std::optional<int> test_every, const SceneReading& reading = {});

// What the settings poses and apply_exif ask for. Requires: they were checked.
SceneReading ReadingOf(const google::protobuf::Map<std::string, std::string>& settings);

// OK if it is a folder. Errors: InvalidArgument for a file, NotFound.
absl::Status RequireFolder(const Source& source);
// Prints such an error and returns its exit code.
int FailFolder(Session& session, const absl::Status& status);

// The last part of the folder's absolute path as a display name; works for "." and "..", too.
std::string FolderName(const std::string& dir);

// Suggests the command that finds the poses of photographs or a film, or names those that were
// found before; otherwise does nothing.
void SuggestPosing(const Session& session, const Source& source);

// Reads the data set and prints a summary. Requires: it is a folder. Errors:
// InvalidArgument DATASET_INVALID after printing all problems. Nothing was sent then.
absl::StatusOr<SceneDescription> CheckLocalScene(Session& session, const std::string& dir,
                                                 std::optional<int> test_every,
                                                 const std::string& background = "auto",
                                                 const SceneReading& reading = {});

// The files of a checked folder with their digests. Errors: as ListSceneFiles and HashSceneFiles.
absl::StatusOr<std::vector<v1::SceneFile>> ManifestOf(Session& session, const std::string& dir,
                                                      const SceneDescription& description);

// The oldest scene of the project with exactly these files; nullopt if there is none. The oldest,
// so that repeating a command finds the same scene.
absl::StatusOr<std::optional<v1::Scene>> FindSceneOfFiles(Session& session,
                                                          const std::vector<v1::SceneFile>& files);

struct SceneUpload {
  std::string dir;
  std::string display_name;
  std::string id;          // empty: the server makes one
  std::string request_id;  // UUID4
};

// Uploads the files of upload.dir and creates a scene of them. Blobs that the server collects in
// between are sent once more.
absl::StatusOr<v1::Scene> CreateSceneFromFolder(Session& session, const SceneUpload& upload,
                                                const std::vector<v1::SceneFile>& files);

}  // namespace nerf
