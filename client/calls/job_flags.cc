#include "client/calls/job_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "client/flags/deadline_flag.h"
#include "client/flags/job_label_flags.h"
#include "client/flags/names.h"
#include "common/amount.h"
#include "common/edit_distance.h"
#include "common/error_reason.h"
#include "common/messages/training_config.h"
#include "common/problems.h"
#include "common/status_macros.h"
#include "engine/base/config/setting_list.h"
#include "engine/base/config/start_rank.h"
#include "engine/base/config/train_config.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/base/method_list/settings_help.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr int kMaxSide = 16384;  // of the setting max_side

// A valid id near an invalid one: "fern-8" for "Fern_8". Empty where there is none.
std::string ProposedId(std::string_view text) {
  std::string id;
  for (const char c : text) {
    const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
    id += absl::ascii_isalnum(static_cast<unsigned char>(lower)) ? lower : '-';
  }
  return IsResourceId(id) ? id : "";
}

// An amount above 0; of seconds also a time.
std::optional<double> ParseBudget(BudgetKind kind, const std::string& text) {
  if (kind == BudgetKind::kSeconds) {
    if (const auto span = ParseTimeSpan(text)) return absl::ToDoubleSeconds(*span);
  }
  const std::optional<double> amount = ParseAmount(text);
  return amount.value_or(0) > 0 ? amount : std::nullopt;
}

std::string Quoted(std::string_view text) { return fmt::format("'{}'", text.substr(0, 64)); }

// The status without the name of the field that its message begins with: the flag's name is put
// before it.
absl::Status WithoutField(const absl::Status& status) {
  const std::string message(status.message());
  return absl::Status(status.code(), message.substr(message.find(": ") + 2));
}

// OK if the server would accept the config.
absl::Status CheckConfig(const TrainConfig& config) {
  const absl::Status status = ValidateConfig(config);
  return status.ok() ? status : WithoutField(status);
}

std::string MethodOf(const JobFlags& flags) {
  return flags.method.empty() ? TrainConfig().method : flags.method;
}

void SetMethod(const JobFlags& flags, v1::TrainingConfig* config, Problems* problems) {
  config->set_method(flags.method);
  const absl::StatusOr<TrainConfig> defaults = DefaultConfig(MethodOf(flags));
  if (!defaults.ok()) problems->Add("--method", WithoutField(defaults.status()));
}

void SetBackground(const JobFlags& flags, v1::TrainingConfig* config, Problems* problems) {
  if (flags.background.empty()) return;
  const auto background = ParseBackgroundWord(flags.background);
  if (!background.has_value()) {
    constexpr std::string_view kKnown[] = {"auto", "white", "black", "random"};
    return problems->Add("--background", NotOneOf(flags.background, kKnown));
  }
  config->set_background(*background);
}

void SetInit(const JobFlags& flags, const std::string& project, v1::TrainingConfig* config,
             Problems* problems) {
  if (flags.init.empty()) return;
  if (flags.init == kAutoStart || flags.init == kNoStart) {
    return config->mutable_init()->set_model(flags.init);
  }
  if (LooksLikeCheckpoint(flags.init)) {
    const auto name = ExpandCheckpointName(flags.init, project, /*newest_allowed=*/false);
    if (!name.ok()) return problems->Add("--init", name.status());
    config->mutable_init()->set_checkpoint(*name);
  } else {
    const auto name = ExpandName(ResourceKind::kModel, flags.init, project);
    if (!name.ok()) {
      problems->Add("--init", Quoted(flags.init) + " is neither a model nor a checkpoint JOB/STEP");
      return;
    }
    config->mutable_init()->set_model(*name);
  }
}

