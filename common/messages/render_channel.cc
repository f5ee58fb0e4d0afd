#include "common/messages/render_channel.h"

namespace nerf {

std::string_view ChannelWord(v1::RenderChannel channel) {
  switch (channel) {
    case v1::DEPTH:
      return "depth";
    case v1::OPACITY:
      return "opacity";
    case v1::RGBA:
      return "rgba";
    case v1::RGBAZ:
      return "rgbaz";
    default:
      return "rgb";
  }
}

}  // namespace nerf
