#include "engine/pose/film.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/child_failure.h"
#include "common/child_process.h"
#include "common/error_reason.h"
#include "common/status_macros.h"
#include "engine/pose/colmap_tool.h"
#include "engine/pose/photo_measures.h"
#include "engine/scene/image_io.h"
#include "engine/scene/scene_files.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kCandidates = 3;      // frames decoded per extracted picture
constexpr int kMaxSide = 1920;      // of a frame; phone videos have no finer detail
constexpr double kDefaultRate = 6;  // frames per second if the length of the film is unknown
constexpr int kSharpnessSide = 640;
constexpr absl::Duration kProbeLimit = absl::Seconds(60), kDecodeLimit = absl::Hours(2);
constexpr uint64_t kMaxFrameBytes = uint64_t{64} << 20;

// Allows no other protocol and no playlist, because the file is untrusted: it must not open
// connections or other files.
const std::vector<std::string> kFilesOnly = {"-protocol_whitelist", "file,pipe",
                                             "-format_whitelist",
                                             "mov,mp4,matroska,webm,avi,mpegts,mpeg,flv"};

std::string Url(const std::string& path) {
  std::error_code ignored;
  return "file:" + fs::absolute(path, ignored).string();
}

absl::StatusOr<std::string> Installed(const std::string& program) {
  absl::StatusOr<std::string> path = FindProgram(program);
  if (path.ok()) return path;
  return WithReason(absl::UnimplementedError(absl::StrCat(
                        program,
                        " is not installed, and it reads films: apt-get install ffmpeg, or hand in "
                        "single pictures")),
                    reason::kFeatureNotBuilt);
}

// Length in seconds; nullopt if the film does not state it.
absl::StatusOr<std::optional<double>> LengthOf(const std::string& film,
                                               const FilmOptions& options) {
  NERF_ASSIGN_OR_RETURN(const std::string ffprobe, Installed(options.ffprobe));
  ChildProcessSpec spec;
  spec.arguments = {ffprobe, "-v", "error"};
  spec.arguments.insert(spec.arguments.end(), kFilesOnly.begin(), kFilesOnly.end());
  spec.arguments.insert(spec.arguments.end(), {"-select_streams", "v:0", "-show_entries",
                                               "stream=codec_type:format=duration", "-of",
                                               "default=noprint_wrappers=1", Url(film)});
  spec.time_limit = kProbeLimit;
  std::optional<double> length;
  bool has_pictures = false;
  const auto take = [&](std::string_view line) {
    has_pictures |= line == "codec_type=video";
    double seconds = 0;
    constexpr std::string_view kPrefix = "duration=";
    if (line.substr(0, kPrefix.size()) == kPrefix &&
        absl::SimpleAtod(
            absl::string_view(line.data() + kPrefix.size(), line.size() - kPrefix.size()),
            &seconds) &&
        std::isfinite(seconds) && seconds > 0) {
      length = seconds;
    }
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end,
                        RunChildProcess(spec, take, nullptr, options.stop));
  if (absl::Status failure = FailureOf("ffprobe", absl::StrCat("reading ", film), end);
      !failure.ok()) {
    // ffprobe ends with an error code if the file is damaged.
    if (!absl::IsAborted(failure)) return failure;
    return absl::InvalidArgumentError(absl::StrCat(film, ": is no film that ffmpeg reads"));
  }
  if (!has_pictures) return absl::InvalidArgumentError(absl::StrCat(film, ": has no pictures"));
  return length;
}

}  // namespace

