#include "server/rpc/convert/kept_crop.h"

#include "server/queue/jobs/model_source.h"

namespace nerf {

std::string KeptCrop(bool has_box, const v1::CropBox& box) {
  if (!has_box) return "";
  v1::CropBox kept = box;
  kept.DiscardUnknownFields();
  return kept.SerializeAsString();
}

void UseKeptCrop(const std::string& kept, v1::ViewStyle* style) {
  if (!kept.empty() && !style->has_crop() && !style->whole()) *style->mutable_crop() = BoxOf(kept);
}

}  // namespace nerf
