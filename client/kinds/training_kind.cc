#include <algorithm>
#include <map>
#include <ostream>
#include <utility>

#include "client/flags/names.h"
#include "client/flags/text_format.h"
#include "client/kinds/job_words.h"
#include "client/kinds/kind_view.h"
#include "client/kinds/training_words.h"
#include "client/show/resource_printers.h"
#include "common/counted.h"
#include "common/messages/training_config.h"
#include "common/process/exit_code.h"
#include "engine/base/config/psnr_advice.h"
#include "engine/base/config/slow_views.h"
#include "engine/base/messages/crop_box.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// With the defaults once they are known.
const v1::TrainingConfig& ConfigOf(const v1::Job& job) {
  return job.training_status().has_effective_config() ? job.training_status().effective_config()
                                                      : job.training().config();
}

// 0 where it is not known.
double Figure(const v1::Job& job, const std::string& name) {
  const auto found = job.training_status().progress().figures().find(name);
  return found == job.training_status().progress().figures().end() ? 0 : found->second;
}

// "918x1632"; empty where it is not known.
std::string SizeText(const v1::Job& job, const std::string& which) {
  const double width = Figure(job, which + "_width"), height = Figure(job, which + "_height");
  return width > 0 && height > 0 ? fmt::format("{:.0f}x{:.0f}", width, height) : "";
}

std::string BudgetText(const v1::TrainingConfig& config) {
  switch (config.budget_case()) {
    case v1::TrainingConfig::kSteps:
      return Counted(config.steps(), "step");
    case v1::TrainingConfig::kSamples:
      return fmt::format("{} samples", FormatCount(config.samples()));
    case v1::TrainingConfig::kSeconds:
      return fmt::format("{:g} s of training", config.seconds());
    case v1::TrainingConfig::BUDGET_NOT_SET:
      break;
  }
  return "";
}

// "30.20 dB at step 1200"; the step where it is known. Requires a PSNR.
std::string PreviewText(const v1::Progress& progress) {
  std::string text = DbText(progress.psnr_preview()) + " dB";
  if (progress.has_preview_step()) text += fmt::format(" at step {}", progress.preview_step());
  return text;
}

// "2", "2 to 4".
std::string WorkerCountText(const v1::WorkerCount& workers) {
  return workers.min() == workers.max() ? fmt::format("{}", workers.min())
                                        : fmt::format("{} to {}", workers.min(), workers.max());
}

uint32_t NewestStep(const v1::Job& job) {
  const auto& checkpoints = job.training_status().checkpoints();
  return checkpoints.empty() ? 0 : checkpoints.rbegin()->step();
}

// While test views are evaluated, minutes may pass without a message.
bool IsEvaluating(const v1::Job& job) {
  return job.state() == v1::Job::RUNNING && job.training_status().progress().evaluation_views() > 0;
}

bool SaysPictures(const v1::Job& job) {
  return job.state() == v1::Job::RUNNING && ArePicturesReduced(job);
}

class TrainingJobs final : public KindView {
 public:
  TrainingJobs() : KindView("training", "job", kJobFailed) {}

  std::string Subject(const v1::Job& job) const override {
    const v1::TrainingSpec& spec = job.training();
    return ShortName(spec.scene().empty() ? spec.pose_job() : spec.scene());
  }
  std::string Progress(const v1::Job& job) const override { return StepText(job); }
  // "33.12 dB" over all test views; until then "30.20 dB (preview)".
  std::string Result(const v1::Job& job) const override {
    const v1::TrainingStatus& status = job.training_status();
    if (status.has_final_psnr()) return DbText(status.final_psnr()) + " dB";
    if (!status.progress().has_psnr_preview()) return "";
    return DbText(status.progress().psnr_preview()) + " dB (preview)";
  }
  double SecondsLeft(const v1::Job& job) const override {
    return job.training_status().progress().eta_seconds();
  }
  std::string Doing(const v1::Job& job) const override {
    const v1::Progress& progress = job.training_status().progress();
    if (!IsEvaluating(job)) return "";
    return fmt::format("evaluating {}/{} test views", progress.evaluated_views(),
                       progress.evaluation_views());
  }