void SetSettings(const JobFlags& flags, v1::TrainingConfig* config, Problems* problems) {
  // A wrong method has its violation already.
  TrainConfig checked = DefaultConfig(MethodOf(flags)).value_or(TrainConfig());
  std::set<std::string> seen;
  for (const std::string& setting : SettingsIn(flags.settings)) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems->Add("--set", Quoted(setting) + " is not of the form key=value");
      continue;
    }
    const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
    if (!seen.insert(key).second) {
      problems->Add("--set", Quoted(key) + " is given twice");
      continue;
    }
    if (absl::Status status = SetConfigField(key, value, &checked); !status.ok()) {
      problems->Add("--set", status);
      continue;
    }
    (*config->mutable_settings())[key] = value;
  }
  const auto set = [&](const char* flag, const char* key, const std::string& value) {
    if (!seen.insert(key).second) {
      return problems->Add(flag, fmt::format("is given by --set {}, too", key));
    }
    if (absl::Status status = SetConfigField(key, value, &checked); !status.ok()) {
      return problems->Add(flag, WithoutField(status));
    }
    (*config->mutable_settings())[key] = value;
  };
  if (!flags.max_side.empty()) {
    // The setting is also -1 where the flag is absent, which its own message would offer.
    double side = 0;
    if (!absl::SimpleAtod(flags.max_side, &side)) side = ParseAmount(flags.max_side).value_or(0);
    if (side < 0 || side > kMaxSide) {
      problems->Add("--max-side",
                    fmt::format("{} is not between 0 and {}", Quoted(flags.max_side), kMaxSide));
    } else {
      set("--max-side", "max_side", flags.max_side);
    }
  }
  if (!flags.poses.empty()) set("--poses", "poses", flags.poses);
  if (flags.apply_exif) set("--apply-exif", "apply_exif", "1");
  if (flags.no_eval) set("--no-eval", "evaluate", "0");
  if (absl::Status status = CheckConfig(checked); !status.ok()) problems->Add("--set", status);
}

// "ngp (default) or ngp-autograd".
std::string MethodHelp() {
  std::string help;
  for (const MethodDescription* method : MethodDescriptions()) {
    const bool is_default = method->name() == TrainConfig().method;
    help += fmt::format("{}{}{}", help.empty() ? "" : " or ", method->name(),
                        is_default ? " (default)" : "");
  }
  return help;
}

}  // namespace

void TakeBudget(const JobFlags& flags, v1::TrainingConfig* config, Problems* problems) {
  const auto set = [&](const char* flag, const std::string& text, BudgetKind kind) {
    if (text.empty()) return;
    TrainConfig checked;
    checked.budget.kind = kind;
    const std::optional<double> amount = ParseBudget(kind, text);
    checked.budget.amount = amount.value_or(0);
    if (!amount.has_value()) {
      problems->Add(flag, Quoted(text) + (kind == BudgetKind::kSeconds
                                              ? " is not a time above 0, such as 90, 90s or 5m"
                                              : " is not a number above 0, such as 20000 or 40M"));
    } else if (absl::Status status = CheckConfig(checked); !status.ok()) {
      problems->Add(flag, status);
    } else {
      SetBudget({std::string(BudgetKindName(kind)), checked.budget.amount}, config);
    }
  };
  set("--steps", flags.steps, BudgetKind::kSteps);
  set("--samples", flags.samples, BudgetKind::kSamples);
  set("--seconds", flags.seconds, BudgetKind::kSeconds);
}

void AddReadingFlags(CLI::App& app, std::string* poses, bool* apply_exif) {
  app.add_option("--poses", *poses,
                 "What a transforms file's matrices are: opengl (default), opencv, or w2c for\n"
                 "world to camera")
      ->type_name("NAME");
  app.add_flag("--apply-exif", *apply_exif, "Turn photographs upright by their EXIF orientation");
}

void AddBudgetFlags(CLI::App& app, JobFlags* flags) {
  CLI::Option* steps =
      app.add_option("--steps", flags->steps, "Train for this many optimizer steps")
          ->type_name("N");
  CLI::Option* samples =
      app.add_option("--samples", flags->samples, "Train on this many samples, such as 40M")
          ->type_name("N");
  CLI::Option* seconds =
      app.add_option("--seconds", flags->seconds, "Train for this long, such as 90, 5m or 1h30m")
          ->type_name("TIME");
  steps->excludes(samples)->excludes(seconds);
  samples->excludes(steps)->excludes(seconds);
  seconds->excludes(steps)->excludes(samples);
}

