#include "engine/program/serve/rendered_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "common/files/file_io.h"
#include "common/messages/render_channel.h"
#include "common/status_macros.h"
#include "engine/program/session/training_session.h"
#include "engine/program/written_views/view_style.h"
#include "engine/program/written_views/view_writer.h"
#include "engine/scene/pictures/exr_codec.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/views/depth_colors.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// The id as part of a file name: other characters than letters, digits, - and _ become _.
std::string FileStem(const std::string& id) {
  std::string stem;
  for (char c : id.substr(0, 64)) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_';
    stem += safe ? c : '_';
  }
  return stem;
}

float LargestOf(const std::vector<float>& depths) {
  float largest = 0;
  for (const float depth : depths) largest = std::max(largest, depth);
  return largest;
}

// Depths as 8-bit gray.
ImageU8 DepthImage(const ViewPicture& view, const std::vector<float>& depths, float far) {
  ImageU8 image{view.rgba.width, view.rgba.height, 1, {}};
  image.pixels.reserve(depths.size());
  for (const uint16_t gray : DepthToGray(depths, far)) {
    image.pixels.push_back(static_cast<uint8_t>((gray + 128) / 257));
  }
  return image;
}

// Without a sync: a picture that the worker has not read is rendered again after a power cut.
absl::Status WriteUnsynced(const std::string& path, const absl::StatusOr<std::string>& bytes) {
  NERF_RETURN_IF_ERROR(bytes.status());
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoToStatus(errno, "create " + path);
  return WriteFully(fd.get(), *bytes, 0, path);
}

// How the pictures of a view are encoded.
struct PictureForm {
  bool live = false, jpeg = false, exr = false;  // else PNG
  int jpeg_quality = 90;
  std::string xmp;
  std::stop_token stop;
};

absl::StatusOr<std::string> EncodeDepth(const ViewPicture& view, const std::vector<float>& depths,
                                        float far, const PictureForm& form) {
  if (form.live) return EncodeJpeg(DepthImage(view, depths, far), form.jpeg_quality);
  if (form.exr) return EncodeExrDepth(view.rgba.width, view.rgba.height, depths, form.stop);
  return EncodePng16(view.rgba.width, view.rgba.height, DepthToGray(depths, far), form.stop);
}

absl::StatusOr<std::string> EncodePicture(const ImageU8& image, bool jpeg, const PictureForm& form,
                                          const std::string& xmp) {
  if (jpeg) return EncodeJpeg(image, form.jpeg_quality, xmp);
  return form.exr ? EncodeExrPicture(image, form.stop) : EncodePng(image, form.stop, xmp);
}

}  // namespace

absl::StatusOr<internal::Rendered> WriteRenderedFiles(
    const ViewPicture& view, const std::string& id, const internal::Render& request,
    const ViewStyle& style, const SeenFrom& seen_from, const std::stop_token& stop) {
  if (stop.stop_requested()) return absl::CancelledError("the render was stopped");
  NERF_RETURN_IF_ERROR(CreateFolder(request.out()));
  PictureForm form;
  form.stop = stop;
  form.live = request.has_live();
  form.jpeg = form.live || request.view().format() == v1::JPEG;
  form.exr = !form.live && request.view().format() == v1::EXR;
  form.xmp = XmpOf(style, view.rgba.width, view.rgba.height);
  if (form.live) form.jpeg_quality = static_cast<int>(request.live().jpeg_quality());
  internal::Rendered rendered;
  const auto write = [&](v1::RenderChannel channel, bool jpeg,
                         const absl::StatusOr<std::string>& bytes) {
    const std::string path =
        fmt::format("{}/{}_{}{}", request.out(), FileStem(id), ChannelWord(channel),
                    jpeg       ? ".jpg"
                    : form.exr ? ".exr"
                               : ".png");
    rendered.mutable_response()->add_images()->set_channel(channel);
    rendered.add_files(path);
    return WriteUnsynced(path, bytes);
  };
  google::protobuf::RepeatedField<int> channels = request.view().channels();
  if (channels.empty()) channels.Add(v1::RGB);
  for (const int number : channels) {
    const auto channel = static_cast<v1::RenderChannel>(number);
    if (channel == v1::DEPTH) {
      const std::vector<float> depths = OwnDepths(view, seen_from.frame.scale);
      const float far = FarOf(LargestOf(depths));
      rendered.mutable_response()->set_far(far);
      NERF_RETURN_IF_ERROR(write(channel, form.live, EncodeDepth(view, depths, far, form)));
    } else if (channel == v1::RGBAZ) {
      if (!form.exr) return absl::InvalidArgumentError("channels: rgbaz is of EXR alone");
      NERF_RETURN_IF_ERROR(write(channel, false, EncodeRgbaz(view, seen_from, stop)));
    } else if (channel == v1::OPACITY) {
      NERF_RETURN_IF_ERROR(write(channel, form.live,
                                 EncodePicture(OpacityImage(view), form.live, form, /*xmp=*/"")));
    } else if (channel == v1::RGBA) {
      if (form.jpeg) return absl::InvalidArgumentError("channels: JPEG cannot hold rgba");
      NERF_RETURN_IF_ERROR(write(channel, false, EncodePicture(view.rgba, false, form, form.xmp)));
    } else {
      NERF_RETURN_IF_ERROR(
          write(channel, form.jpeg, EncodePicture(ColorsOf(view), form.jpeg, form, form.xmp)));
    }
  }
  return rendered;
}

}  // namespace nerf