  void AddSpec(const v1::Job& job, TextFields* fields) const override {
    const v1::TrainingStatus& status = job.training_status();
    fields->Add("scene", job.training().scene());
    fields->Add("pose job", job.training().pose_job());
    if (job.training().has_crop()) fields->Add("crop", CropText(job.training().crop()));
    fields->Add("retry of", status.retry_of());
    fields->Add("extends", status.extension_of());
    fields->Add("part of", status.part_of());
    for (int part = 0; part < status.parts_size(); ++part) {
      fields->Add(fmt::format("part {}", part), status.parts(part));
    }
    if (job.training().has_workers()) {
      fields->Add("asks for workers", WorkerCountText(job.training().workers()));
    }
  }
  void AddWorkers(const v1::Job& job, TextFields* fields) const override {
    const auto& members = job.training_status().members();
    if (members.empty()) KindView::AddWorkers(job, fields);
    for (const v1::Member& member : members) {
      fields->Add(fmt::format("rank {}", member.rank()),
                  member.host().empty() ? member.worker()
                                        : fmt::format("{} on {}", member.worker(), member.host()));
    }
  }
  void AddStatus(const v1::Job& job, TextFields* fields) const override {
    const v1::TrainingStatus& status = job.training_status();
    const v1::Progress& progress = status.progress();
    fields->Add("step", StepText(job));
    fields->Add("now", Doing(job));
    fields->Add("pictures", PicturesText(job));
    // Figures that are 0 are not known.
    if (progress.samples() > 0) fields->Add("samples", FormatCount(progress.samples()));
    if (progress.loss() > 0) fields->Add("loss", fmt::format("{:.5f}", progress.loss()));
    if (progress.psnr_train() > 0) {
      fields->Add("train PSNR", DbText(progress.psnr_train()) + " dB");
    }
    if (progress.has_psnr_preview()) fields->Add("preview PSNR", PreviewText(progress));
    const bool goes_on = !IsFinal(job.state());
    if (goes_on && progress.samples_per_second() > 0) {
      fields->Add("speed", FormatCount(progress.samples_per_second()) + " samples/s");
    }
    if (goes_on && progress.eta_seconds() > 0) {
      fields->Add("eta", FormatClock(progress.eta_seconds()));
    }
    if (progress.seconds() > 0) fields->Add("trained for", FormatClock(progress.seconds()));
    if (status.has_final_psnr()) fields->Add("test PSNR", DbText(status.final_psnr()) + " dB");
    const v1::TrainingConfig& config = ConfigOf(job);
    fields->Add("method", config.method());
    fields->Add("budget", BudgetText(config));
    fields->Add("seed", fmt::format("{}", config.seed()));
    fields->Add("background", std::string(BackgroundWord(config.background())));
    fields->Add("init", config.init().model() + config.init().checkpoint());
    fields->Add("init reason", status.init_reason());
    // Sorted, because the map's order differs from run to run.
    const std::map<std::string, std::string> settings(job.training().config().settings().begin(),
                                                      job.training().config().settings().end());
    for (const auto& [key, value] : settings) fields->Add("set", fmt::format("{}={}", key, value));
  }
  void PrintTables(const Printer& printer, const v1::Job& job) const override {
    if (job.training_status().checkpoints().empty()) return;
    printer.out << '\n';
    TextTable table({"CHECKPOINT", "STEP", "PREVIEW dB", "SIZE", "AGE"});
    for (const v1::Checkpoint& checkpoint : job.training_status().checkpoints()) {
      table.AddRow({ShortName(checkpoint.name()), fmt::format("{}", checkpoint.step()),
                    checkpoint.has_psnr() ? DbText(checkpoint.psnr()) : "",
                    FormatBytes(checkpoint.checkpoint_blob().size_bytes()),
                    FormatAge(ToTime(checkpoint.create_time()), printer.now)});
    }
    table.Print(printer.out);
  }

  std::optional<ProgressLine> LineOf(const v1::Job& job, absl::Duration age) const override {
    const v1::Progress& progress = job.training_status().progress();
    const bool is_shown = !IsFinal(job.state()) || job.state() == v1::Job::SUCCEEDED;
    if (!job.training_status().has_progress() || !is_shown) return std::nullopt;
    std::string details;
    const auto add = [&](std::string part) { details += (details.empty() ? "" : "  ") + part; };
    if (std::string evaluation = Doing(job); !evaluation.empty()) add(evaluation);
    if (progress.loss() > 0) add(fmt::format("loss {:.4f}", progress.loss()));
    if (const std::string psnr = PsnrText(job); !psnr.empty()) add(psnr);
    if (progress.samples_per_second() > 0 && progress.evaluation_views() == 0) {
      add(FormatCount(progress.samples_per_second()) + " samples/s");
    }
    const double eta = progress.eta_seconds() - absl::ToDoubleSeconds(age);
    if (eta > 0) add("eta " + FormatClock(eta));
    // The bar shows the percentage already.
    std::string step = StepText(job);
    step = step.substr(0, step.find(' '));
    return ProgressLine{.fraction = progress.fraction(),
                        .label = fmt::format("step  {}", step),
                        .details = std::move(details),
                        .json = ToJson(progress, /*pretty=*/false)};
  }
  bool CountsDown(const v1::Job& job) const override { return IsEvaluating(job); }
  // Checkpoints; once, the sizes of pictures, and why the evaluation will take long.
  std::vector<std::string> News(const v1::WatchJobResponse& message,
                                const v1::Job& before) const override {
    const v1::Job& job = message.job();
    std::vector<std::string> news;
    if (message.kind() == v1::WatchJobResponse::CHECKPOINT_COMMITTED &&
        NewestStep(job) > NewestStep(before)) {  // not retired since
      news.push_back(fmt::format("checkpoint {}",
                                 ShortName(job.training_status().checkpoints().rbegin()->name())));
    }
    if (SaysPictures(job) && !SaysPictures(before)) news.push_back("pictures " + PicturesText(job));
    const double seconds = SecondsLeft(job);
    if (!IsEvaluating(job) || (IsEvaluating(before) && SecondsLeft(before) > 0)) return news;
    const std::string reason = SlownessOf(job, absl::Seconds(seconds));
    if (reason.empty()) return news;
    news.push_back(fmt::format("{}; the test views take about {}", reason, FormatClock(seconds)));
    return news;
  }
  std::string Start(const v1::Job& job) const override {
    if (job.training_status().checkpoints().empty()) return "from the start";
    return fmt::format("from checkpoint at step {}", NewestStep(job));
  }