void AddJobFlags(CLI::App& app, JobFlags* flags) {
  app.add_option("--method", flags->method, "Training method: " + MethodHelp())->type_name("NAME");
  AddBudgetFlags(app, flags);
  app.add_option("--seed", flags->seed, "Seed of every random choice (default 1)")->type_name("N");
  app.add_option("--background", flags->background,
                 "auto (default), white, black or random, for images with alpha")
      ->type_name("NAME");
  app.add_option("--test-every", flags->test_every,
                 "Hold out every Nth view where the data set has no split (default 8; 0: none)")
      ->type_name("N");
  app.add_option("--init", flags->init,
                 "Start from a model, or from a checkpoint JOB/STEP; auto: from the best fitting "
                 "model of the project; none: from scratch, also where photographs were added")
      ->type_name("MODEL");
  app.add_option("--set", flags->settings, "Change a setting; --help-settings lists them")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--start-by", flags->start_by,
                 "Fail if no worker has had it by then, such as 8h or 2027-01-31T08:00:00Z")
      ->type_name("TIME");
  app.add_option("--end-by", flags->end_by, "Fail if it has not ended by then")->type_name("TIME");
  app.add_option("--priority", flags->priority, "-100 to 100 (default 0); the highest start first")
      ->type_name("N");
  app.add_option("--workers", flags->workers,
                 "Train on N workers together, or on MIN..MAX, as many as are free (default 1)")
      ->type_name("N");
  app.add_option("--label", flags->labels, "A word about the job; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option(
         "--max-side", flags->max_side,
         "Reduce pictures to this longer side in pixels; 0: use them as they\nare (default: "
         "by the budget, never below 1 megapixel)")
      ->type_name("PIXELS");
  AddReadingFlags(app, &flags->poses, &flags->apply_exif);
  app.add_flag("--no-eval", flags->no_eval, "Do not evaluate the test views at the end");
  AddNewResourceFlags(app, flags, "the folder's or the scene's");
  AddPreviewFlags(app, &flags->preview);
  app.add_flag("--validate-only", flags->validate_only, "Check everything, create nothing");
  app.add_flag("--help-settings", flags->help_settings, "List the settings of --set and exit");
}

absl::Status CheckWatchFlags(const Session& session, const JobFlags& flags, bool watch) {
  if (!watch && (flags.preview.show || !flags.preview.file.empty())) {
    return absl::InvalidArgumentError(flags.preview.show
                                          ? "--show: needs the job to be watched"
                                          : "--preview: needs the job to be watched");
  }
  return CheckPreviewFlags(session, flags.preview);
}

absl::StatusOr<std::optional<int>> ParseTestEvery(const std::string& text) {
  if (text.empty()) return std::optional<int>();
  TrainConfig checked;
  if (!absl::SimpleAtoi(text, &checked.test_every)) {
    return absl::InvalidArgumentError(Quoted(text) + " is not a whole number");
  }
  NERF_RETURN_IF_ERROR(CheckConfig(checked));
  return std::optional(checked.test_every);
}

absl::Status SetDeadlines(const JobFlags& flags, absl::Time now, v1::Job* job) {
  Problems problems;
  if (!flags.start_by.empty()) {
    problems.AddOrAssign(ParseDeadline("--start-by", flags.start_by, now),
                         job->mutable_start_by_time());
  }
  if (!flags.end_by.empty()) {
    problems.AddOrAssign(ParseDeadline("--end-by", flags.end_by, now), job->mutable_end_by_time());
  }
  return problems.Result();
}

