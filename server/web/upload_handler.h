#pragma once

#include <memory>

#include "server/web/blob_path.h"
#include "server/web/http_exchange.h"
#include "server/web/upstream_call.h"

namespace nerf {

// Answers HEAD and PATCH of an upload's name with the core protocol of tus 1.0: HEAD returns the
// server's offset, PATCH appends bytes there. After the last byte the digest is checked and the
// upload is finished. Uses ByteStream.QueryWriteStatus and ByteStream.Write with one message of 256
// KiB in flight. Bytes that arrived before a disconnect are kept. Exchange and upstream outlive the
// handler.
std::unique_ptr<HttpHandler> MakeUploadHandler(const BlobPath& blob, HttpExchange* exchange,
                                               Upstream* upstream);

// Headers of the response to OPTIONS of an upload's name: the supported versions of tus.
HttpHeaders TusHeaders();

}  // namespace nerf
