#include "client/show/job_progress.h"

#include <optional>

#include "client/flags/text_format.h"
#include "client/show/job_words.h"
#include "client/show/resource_printers.h"
#include "engine/config/slow_views.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// 0 where it is not known.
double Figure(const v1::TrainingJob& job, const std::string& name) {
  const auto found = job.progress().figures().find(name);
  return found == job.progress().figures().end() ? 0 : found->second;
}

// "918x1632"; empty where it is not known.
std::string SizeText(const v1::TrainingJob& job, const std::string& which) {
  const double width = Figure(job, which + "_width"), height = Figure(job, which + "_height");
  return width > 0 && height > 0 ? fmt::format("{:.0f}x{:.0f}", width, height) : "";
}

}  // namespace

ProgressLine ProgressOf(const v1::TrainingJob& job, absl::Duration age) {
  const v1::Progress& progress = job.progress();
  std::string details;
  const auto add = [&](std::string part) { details += (details.empty() ? "" : "  ") + part; };
  if (std::string evaluation = EvaluationText(job); !evaluation.empty()) add(evaluation);
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
  return {.fraction = progress.fraction(),
          .label = fmt::format("step  {}", step),
          .details = std::move(details),
          .json = ToJson(progress, /*pretty=*/false)};
}

bool IsEvaluating(const v1::TrainingJob& job) { return !EvaluationText(job).empty(); }

std::string PicturesText(const v1::TrainingJob& job) {
  const std::string trained = SizeText(job, "trained"), evaluated = SizeText(job, "evaluated");
  std::string text = SizeText(job, "picture");
  if (text.empty()) text = trained;
  if (trained != text) text += ", trained at " + trained;
  if (!evaluated.empty() && evaluated != trained) text += ", evaluated at " + evaluated;
  return text;
}

bool ArePicturesReduced(const v1::TrainingJob& job) {
  return PicturesText(job).find(' ') != std::string::npos;
}

std::string SlownessOf(const v1::TrainingJob& job, absl::Duration expected) {
  const double share = Figure(job, "occupied_share");
  return SlowViewsReason(expected, share > 0 ? std::optional(share) : std::nullopt);
}

}  // namespace nerf