absl::StatusOr<v1::CreateJobRequest> BuildJobRequest(const JobFlags& flags,
                                                     const std::string& project,
                                                     RandomSource& random) {
  Problems problems;
  v1::CreateJobRequest request;
  v1::Job& job = *request.mutable_job();
  v1::TrainingSpec& spec = *job.mutable_training();
  v1::TrainingConfig& config = *spec.mutable_config();

  if (absl::StatusOr<std::string> parent = ProjectName(project); parent.ok()) {
    request.set_parent(*parent);
  } else {
    problems.Add("--project", parent.status());
  }
  SetMethod(flags, &config, &problems);
  TakeBudget(flags, &config, &problems);
  config.set_seed(TrainConfig().seed);
  if (uint32_t seed = 0; flags.seed.empty()) {
  } else if (absl::SimpleAtoi(flags.seed, &seed)) {
    config.set_seed(seed);
  } else {
    problems.Add("--seed", Quoted(flags.seed) + " is not a whole number from 0 to 2^32 - 1");
  }
  SetBackground(flags, &config, &problems);
  if (const auto test_every = ParseTestEvery(flags.test_every); !test_every.ok()) {
    problems.Add("--test-every", test_every.status());
  } else if (test_every->has_value()) {
    config.set_test_every(static_cast<uint32_t>(**test_every));
  }
  SetInit(flags, project, &config, &problems);
  SetSettings(flags, &config, &problems);

  problems.Add(CheckDisplayName("--display-name", flags.display_name));
  job.set_display_name(flags.display_name);
  if (!flags.id.empty() && !IsResourceId(flags.id)) {
    const std::string proposed = ProposedId(flags.id);
    problems.Add("--id",
                 fmt::format("{} is not 1 to 63 of a-z, 0-9 and -, beginning with a letter{}",
                             Quoted(flags.id), proposed.empty() ? "" : ": try " + proposed));
  }
  request.set_job_id(flags.id);
  if (absl::StatusOr<std::string> id = RequestIdOrNew(flags.request_id, random); id.ok()) {
    request.set_request_id(*id);
  } else {
    problems.Add("--request-id", Quoted(flags.request_id) + " is not a UUID4");
  }
  if (!flags.priority.empty()) {
    const absl::StatusOr<int> priority = ParsePriority(flags.priority);
    if (priority.ok()) job.set_priority(*priority);
    problems.Add(priority.status());
  }
  if (!flags.workers.empty()) {
    const auto workers = ParseWorkers(flags.workers);
    if (workers.ok()) {
      spec.mutable_workers()->set_min(workers->first);
      spec.mutable_workers()->set_max(workers->second);
    }
    problems.Add(workers.status());
  }
  for (const std::string& text : flags.labels) {
    const auto label = ParseLabel(text);
    if (label.ok()) (*job.mutable_labels())[label->first] = label->second;
    problems.Add(label.status());
  }
  request.set_validate_only(flags.validate_only);
  NERF_RETURN_IF_ERROR(problems.Result());
  return request;
}

absl::Status PrintSettings(const JobFlags& flags, const Printer& printer) {
  NERF_ASSIGN_OR_RETURN(const TrainConfig defaults, DefaultConfig(MethodOf(flags)));
  const MethodDescription& method = MethodDescriptionOf(defaults);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SettingHelp& setting : DescribeSettings(method)) {
    nlohmann::ordered_json& entry = list.emplace_back(
        nlohmann::ordered_json{{"key", setting.key}, {"default", setting.default_value}});
    if (setting.range.has_value()) {
      entry["min"] = setting.range->first;
      entry["max"] = setting.range->second;
    }
    entry["text"] = setting.text;
  }
  if (PrintJson(printer, list)) return absl::OkStatus();
  if (printer.format == OutputFormat::kName) {
    for (const SettingHelp& setting : DescribeSettings(method)) printer.out << setting.key << '\n';
    return absl::OkStatus();
  }
  printer.out << SettingsTable(method);
  return absl::OkStatus();
}

}  // namespace nerf
