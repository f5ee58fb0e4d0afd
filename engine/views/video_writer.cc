#include "engine/views/video_writer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/spherical_boxes.h"
#include "common/process/child_failure.h"
#include "common/status_macros.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace nerf {
namespace {

constexpr absl::Duration kAskLimit = absl::Seconds(30), kEncodeLimit = absl::Hours(24);

absl::Status NotBuilt(const std::string& message) {
  return WithReason(absl::UnimplementedError(message), reason::kFeatureNotBuilt);
}

// The best of the encoders that the program has. A missing one would only fail at the last frame.
absl::StatusOr<std::string> EncoderOf(const std::string& program, const std::string& extension,
                                      bool alpha) {
  std::vector<std::string> wanted = {"libx264", "libopenh264", "mpeg4"};
  if (alpha) wanted = {extension == ".webm" ? "libvpx-vp9" : "prores_ks"};
  ChildProcessSpec spec;
  spec.arguments = {program, "-hide_banner", "-nostdin", "-encoders"};
  spec.time_limit = kAskLimit;
  std::vector<bool> found(wanted.size());
  const auto take = [&](std::string_view line) {
    for (size_t i = 0; i < wanted.size(); ++i)
      if (line.find(fmt::format(" {} ", wanted[i])) != std::string_view::npos) found[i] = true;
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, RunChildProcess(spec, take, nullptr, {}));
  NERF_RETURN_IF_ERROR(FailureOf("ffmpeg", "listing its encoders", end));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (found[i]) return wanted[i];
  return NotBuilt(fmt::format("{} has {} {}", program,
                              wanted.size() > 1 ? "none of the encoders" : "no encoder",
                              fmt::join(wanted, ", ")));
}

}  // namespace

absl::Status CheckVideoPath(const std::string& path, const VideoContent& content) {
  const std::string extension = std::filesystem::path(path).extension().string();
  std::vector<std::string_view> known = {".mp4", ".mov", ".mkv"};
  std::string_view why;
  if (content.alpha) {
    known = {".webm", ".mov"};
    why = ", which hold alpha as VP9 and ProRes 4444";
  }
  if (content.panorama.has_value()) {
    known = content.alpha ? std::vector<std::string_view>{".mov"}
                          : std::vector<std::string_view>{".mp4", ".mov"};
    why = ", which say that it is a panorama";
  }
  if (std::find(known.begin(), known.end(), extension) != known.end()) return absl::OkStatus();
  std::string names(known[0]);
  for (size_t i = 1; i < known.size(); ++i)
    names += fmt::format("{}{}", i + 1 < known.size() ? ", " : " or ", known[i]);
  return absl::InvalidArgumentError(fmt::format("--video: {} must end in {}{}", path, names, why));
}

absl::StatusOr<VideoWriter> VideoWriter::Open(const std::string& ffmpeg, const std::string& path,
                                              double frames_per_second,
                                              const VideoContent& content) {
  NERF_RETURN_IF_ERROR(CheckVideoPath(path, content));
  const absl::StatusOr<std::string> program = FindProgram(ffmpeg);
  if (!program.ok()) {
    return NotBuilt(
        fmt::format("{} is not installed, and it makes videos: apt-get install ffmpeg", ffmpeg));
  }
  NERF_ASSIGN_OR_RETURN(
      const std::string encoder,
      EncoderOf(*program, std::filesystem::path(path).extension().string(), content.alpha));
  return VideoWriter(*program, encoder, path, frames_per_second, content);
}

VideoWriter::VideoWriter(std::string ffmpeg, std::string encoder, std::string path,
                         double frames_per_second, const VideoContent& content)
    : ffmpeg_(std::move(ffmpeg)),
      encoder_(std::move(encoder)),
      path_(std::move(path)),
      frames_per_second_(frames_per_second),
      content_(content) {}

VideoWriter::VideoWriter(VideoWriter&& other) noexcept
    : ffmpeg_(std::move(other.ffmpeg_)),
      encoder_(std::move(other.encoder_)),
      path_(std::move(other.path_)),
      partial_path_(std::exchange(other.partial_path_, "")),
      frames_per_second_(other.frames_per_second_),
      content_(other.content_),
      width_(other.width_),
      height_(other.height_),
      process_(std::move(other.process_)) {}

