#pragma once

#include <google/protobuf/repeated_field.h>

#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/files/blob_cache.h"

namespace nerf {

using SceneManifest = google::protobuf::RepeatedPtrField<v1::SceneManifestEntry>;

// OK for a path that stays inside a scene's folder: relative, '/' between parts, no '.', '..' or
// empty part, no control character or backslash, at most 512 bytes. InvalidArgument otherwise.
absl::Status CheckScenePath(std::string_view path);

// Fetches every blob of a manifest and lays the files out under `folder` (which must not exist) as
// hard links into the cache. Errors: InvalidArgument for a bad path or one that two files need;
// those of BlobCache::Fetch, naming the file.
absl::Status LayOutScene(const SceneManifest& files, const std::string& folder, BlobCache& cache,
                         std::stop_token stop);

// Creates a folder and its parents. Errors: InvalidArgument if a file has one of their names;
// ResourceExhausted WORKER_EXHAUSTED without room; Internal.
absl::Status MakeFolders(const std::string& folder);

// Links `source` as `target`, or copies if the file system cannot link. Errors: InvalidArgument
// if it exists; ResourceExhausted WORKER_EXHAUSTED without room; Internal.
absl::Status LinkFile(const std::string& source, const std::string& target);

// `text` of an engine that works in `folder` with that folder's name and its scene's left out: the
// paths of this machine mean nothing to whoever sent the scene.
std::string WithoutFolder(const std::string& text, const std::string& folder);
// `text` with absolute paths cut to their last part. For words of programs, such as COLMAP's.
std::string WithoutPaths(std::string_view text);
// The same error with such a message; an internal one has no paths.
absl::Status WithoutFolder(const absl::Status& error, const std::string& folder);

// The canonical form of `path` if it is a regular file, no link, inside `folder`. Paths from the
// engine are not trusted, because it reads untrusted files. Errors: PermissionDenied.
absl::StatusOr<std::string> CheckInsideFolder(const std::string& folder, const std::string& path);

}  // namespace nerf
