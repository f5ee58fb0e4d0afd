#include "worker/runs/render/movie_maker.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <system_error>

#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/files/spherical_boxes.h"
#include "common/logging.h"
#include "common/process/child_failure.h"
#include "common/process/child_process.h"
#include "common/status_macros.h"
#include "worker/base/call_result.h"

namespace nerf {
namespace {

constexpr char kFfmpeg[] = "ffmpeg";
constexpr size_t kMaxFrameBytes = size_t{1} << 30;
// A frame whose sides were odd would not fit yuv420p.
constexpr char kEvenSides[] = "pad=ceil(iw/2)*2:ceil(ih/2)*2";

ChildProcessSpec FfmpegFor(const std::string& input_codec, double fps, bool alpha,
                           const std::string& path, uint64_t max_data_bytes) {
  ChildProcessSpec spec;
  spec.max_memory_bytes = max_data_bytes;
  if (alpha) {
    // Hidden frames have no alpha.
    spec.arguments = {kFfmpeg,
                      "-hide_banner",
                      "-loglevel",
                      "error",
                      "-f",
                      "image2pipe",
                      "-framerate",
                      fmt::format("{:g}", fps),
                      "-c:v",
                      input_codec,
                      "-i",
                      "pipe:0",
                      "-vf",
                      fmt::format("{}:color=black@0", kEvenSides),
                      "-c:v",
                      "libvpx-vp9",
                      "-crf",
                      "20",
                      "-b:v",
                      "0",
                      "-row-mt",
                      "1",
                      "-pix_fmt",
                      "yuva420p",
                      "-auto-alt-ref",
                      "0",
                      "-y",
                      path};
    return spec;
  }
  spec.arguments = {kFfmpeg,      "-hide_banner",
                    "-loglevel",  "error",
                    "-f",         "image2pipe",
                    "-framerate", fmt::format("{:g}", fps),
                    "-c:v",       input_codec,
                    "-i",         "pipe:0",
                    "-vf",        kEvenSides,
                    "-c:v",       "libx264",
                    "-preset",    "medium",
                    "-crf",       "18",
                    "-pix_fmt",   "yuv420p",
                    "-movflags",  "+faststart",
                    "-y",         path};
  return spec;
}

// Feeds ffmpeg with what `next` returns for 0, 1, ... up to `n_frames`.
absl::Status Encode(const ChildProcessSpec& spec, int n_frames,
                    const std::function<absl::StatusOr<std::string>(int)>& next,
                    const std::stop_token& stop) {
  NERF_ASSIGN_OR_RETURN(ChildProcess ffmpeg, ChildProcess::Start(spec, /*has_input=*/true));
  absl::Status fed;
  for (int i = 0; i < n_frames && fed.ok(); ++i) {
    NERF_ASSIGN_OR_RETURN(const std::string frame, next(i));
    fed = ffmpeg.Write(frame, stop);
  }
  if (absl::IsCancelled(fed)) return fed;
  const ChildProcessEnd end = ffmpeg.Wait([](std::string_view) {}, [] {}, stop);
  if (end.kind == ChildProcessEnd::Kind::kStopped) return absl::CancelledError("stopped");
  const absl::Status failure = FailureOf("ffmpeg", "making a movie", end);
  const auto why = GetReason(failure);
  if (why.has_value() && why->reason == reason::kStoreReadOnly) return AsOwnError(failure);
  if (!end.ok() || !fed.ok()) {
    return absl::InternalError(fmt::format("ffmpeg failed: {}", end.last_output));
  }
  return absl::OkStatus();
}

}  // namespace

bool CanMakeMovies(const std::string& folder, uint64_t max_data_bytes) {
  if (!FindProgram(kFfmpeg).ok()) return false;
  const std::string path = folder + "/ffmpeg-check.mp4";
  // Two pictures of 2x2 pixels.
  const std::string ppm = std::string("P6 2 2 255\n") + std::string(12, '\x7f');
  const absl::Status made = Encode(FfmpegFor("ppm", 30, /*alpha=*/false, path, max_data_bytes), 2,
                                   [&](int) -> absl::StatusOr<std::string> { return ppm; }, {});
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (!made.ok()) LogWarning("ffmpeg cannot make movies", {{"error", made.ToString()}});
  return made.ok();
}

absl::Status MakeMovie(const v1::MovieTask& task, const std::string& path, uint64_t max_data_bytes,
                       BlobCache& cache, const std::stop_token& stop) {
  NERF_RETURN_IF_ERROR(Encode(
      FfmpegFor("png", task.fps(), task.alpha(), path, max_data_bytes), task.frames_size(),
      [&](int i) -> absl::StatusOr<std::string> {
        const v1::BlobRef& blob = task.frames(i);
        const auto file = cache.Fetch(blob, /*pin=*/true, stop);
        if (!file.ok()) return AsLostBlob(file.status());
        auto bytes = ReadFile(*file, kMaxFrameBytes);
        cache.Unpin(blob.sha256());
        return bytes;
      },
      stop));
  if (task.alpha() || !task.has_panorama()) return absl::OkStatus();
  return AddSphericalBoxes(path, static_cast<StereoBox>(task.panorama().stereo()));
}

}  // namespace nerf
