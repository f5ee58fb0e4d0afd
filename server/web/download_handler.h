#pragma once

#include <memory>

#include "server/web/blob_path.h"
#include "server/web/http_exchange.h"
#include "server/web/upstream_call.h"

namespace nerf {

// Answers GET and HEAD of a blob through ByteStream.Read, with Range and ETag. The content type
// follows from `?filename=NAME`: browsers show images, videos and text, and save anything else. No
// response can run scripts (Content-Security-Policy: sandbox). Exchange and upstream outlive the
// handler.
std::unique_ptr<HttpHandler> MakeDownloadHandler(const BlobPath& blob, HttpExchange* exchange,
                                                 Upstream* upstream);

}  // namespace nerf
