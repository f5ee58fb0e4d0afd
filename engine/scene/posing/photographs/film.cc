#include "engine/scene/posing/photographs/film.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/error_reason.h"
#include "common/process/child_failure.h"
#include "common/process/child_process.h"
#include "common/status_macros.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/scene/posing/photographs/colmap_tool.h"
#include "engine/scene/posing/photographs/photo_measures.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;

constexpr int kCandidates = 3;  // frames decoded per extracted picture, at most
constexpr double kMaxBytesPerPixel = 1.2, kMaxOtherBytes = 4096;  // of a frame's JPEG: noise's
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

// What the header says; 0 where it does not.
struct FilmHeader {
  double seconds = 0, rate = 0;  // rate: frames a second
  double width = 0, height = 0;
  const char* hdr = nullptr;  // the name of its transfer function, if it is one of HDR

  double PixelsOfFrame() const {
    const double side = std::max(width, height), most = kMaxSide;
    const double scale = side > most ? most / side : 1;
    return side > 0 ? width * height * scale * scale : most * most;
  }
};

// "25/1" or "4.5"; 0 for anything else.
double NumberOf(std::string_view text) {
  const size_t slash = text.find('/');
  double number = 0, divisor = 1;
  const auto parse = [](std::string_view part, double* value) {
    return absl::SimpleAtod(absl::string_view(part.data(), part.size()), value);
  };
  if (!parse(text.substr(0, slash), &number)) return 0;
  if (slash != std::string_view::npos && !parse(text.substr(slash + 1), &divisor)) return 0;
  const double value = number / divisor;
  return std::isfinite(value) && value > 0 ? value : 0;
}

absl::StatusOr<FilmHeader> HeaderOf(const std::string& film, const FilmOptions& options) {
  NERF_ASSIGN_OR_RETURN(const std::string ffprobe, Installed(options.ffprobe));
  ChildProcessSpec spec;
  spec.arguments = {ffprobe, "-v", "error"};
  spec.arguments.insert(spec.arguments.end(), kFilesOnly.begin(), kFilesOnly.end());
  spec.arguments.insert(spec.arguments.end(), {"-select_streams", "v:0", "-show_entries",
                                               "stream=codec_type,width,height,avg_frame_rate,"
                                               "color_transfer:"
                                               "format=duration",
                                               "-of", "default=noprint_wrappers=1", Url(film)});
  spec.time_limit = kProbeLimit;
  FilmHeader header;
  bool has_pictures = false;
  const auto take = [&](std::string_view line) {
    has_pictures |= line == "codec_type=video";
    if (line == "color_transfer=arib-std-b67") header.hdr = "HLG";
    if (line == "color_transfer=smpte2084") header.hdr = "PQ";
    const size_t equals = std::min(line.find('='), line.size());
    const std::string_view key = line.substr(0, equals);
    for (const auto& [name, number] :
         {std::pair("duration", &header.seconds), std::pair("avg_frame_rate", &header.rate),
          std::pair("width", &header.width), std::pair("height", &header.height)}) {
      if (key == name && equals < line.size()) *number = NumberOf(line.substr(equals + 1));
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
  return header;
}

// Whether this ffmpeg has the filters that tone-map.
absl::StatusOr<bool> CanToneMap(const std::string& ffmpeg, const FilmOptions& options) {
  ChildProcessSpec spec;
  spec.arguments = {ffmpeg, "-hide_banner", "-v", "error", "-filters"};
  spec.time_limit = kProbeLimit;
  bool has_zscale = false, has_tonemap = false;
  const auto take = [&](std::string_view line) {
    has_zscale |= line.find(" zscale ") != std::string_view::npos;
    has_tonemap |= line.find(" tonemap ") != std::string_view::npos;
  };
  NERF_ASSIGN_OR_RETURN(const ChildProcessEnd end,
                        RunChildProcess(spec, take, nullptr, options.stop));
  return end.ok() && has_zscale && has_tonemap;
}

// Filters from HDR to sRGB: linear light in which diffuse white is 1, BT.709's primaries, what is
// brighter compressed, sRGB's transfer function. A phone's film is BT.2020; a stream that does not
// say so is taken for one.
constexpr const char* kToneMap =
    ",zscale=pin=bt2020:min=bt2020nc:t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,"
    "tonemap=mobius:param=0.9:desat=0,zscale=t=iec61966-2-1:m=gbr:r=pc,format=gbrp";

// How many frames are decoded for each picture, so that they fit.
absl::StatusOr<int> CandidatesFor(const std::string& film, const FilmHeader& header,
                                  const FilmOptions& options) {
  const double n_own = header.seconds * header.rate;  // 0: not known
  int n = kCandidates;
  while (n > 1 && n_own > 0 && n * options.n_frames > n_own) --n;
  double pixels = 0, bytes = 0;
  for (; n > 0; --n) {
    double n_decoded = n * options.n_frames;
    if (n_own > 0) n_decoded = std::min(n_decoded, std::ceil(n_own));
    pixels = n_decoded * header.PixelsOfFrame();
    bytes = pixels * kMaxBytesPerPixel + n_decoded * kMaxOtherBytes;
    if (pixels <= options.max_pixels && bytes <= options.max_bytes) return n;
  }
  if (pixels > options.max_pixels) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: the frames of a film of %.0fx%.0f would have %.3g megapixels, at most "
                        "%.3g are taken: ask for fewer frames",
                        film, header.width, header.height, pixels / 1e6, options.max_pixels / 1e6));
  }
  return WithReason(
      absl::ResourceExhaustedError(absl::StrFormat(
          "%s: the frames may need %.0f MB of the disk, and %.0f MB of it may be taken", film,
          bytes / 1e6, options.max_bytes / 1e6)),
      reason::kStoreReadOnly);
}

}  // namespace

