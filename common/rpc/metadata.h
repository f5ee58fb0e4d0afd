#pragma once

namespace nerf {

// Metadata of a worker's calls: the key that its id is bound to.
inline constexpr char kWorkerKeyMetadata[] = "nerf-worker-key";

}  // namespace nerf
