#include "engine/views/video_writer.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/child_failure.h"
#include "common/error_reason.h"
#include "common/file_io.h"
#include "common/status_macros.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr absl::Duration kAskLimit = absl::Seconds(30), kEncodeLimit = absl::Hours(24);

absl::Status NotBuilt(const std::string& message) {
  return WithReason(absl::UnimplementedError(message), reason::kFeatureNotBuilt);
}

// The best of the encoders that the program has. A missing one would only fail at the last frame.
absl::StatusOr<std::string> EncoderOf(const std::string& program) {
  ChildProcessSpec spec;
  spec.arguments = {program, "-hide_banner", "-nostdin", "-encoders"};
  spec.time_limit = kAskLimit;
  bool has_x264 = false, has_openh264 = false, has_mpeg4 = false;
  const auto take = [&](std::string_view line) {
    has_x264 |= line.find(" libx264 ") != std::string_view::npos;
    has_openh264 |= line.find(" libopenh264 ") != std::string_view::npos;
    has_mpeg4 |= line.find(" mpeg4 ") != std::string_view::npos;
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, RunChildProcess(spec, take, nullptr, {}));
  NERF_RETURN_IF_ERROR(FailureOf("ffmpeg", "listing its encoders", end));
  if (has_x264) return "libx264";
  if (has_openh264) return "libopenh264";
  if (has_mpeg4) return "mpeg4";
  return NotBuilt(fmt::format("{} has none of the encoders libx264, libopenh264, mpeg4", program));
}

}  // namespace

absl::Status CheckVideoPath(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".mp4" || extension == ".mov" || extension == ".mkv") return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--video: {} must end in .mp4, .mov or .mkv", path));
}

absl::StatusOr<VideoWriter> VideoWriter::Open(const std::string& ffmpeg, const std::string& path,
                                              double frames_per_second) {
  NERF_RETURN_IF_ERROR(CheckVideoPath(path));
  const absl::StatusOr<std::string> program = FindProgram(ffmpeg);
  if (!program.ok()) {
    return NotBuilt(
        fmt::format("{} is not installed, and it makes videos: apt-get install ffmpeg", ffmpeg));
  }
  NERF_ASSIGN_OR_RETURN(const std::string encoder, EncoderOf(*program));
  return VideoWriter(*program, encoder, path, frames_per_second);
}

VideoWriter::VideoWriter(std::string ffmpeg, std::string encoder, std::string path,
                         double frames_per_second)
    : ffmpeg_(std::move(ffmpeg)),
      encoder_(std::move(encoder)),
      path_(std::move(path)),
      frames_per_second_(frames_per_second) {}

VideoWriter::VideoWriter(VideoWriter&& other) noexcept
    : ffmpeg_(std::move(other.ffmpeg_)),
      encoder_(std::move(other.encoder_)),
      path_(std::move(other.path_)),
      partial_path_(std::exchange(other.partial_path_, "")),
      frames_per_second_(other.frames_per_second_),
      width_(other.width_),
      height_(other.height_),
      process_(std::move(other.process_)) {}

VideoWriter::~VideoWriter() {
  process_.reset();
  std::error_code ignored;
  if (!partial_path_.empty()) std::filesystem::remove(partial_path_, ignored);
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
    spec.arguments = {ffmpeg_, "-hide_banner", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt",
                      "rgb24", "-video_size", fmt::format("{}x{}", width_, height_), "-framerate",
                      fmt::format("{:.6g}", frames_per_second_), "-i", "pipe:0",
                      // Players want even sides and 4:2:0.
                      "-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-c:v",
                      encoder_};
    if (encoder_ == "libx264") {
      spec.arguments.insert(spec.arguments.end(), {"-crf", "18", "-preset", "medium"});
    } else {
      spec.arguments.insert(spec.arguments.end(), {"-b:v", "12M"});
    }
    if (path.extension() != ".mkv") {
      spec.arguments.insert(spec.arguments.end(), {"-movflags", "+faststart"});
    }
    spec.arguments.push_back("file:" + partial_path_);
    spec.time_limit = kEncodeLimit;
    NERF_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(spec, /*has_input=*/true));
    process_ = std::make_unique<ChildProcess>(std::move(process));
  }
  if (frame.width != width_ || frame.height != height_ || frame.n_channels != 3) {
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
  std::error_code error;
  std::filesystem::rename(partial_path_, path_, error);
  if (error) return ErrnoToStatus(error.value(), "cannot write " + path_);
  partial_path_.clear();
  return absl::OkStatus();
}

}  // namespace nerf
