#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "server/queue/blob_ref.h"

namespace nerf {

// "blobs/{sha256}/{size}".
std::string BlobName(const BlobRef& blob);

// FailedPrecondition BLOBS_MISSING that names every one of `blobs` that is not here.
absl::Status RequireBlobs(BlobIndex& index, std::span<const BlobRef> blobs);

}  // namespace nerf
