#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "nerf/v1/render_service.pb.h"
#include "server/rpc/calls/request_broker.h"
#include "server/store/blob_store.h"

namespace nerf {

// Images of one view that have more bytes than this in all are sent as blobs, because a message
// holds at most 4 MiB.
inline constexpr size_t kMaxInlineImageBytes = size_t{3} << 20;

// Fills the response from a worker's reply. Moves the images into blobs where `in_blobs` is set or
// they are too large for a message. Nothing names these blobs, so they are collected after
// BlobStoreOptions::collect_grace. Errors: Internal for a reply that cannot be read; those of
// BlobStore::Put.
absl::Status FillRenderResponse(const BrokerReply& reply, bool in_blobs, BlobStore& blobs,
                                v1::RenderImageResponse* response);

}  // namespace nerf
