#include "server/rpc/convert/render_reply.h"

#include <fmt/format.h>

#include "common/status_macros.h"
#include "server/rpc/convert/convert_common.h"

namespace nerf {

absl::Status FillRenderResponse(const BrokerReply& reply, bool in_blobs, BlobStore& blobs,
                                v1::RenderImageResponse* response) {
  if (!response->ParseFromString(reply.bytes)) {
    response->Clear();
    return absl::InternalError(fmt::format("worker {} sent no image", reply.worker));
  }
  response->set_worker(WorkerName(reply.worker));
  size_t n_bytes = 0;
  for (const v1::RenderedImage& image : response->images()) n_bytes += image.content().size();
  for (v1::RenderedImage& image : *response->mutable_images()) {
    image.clear_blob();  // only this server names blobs
    if (!in_blobs && n_bytes <= kMaxInlineImageBytes) continue;
    NERF_ASSIGN_OR_RETURN(const BlobRef blob, blobs.Put(image.content(), Uploader::kClient));
    *image.mutable_blob() = ToProto(blob);
    image.clear_content();
  }
  return absl::OkStatus();
}

}  // namespace nerf
