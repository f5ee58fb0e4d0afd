#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

inline constexpr size_t kMaxSceneFiles = 20'000;
inline constexpr size_t kMaxScenePathLength = 512;  // bytes
inline constexpr size_t kMaxScenePathDepth = 16;
inline constexpr uint64_t kMaxSceneFileSize = uint64_t{1} << 32;

// Checks a manifest: file count; every path relative, UTF-8, with '/' between parts and no '.',
// '..', empty part, backslash or control character, within the limits above; no path twice, and
// none that is also the folder of another; digests well-formed, sizes within the limit.
// InvalidArgument FIELD_INVALID that lists every problem with its place ("files[3].path").
absl::Status CheckManifest(const std::vector<SceneFileRecord>& files);

}  // namespace nerf