VideoWriter::~VideoWriter() {
  process_.reset();
  std::error_code ignored;
  if (!partial_path_.empty()) std::filesystem::remove(partial_path_, ignored);
}

// Players want even sides and 4:2:0.
std::vector<std::string> VideoWriter::Arguments() const {
  const bool is_vp9 = encoder_ == "libvpx-vp9", is_prores = encoder_ == "prores_ks";
  std::vector<std::string> arguments = {ffmpeg_,
                                        "-hide_banner",
                                        "-v",
                                        "error",
                                        "-y",
                                        "-f",
                                        "rawvideo",
                                        "-pix_fmt",
                                        content_.alpha ? "rgba" : "rgb24",
                                        "-video_size",
                                        fmt::format("{}x{}", width_, height_),
                                        "-framerate",
                                        fmt::format("{:.6g}", frames_per_second_),
                                        "-i",
                                        "pipe:0",
                                        "-vf",
                                        content_.alpha
                                            ? "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=black@0"
                                            : "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                                        "-pix_fmt",
                                        is_prores ? "yuva444p10le"
                                        : is_vp9  ? "yuva420p"
                                                  : "yuv420p",
                                        "-c:v",
                                        encoder_};
  const auto add = [&](std::initializer_list<const char*> more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  if (is_vp9) {
    // Hidden frames have no alpha.
    add({"-crf", "20", "-b:v", "0", "-auto-alt-ref", "0", "-row-mt", "1"});
  } else if (is_prores) {
    add({"-profile:v", "4444", "-alpha_bits", "16"});
  } else if (encoder_ == "libx264") {
    add({"-crf", "18", "-preset", "medium"});
  } else {
    add({"-b:v", "12M"});
  }
  const std::string extension = std::filesystem::path(partial_path_).extension().string();
  if (extension == ".mp4" || extension == ".mov") add({"-movflags", "+faststart"});
  arguments.push_back("file:" + partial_path_);
  return arguments;
}

absl::Status VideoWriter::Add(const ImageU8& frame, const std::stop_token& stop) {
  if (process_ == nullptr) {
    width_ = frame.width;
    height_ = frame.height;
    const std::filesystem::path path = std::filesystem::absolute(path_);
    partial_path_ = (path.parent_path() /
                     fmt::format(".{}.partial{}", path.stem().string(), path.extension().string()))
                        .string();
    ChildProcessSpec spec;
    spec.arguments = Arguments();
    spec.time_limit = kEncodeLimit;
    NERF_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(spec, /*has_input=*/true));
    process_ = std::make_unique<ChildProcess>(std::move(process));
  }
  if (frame.width != width_ || frame.height != height_ ||
      frame.n_channels != (content_.alpha ? 4 : 3)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a frame of {}x{} pixels in a video of {}x{}; --width and --height make "
                    "all views one size",
                    path_, frame.width, frame.height, width_, height_));
  }
  const std::string_view bytes(reinterpret_cast<const char*>(frame.pixels.data()),
                               frame.pixels.size());
  const absl::Status written = process_->Write(bytes, stop);
  if (!absl::IsAborted(written)) return written;
  const ChildProcessEnd end = process_->Wait(nullptr, nullptr, stop);
  process_.reset();
  const absl::Status failure = FailureOf("ffmpeg", "making " + path_, end);
  return failure.ok() ? written : failure;
}

absl::Status VideoWriter::Finish(const std::stop_token& stop) {
  if (process_ == nullptr) return absl::InvalidArgumentError(path_ + ": has no frames");
  const ChildProcessEnd end = process_->Wait(nullptr, nullptr, stop);
  NERF_RETURN_IF_ERROR(FailureOf("ffmpeg", "making " + path_, end));
  if (content_.panorama.has_value()) {
    const auto stereo = static_cast<StereoBox>(*content_.panorama);
    NERF_RETURN_IF_ERROR(AddSphericalBoxes(partial_path_, stereo));
  }
  std::error_code error;
  std::filesystem::rename(partial_path_, path_, error);
  if (error) return ErrnoToStatus(error.value(), "cannot write " + path_);
  partial_path_.clear();
  return absl::OkStatus();
}

}  // namespace nerf
