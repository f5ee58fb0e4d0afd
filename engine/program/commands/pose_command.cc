#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/counted.h"
#include "common/pose_limits.h"
#include "common/shell_word.h"
#include "common/status_macros.h"
#include "engine/base/protocol/pose_lines.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/program/console/command.h"
#include "engine/program/console/signal_watcher.h"
#include "engine/program/console/view_progress.h"
#include "engine/program/device/exception_border.h"
#include "engine/scene/posing/photographs/colmap_tool.h"
#include "engine/scene/posing/photographs/film.h"
#include "engine/scene/posing/pose_search.h"
#include "engine/scene/posing/scene_addition.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct PoseFlags {
  std::string source, out, into;
  PoseOptions options;
  int threads = 0;
  double hours = 12;
  bool validate_only = false, tools = false, json = false;
};

// Prints the current stage when it changes, and its progress at intervals, also while there is
// none.
class PoseProgressPrinter {
 public:
  PoseProgressPrinter(const Clock* clock, bool json)
      : clock_(clock), style_(ConsoleStyle(json)), begin_(clock->Now()) {}
  ~PoseProgressPrinter() {
    if (style_ == ProgressStyle::kTerminal) fmt::print(stderr, "\r\x1b[K");
  }

  void Show(const PoseProgress& progress) {
    const SteadyTime now = clock_->Now();
    const bool is_new = progress.stage != last_.stage;
    const bool has_moved = progress.done != last_.done;
    const bool is_terminal = style_ == ProgressStyle::kTerminal;
    const absl::Duration wait = is_terminal ? absl::Seconds(0.5)
                                : has_moved ? absl::Seconds(5)
                                            : absl::Seconds(15);
    const bool is_end = progress.is_over && !last_.is_over && style_ == ProgressStyle::kJson;
    if (!is_new && !is_end && now - printed_ < wait) return;
    printed_ = now;
    last_ = progress;
    const double seconds = absl::ToDoubleSeconds(now - begin_);
    if (style_ == ProgressStyle::kJson) {
      const auto count = [](int n) { return static_cast<uint32_t>(std::max(n, 0)); };
      fmt::print("{}", protocol::ToLine(protocol::Posing{
                           count(progress.stage), count(progress.n_stages), progress.doing,
                           count(progress.done), count(progress.of), std::string(progress.unit),
                           seconds, progress.eta_seconds, progress.matches_per_second,
                           progress.sketch.points, progress.sketch.cameras}));
      std::fflush(stdout);
      return;
    }
    fmt::print(stderr, "{}{} ({:.0f} s){}", is_terminal ? "\r" : "", PoseProgressText(progress),
               seconds, is_terminal ? "\x1b[K" : "\n");
    std::fflush(stderr);
  }

 private:
  const Clock* const clock_;
  const ProgressStyle style_;
  const SteadyTime begin_;
  SteadyTime printed_;
  PoseProgress last_;
};

// Says which COLMAP and ffmpeg would be run. Workers ask in the sandbox in which they pose.
int ReportPoseTools(const PoseFlags& flags) {
  const absl::StatusOr<ColmapTool> colmap = FindColmap(flags.options.colmap);
  if (!colmap.ok()) return ReportError(colmap.status(), flags.json);
  const auto ffmpeg = FfmpegVersion(flags.options.ffmpeg, flags.options.ffprobe);
  if (flags.json) {
    fmt::print("{}", protocol::ToLine(protocol::PoseTools{colmap->version, ffmpeg.value_or("")}));
  } else {
    fmt::print("COLMAP {}\nffmpeg {}\n", colmap->version,
               ffmpeg.ok() ? *ffmpeg : std::string(ffmpeg.status().message()));
  }
  return kOk;
}