  std::string EndLine(const v1::Job& job) const override {
    const v1::Progress& progress = job.training_status().progress();
    std::string line = fmt::format("{}  {}  step {}", StateText(job.state()), ShortName(job.name()),
                                   progress.step());
    if (const std::string psnr = PsnrText(job); !psnr.empty()) line += "  " + psnr;
    if (progress.seconds() > 0) {
      line += fmt::format("  {} of training", FormatClock(progress.seconds()));
    }
    return line;
  }
  std::vector<std::string> Remarks(const v1::Job& job) const override {
    if (!job.training_status().has_final_psnr()) return {};
    const v1::Progress& progress = job.training_status().progress();
    return LowPsnrAdvice(
        {.psnr = job.training_status().final_psnr(),
         .psnr_train = progress.psnr_train(),
         .samples = progress.samples(),
         .n_train_views = 0,  // the job does not say
         .check_command = "nerfctl scene check " + ShortName(job.training().scene())});
  }
  std::string NextCommand(const v1::Job& job) const override {
    const std::string id = ShortName(job.name());
    if (job.state() == v1::Job::SUCCEEDED) {
      return fmt::format(
          "nerfctl render --job {0} --out {0}-views   (nerfctl model promote {0} keeps it)", id);
    }
    if (job.state() != v1::Job::CANCELLED) return "";
    return fmt::format("nerfctl job retry {} --watch   ({})", id,
                       NewestStep(job) > 0 ? "trains on from its last checkpoint" : "begins anew");
  }
  // The model of its newest checkpoint.
  std::vector<JobFile> FilesOf(const v1::Job& job) const override {
    const auto& checkpoints = job.training_status().checkpoints();
    if (checkpoints.empty()) return {};
    return {{ShortName(job.name()) + ".safetensors", checkpoints.rbegin()->model_blob()}};
  }
};

}  // namespace

const KindView& TrainingKindView() {
  static const auto* const kKind = new TrainingJobs;
  return *kKind;
}

std::string StepText(const v1::Job& job) {
  if (!job.training_status().has_progress()) return "";
  const v1::Progress& progress = job.training_status().progress();
  const v1::TrainingConfig& config = ConfigOf(job);
  if (config.budget_case() == v1::TrainingConfig::kSteps) {
    return fmt::format("{}/{}", progress.step(), config.steps());
  }
  return fmt::format("{} ({}%)", progress.step(), WholePercent(progress.fraction()));
}

std::string PsnrText(const v1::Job& job) {
  if (job.training_status().has_final_psnr())
    return fmt::format("test PSNR {} dB", DbText(job.training_status().final_psnr()));
  const v1::Progress& progress = job.training_status().progress();
  if (!progress.has_psnr_preview()) return "";
  return "preview PSNR " + PreviewText(progress);
}

std::string PicturesText(const v1::Job& job) {
  const std::string trained = SizeText(job, "trained"), evaluated = SizeText(job, "evaluated");
  std::string text = SizeText(job, "picture");
  if (text.empty()) text = trained;
  if (trained != text) text += ", trained at " + trained;
  if (!evaluated.empty() && evaluated != trained) text += ", evaluated at " + evaluated;
  return text;
}

bool ArePicturesReduced(const v1::Job& job) {
  return PicturesText(job).find(' ') != std::string::npos;
}

std::string SlownessOf(const v1::Job& job, absl::Duration expected) {
  const double share = Figure(job, "occupied_share");
  return SlowViewsReason(expected, share > 0 ? std::optional(share) : std::nullopt);
}

}  // namespace nerf