absl::StatusOr<std::vector<PhotoSources::Picture>> FramesOfFilm(const std::string& film,
                                                                const std::string& out,
                                                                const FilmOptions& options) {
  NERF_ASSIGN_OR_RETURN(const std::string ffmpeg, Installed(options.ffmpeg));
  NERF_ASSIGN_OR_RETURN(const FilmHeader header, HeaderOf(film, options));
  NERF_ASSIGN_OR_RETURN(const int n_candidates, CandidatesFor(film, header, options));
  const int n_decoded = options.n_frames * n_candidates;
  bool tone_maps = false;
  if (header.hdr != nullptr) {
    NERF_ASSIGN_OR_RETURN(tone_maps, CanToneMap(ffmpeg, options));
  }
  double rate = header.seconds > 0 ? n_decoded / header.seconds : kDefaultRate;
  if (header.rate > 0) rate = std::min(rate, header.rate);  // no frame twice
  ChildProcessSpec spec;
  spec.arguments = {ffmpeg, "-nostdin", "-hide_banner", "-v", "error", "-progress", "pipe:1"};
  spec.arguments.insert(spec.arguments.end(), kFilesOnly.begin(), kFilesOnly.end());
  spec.arguments.insert(spec.arguments.end(),
                        {"-i", Url(film), "-map", "0:v:0", "-an", "-sn", "-dn", "-vf",
                         absl::StrFormat("fps=%.6f:round=up,scale='min(%d,iw)':'min(%d,ih)':"
                                         "force_original_aspect_ratio=decrease",
                                         rate, kMaxSide, kMaxSide) +
                             (tone_maps ? kToneMap : ""),
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
  std::string note;
  if (header.hdr != nullptr) {
    note = absl::StrCat(name, ": is filmed in HDR (", header.hdr, "); ",
                        tone_maps ? "its colors are tone-mapped to sRGB"
                                  : "this ffmpeg has no zscale to tone-map it, so colors are flat: "
                                    "save the film in SDR first");
  }
  std::vector<PhotoSources::Picture> pictures;
  const auto step = static_cast<size_t>(n_candidates);
  for (size_t begin = 0; begin < frames.size(); begin += step) {
    const size_t end_of_group = std::min(frames.size(), begin + step);
    const auto group = sharpness.begin() + static_cast<int64_t>(begin);
    const auto best = static_cast<size_t>(
        std::max_element(group, sharpness.begin() + static_cast<int64_t>(end_of_group)) -
        sharpness.begin());
    for (size_t i = begin; i < end_of_group; ++i) {
      if (i != best) fs::remove(frames[i], error);
    }
    std::string file = absl::StrFormat("%s_%04d.jpg", stem, pictures.size() + 1);
    for (char& c : file) {
      if (static_cast<unsigned char>(c) <= 0x20 || c == '#' || c == 0x7f) c = '_';
    }
    if (file[0] == '-') file[0] = '_';
    pictures.push_back({frames[best].string(),
                        absl::StrFormat("%s at %.2f s", name, static_cast<double>(best) / rate),
                        file, "", note});
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