int RunPose(PoseFlags flags) {
  if (flags.tools) return ReportPoseTools(flags);
  while (flags.out.size() > 1 && flags.out.back() == '/') flags.out.pop_back();
  if (flags.source.empty() || flags.out.empty()) {
    const std::string which = flags.source.empty() ? "DIR" : "--out";
    return ReportError(absl::InvalidArgumentError(which + " is required, and not empty"),
                       flags.json,
                       /*usage=*/true);
  }
  SignalWatcher signals;
  const RealClock clock;
  PoseReport report;
  const absl::Status status = Guarded([&]() -> absl::Status {
    if (flags.validate_only) {
      return flags.into.empty() ? CheckPoseSearch(flags.source, flags.out, flags.options)
                                : CheckAddition(flags.source, flags.into, flags.out, flags.options);
    }
    ThreadPool pool(ThreadsFor(flags.threads));
    PoseProgressPrinter printer(&clock, flags.json);
    PoseOptions options = flags.options;
    options.pool = &pool;
    options.clock = &clock;
    options.stop = signals.token();
    options.max_memory_bytes = AvailableMemoryBytes().value_or(0);
    options.time_limit = absl::Hours(flags.hours);
    options.on_progress = [&](const PoseProgress& progress) { printer.Show(progress); };
    NERF_ASSIGN_OR_RETURN(
        report, flags.into.empty() ? SearchPoses(flags.source, flags.out, options)
                                   : AddPhotographs(flags.source, flags.into, flags.out, options));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    const int code = ReportError(status, flags.json);
    if (absl::IsUnimplemented(status)) {
      fmt::print(stderr, "By hand, where COLMAP is:\n{}",
                 CommandsForCopying(flags.source, flags.out));
    }
    return signals.exit_code() != 0 ? signals.exit_code() : code;
  }
  if (flags.validate_only) {
    if (flags.json) {
      fmt::print("{{\"event\":\"done\"}}\n");
    } else {
      fmt::print(stderr, "{}: the search for poses can begin\n", flags.source);
    }
    return kOk;
  }
  if (flags.json) {
    fmt::print("{}\n", PoseReportJson(report, flags.out));
  } else {
    fmt::print("{}", PoseReportText(report));
  }
  const double share = report.n_usable == 0 ? 0
                                            : static_cast<double>(report.n_usable_posed) /
                                                  static_cast<double>(report.n_usable);
  const std::string next = fmt::format(
      "nerf-engine train {} --out {}{}", ShellWord(flags.out), ShellWord(flags.out + "-model"),
      flags.into.empty() ? "" : " --init auto    # from the old scene's model");
  if (report.n_posed == 0) {
    fmt::print(stderr,
               "error: no photograph could be posed; {}/pose.txt says why and what to photograph "
               "again\n",
               flags.out);
    return kBadData;
  }
  if (share < flags.options.min_posed_share) {
    fmt::print(stderr,
               "error: {} of {} are posed, fewer than {:.0f}% (--min-posed); the posed ones are in "
               "{} and can be trained: {}\n",
               report.n_usable_posed, Counted(report.n_usable, "usable photograph"),
               flags.options.min_posed_share * 100, flags.out, next);
    return kBadData;
  }
  fmt::print(stderr,
             "{}/pose.png shows the cameras from above, numbered as in pose.txt\nnext: {}\n",
             flags.out, next);
  return kOk;
}

}  // namespace

void AddPoseCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<PoseFlags>();
  CLI::App* command = app->add_subcommand(
      "pose", "Find where photographs were taken, with COLMAP, and write a data set");
  command->add_option("DIR", flags->source, "folder of photographs and films, or one film");
  command->add_option("--out", flags->out, "folder for the data set; new or empty");
  command->add_option("--into", flags->into,
                      "posed data set that the photographs are added to: --out becomes it with "
                      "them, in its frame");
  command
      ->add_option("--min-posed", flags->options.min_posed_share,
                   "share of the usable photographs that has to be posed; below it slower methods "
                   "are tried, then it fails")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("--film-frames", flags->options.film_frames, "frames extracted from each film")
      ->check(CLI::Range(kMinFilmFrames, kMaxFilmFrames))
      ->capture_default_str();
  command
      ->add_option("--camera", flags->options.camera,
                   "perspective, equirectangular (panoramas of all directions) or auto: as the "
                   "photographs' XMP or borders say")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, CameraKind>{{"auto", CameraKind::kAuto},
                                            {"perspective", CameraKind::kPerspective},
                                            {"equirectangular", CameraKind::kEquirectangular}}))
      ->default_str("auto");
  command
      ->add_option("--mask-below", flags->options.mask_below,
                   "mask what panoramas show more than so many degrees under the horizon; 0: "
                   "nothing")
      ->check(CLI::Range(0.0, 90.0))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--max-hours", flags->hours, "time limit of a step of COLMAP")
      ->check(CLI::Range(0.01, 1000.0))
      ->capture_default_str();
  command->add_option("--colmap", flags->options.colmap, "COLMAP's program")->capture_default_str();
  command->add_option("--ffmpeg", flags->options.ffmpeg, "ffmpeg's program, for films")
      ->capture_default_str();
  command->add_option("--ffprobe", flags->options.ffprobe, "ffprobe's program, for films")
      ->capture_default_str();
  command->add_flag("--tools", flags->tools, "only say which COLMAP and ffmpeg it would run");
  command->add_flag("--validate-only", flags->validate_only,
                    "check that it can begin, write nothing");
  command->add_flag("--json", flags->json, "one JSON object a line on stdout");
  command->footer(
      "Examples:\n"
      "  nerf-engine pose photos --out photos-posed\n"
      "  nerf-engine pose film.mp4 --film-frames 200 --out film-posed\n"
      "  nerf-engine pose more --into photos-posed --out photos-posed-2");
  command->callback([=] { *chosen = [flags] { return RunPose(*flags); }; });
}

}  // namespace nerf
