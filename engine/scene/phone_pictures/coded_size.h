#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "engine/scene/pictures/image_io.h"

namespace nerf {

// Makes sure that decoding the primary picture of a HEIF file, or its alpha, works on little more
// pixels than `header` states: libheif decodes what the bitstreams say before it compares. Reads
// the sequence headers of HEVC (H.265 7.3.2.2) and AV1 (5.5.1) where they are stated and among the
// pixels, counts the pictures of a stream and the tiles of a grid. InvalidArgument if it is more,
// if the file is damaged, or if its picture is made of others in another way than a grid.
absl::Status CheckCodedSize(std::string_view heif, const ImageHeader& header);

}  // namespace nerf
