#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nerf {

// Moves the bytes of a blob by a URL that the server has signed (BlobService.SignBlobUrl). One try,
// without redirects; whoever fails moves the bytes through the server instead. Both block.
//
// Common errors: Unavailable with the reason, also for an answer that is no success; Cancelled.

// Sends what is there to `sink` in order, whose error ends it and is returned.
absl::Status ReadSigned(const std::string& url,
                        const std::function<absl::Status(std::string_view bytes)>& sink,
                        const std::stop_token& stop);

// Puts `byte_size` bytes of `source`, whose error is returned. `headers` are lines.
absl::Status WriteSigned(
    const std::string& url, const std::vector<std::string>& headers, uint64_t byte_size,
    const std::function<absl::StatusOr<std::string>(uint64_t offset, size_t max_bytes)>& source,
    const std::stop_token& stop);

// False for some minutes after a place of signed URLs could not be reached from this process:
// each further try would take seconds.
bool MayReachSigned();

}  // namespace nerf
