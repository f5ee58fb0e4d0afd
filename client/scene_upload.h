#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/scene/scene_reader.h"
#include "nerf/v1/scene_service.pb.h"

namespace nerf {

class Session;

// The files of a data set that its reader uses, relative to the folder, sorted: the transforms
// files or COLMAP's cameras and images, and the pictures of all views. Errors: InvalidArgument for
// names that the API does not take (too long, control characters), all of them in the message.
absl::StatusOr<std::vector<std::string>> ListSceneFiles(const SceneDescription& description);

// Digests of those files, computed on all cores. Errors: those of the file system; Cancelled.
absl::StatusOr<std::vector<v1::SceneFile>> HashSceneFiles(const std::string& dir,
                                                          const std::vector<std::string>& files,
                                                          std::stop_token stop);

struct UploadCounts {
  size_t files = 0;       // distinct contents
  size_t files_sent = 0;  // of those, not there before
  double bytes_sent = 0;
};

// Sends what the server does not hold, several files at a time, and shows how far it is. An upload
// that was cut goes on where it stopped. Errors: those of the server; Cancelled.
absl::StatusOr<UploadCounts> UploadMissingFiles(Session& session, const std::string& dir,
                                                const std::vector<v1::SceneFile>& files);

// OK where `dir` is a folder, NotFound otherwise.
absl::Status RequireFolder(const std::string& dir);

// Reads the data set and prints what it holds. Errors: NotFound without a folder; InvalidArgument
// DATASET_INVALID after printing all problems. Both mean that nothing was sent.
absl::StatusOr<SceneDescription> CheckLocalScene(Session& session, const std::string& dir,
                                                 std::optional<int> test_every,
                                                 const std::string& background = "auto");

// The files of a folder that was checked, with their digests. Errors: as ListSceneFiles and
// HashSceneFiles.
absl::StatusOr<std::vector<v1::SceneFile>> ManifestOf(Session& session, const std::string& dir,
                                                      const SceneDescription& description);

// The oldest scene of the project that holds these files and no others, nullopt where there is
// none. The oldest, so that a command that is repeated finds what it found before.
absl::StatusOr<std::optional<v1::Scene>> FindSceneOfFiles(Session& session,
                                                          const std::vector<v1::SceneFile>& files);

struct SceneUpload {
  std::string dir;
  std::string display_name;
  std::string id;          // empty: the server makes one
  std::string request_id;  // UUID4
};

// Uploads the files of upload.dir and creates a scene of them. Files that vanish on the server
// meanwhile are sent once more.
absl::StatusOr<v1::Scene> CreateSceneFromFolder(Session& session, const SceneUpload& upload,
                                                const std::vector<v1::SceneFile>& files);

}  // namespace nerf