absl::StatusOr<std::vector<PhotoSources::Picture>> FramesOfFilm(const std::string& film,
                                                                const std::string& out,
                                                                const FilmOptions& options) {
  NERF_ASSIGN_OR_RETURN(const std::string ffmpeg, Installed(options.ffmpeg));
  NERF_ASSIGN_OR_RETURN(const std::optional<double> length, LengthOf(film, options));
  const int n_decoded = options.n_frames * kCandidates;
  const double rate = length.has_value() ? n_decoded / *length : kDefaultRate;
  ChildProcessSpec spec;
  spec.arguments = {ffmpeg, "-nostdin", "-hide_banner", "-v", "error", "-progress", "pipe:1"};
  spec.arguments.insert(spec.arguments.end(), kFilesOnly.begin(), kFilesOnly.end());
  spec.arguments.insert(spec.arguments.end(),
                        {"-i", Url(film), "-map", "0:v:0", "-an", "-sn", "-dn", "-vf",
                         absl::StrFormat("fps=%.6f:round=up,scale='min(%d,iw)':'min(%d,ih)':"
                                         "force_original_aspect_ratio=decrease",
                                         rate, kMaxSide, kMaxSide),
                         // The name of a file is a pattern, its folder included.
                         "-frames:v", std::to_string(n_decoded), "-q:v", "2", "-f", "image2",
                         absl::StrReplaceAll(out, {{"%", "%%"}}) + "/%06d.jpg"});
  spec.time_limit = kDecodeLimit;
  spec.max_file_bytes = kMaxFrameBytes;
  const auto progress = [&](std::string_view line) {
    constexpr std::string_view kPrefix = "frame=";
    int frame = 0;
    if (options.on_progress && line.substr(0, kPrefix.size()) == kPrefix &&
        absl::SimpleAtoi(
            absl::string_view(line.data() + kPrefix.size(), line.size() - kPrefix.size()),
            &frame)) {
      options.on_progress(static_cast<size_t>(std::max(0, frame)), static_cast<size_t>(n_decoded));
    }
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end,
                        RunChildProcess(spec, progress, nullptr, options.stop));
  std::vector<fs::path> frames;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(out, error)) frames.push_back(entry.path());
  std::sort(frames.begin(), frames.end());
  if (absl::Status failure = FailureOf("ffmpeg", absl::StrCat("reading ", film), end);
      !failure.ok()) {
    // If the film ends in the middle of a frame, use the frames before it.
    if (!absl::IsAborted(failure)) return failure;
    if (frames.empty()) return absl::InvalidArgumentError(std::string(failure.message()));
  }
  if (frames.empty()) return absl::InvalidArgumentError(absl::StrCat(film, ": has no pictures"));

  std::vector<double> sharpness(frames.size());
  options.pool->ParallelFor(static_cast<int64_t>(frames.size()), [&](int64_t i, int) {
    if (options.stop.stop_requested()) return;
    const auto at = static_cast<size_t>(i);
    const absl::StatusOr<ImageU8> image = DecodeImage(frames[at].string());
    if (image.ok()) sharpness[at] = Sharpness(ReducedGray(*image, kSharpnessSide));
  });
  if (options.stop.stop_requested())
    return absl::CancelledError("interrupted while reading a film");
  const std::string name = Printable(fs::path(film).filename().string());
  const std::string stem = fs::path(film).stem().string();
  std::vector<PhotoSources::Picture> pictures;
  for (size_t begin = 0; begin < frames.size(); begin += kCandidates) {
    const size_t end_of_group = std::min(frames.size(), begin + kCandidates);
    const auto group = sharpness.begin() + static_cast<int64_t>(begin);
    const auto best = static_cast<size_t>(
        std::max_element(group, sharpness.begin() + static_cast<int64_t>(end_of_group)) -
        sharpness.begin());
    std::string file = absl::StrFormat("%s_%04d.jpg", stem, pictures.size() + 1);
    for (char& c : file) {
      if (static_cast<unsigned char>(c) <= 0x20 || c == '#' || c == 0x7f) c = '_';
    }
    if (file[0] == '-') file[0] = '_';
    pictures.push_back({frames[best].string(),
                        absl::StrFormat("%s at %.2f s", name, static_cast<double>(best) / rate),
                        file});
  }
  return pictures;
}

absl::StatusOr<std::string> FfmpegVersion(const std::string& ffmpeg, const std::string& ffprobe) {
  NERF_RETURN_IF_ERROR(Installed(ffprobe).status());
  NERF_ASSIGN_OR_RETURN(const std::string program, Installed(ffmpeg));
  ChildProcessSpec spec;
  spec.arguments = {program, "-version"};
  spec.time_limit = kProbeLimit;
  std::string said;
  const auto keep_first = [&](std::string_view line) {
    if (said.empty()) said = line;
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end, RunChildProcess(spec, keep_first, nullptr, {}));
  constexpr std::string_view kBegin = "ffmpeg version ";
  constexpr size_t kMaxVersionLength = 32;
  if (!end.ok() || !said.starts_with(kBegin)) {
    return absl::FailedPreconditionError(
        absl::StrCat(program, ": is not ffmpeg: it does not say its version"));
  }
  said.erase(0, kBegin.size());
  return Printable(said.substr(0, std::min(said.find(' '), kMaxVersionLength)));
}

}  // namespace nerf
