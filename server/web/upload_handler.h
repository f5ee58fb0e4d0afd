#pragma once

#include <memory>

#include "server/web/blob_path.h"
#include "server/web/http_exchange.h"
#include "server/web/upstream_call.h"

namespace nerf {

// Answers HEAD and PATCH of an upload's name as the core protocol of tus 1.0 has it: HEAD tells the
// offset that the server holds, PATCH sends the bytes from there on. The last byte finishes the
// upload: the digest is checked then. Through ByteStream.QueryWriteStatus and ByteStream.Write, one
// message of 256 KiB in flight. What came before a cut is kept. Exchange and upstream outlive the
// handler.
std::unique_ptr<HttpHandler> MakeUploadHandler(const BlobPath& blob, HttpExchange* exchange,
                                               Upstream* upstream);

// The answer to OPTIONS of an upload's name: versions of tus.
HttpHeaders TusHeaders();

}  // namespace nerf
