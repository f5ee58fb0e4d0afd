#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <system_error>

#include "common/clock.h"
#include "common/files/nearest_path.h"
#include "common/status_macros.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/field/parameters/memory_estimate.h"
#include "engine/program/console/command.h"
#include "engine/program/console/reading_progress.h"
#include "engine/program/device/exception_border.h"
#include "engine/scene/read/check_report.h"
#include "engine/scene/read/scene_reader.h"
#include "engine/scene/read/source.h"
#include "fmt/format.h"

namespace nerf {
namespace {

struct DatasetCheckFlags {
  std::string dataset;
  int threads = 0, test_every = 8;
  bool has_test_every = false, json = false, all_pixels = false;
  ReadingFlags reading;
};

int RunCheck(const DatasetCheckFlags& flags) {
  bool ok = false;
  const absl::Status status = Guarded([&]() -> absl::Status {
    std::error_code ignored;
    if (!std::filesystem::exists(flags.dataset, ignored)) {
      return NoSuchFolder(flags.dataset);
    }
    SceneOptions options;
    options.follow_links = true;
    options.to_train = true;
    if (flags.all_pixels) options.max_checked_pixels = 0;
    const RealClock clock;
    ReadingProgress progress(&clock);
    if (!flags.json) options.on_pictures = std::ref(progress);
    options.n_threads = flags.threads;
    options.memory_limit_bytes = AvailableMemoryBytes().value_or(0);
    TrainConfig config;
    if (!flags.reading.poses.empty())
      NERF_RETURN_IF_ERROR(SetConfigField("poses", flags.reading.poses, &config));
    options.reading = {config.poses, flags.reading.apply_exif};
    if (flags.has_test_every) options.test_every = flags.test_every;
    const SceneDescription description = DescribeScene(flags.dataset, options);
    ok = description.ok();
    if (flags.json) {
      fmt::print("{}\n", CheckReportJson(description));
    } else {
      fmt::print("{}", CheckReportText(description));
    }
    if (!ok) SuggestPosing(SourceAt(flags.dataset));
    return absl::OkStatus();
  });
  if (!status.ok()) {
    const int code = ReportError(status, flags.json);
    if (absl::IsNotFound(status)) SuggestPosing(SourceAt(flags.dataset));
    return code;
  }
  return ok ? kOk : kBadData;
}

}  // namespace

void AddCheckCommand(CLI::App* app, CommandBody* chosen) {
  auto flags = std::make_shared<DatasetCheckFlags>();
  CLI::App* command = app->add_subcommand("check", "Read a data set and list every problem in it");
  command->add_option("DIR", flags->dataset, "data set")->required();
  auto* test_every =
      command
          ->add_option("--test-every", flags->test_every,
                       "hold out every Nth view if the data set has no split; 0: none")
          ->check(CLI::Range(0, 1'000'000));
  command->add_option("--threads", flags->threads, "threads (default: one for each core)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--all-pixels", flags->all_pixels,
                    "decode every picture; without it, of more than 2000 megapixels, some");
  AddReadingOptions(command, &flags->reading);
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->footer("Example:\n  nerf-engine check examples/mic");
  command->callback([=] {
    flags->has_test_every = test_every->count() > 0;
    *chosen = [flags] { return RunCheck(*flags); };
  });
}

}  // namespace nerf
