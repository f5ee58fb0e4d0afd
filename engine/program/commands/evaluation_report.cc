#include "engine/program/commands/evaluation_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/status_macros.h"
#include "engine/field/files/checkpoint.h"
#include "engine/scene/pictures/image_compare.h"
#include "engine/scene/pictures/image_io.h"
#include "engine/views/measure/image_metrics.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr char kPhotographs[] = "/photographs";
constexpr size_t kMaxName = 200;  // bytes, of a file without what is added to it

}  // namespace

void AddScoreOptions(CLI::App* command, ScoreFlags* flags) {
  command
      ->add_option(
          "--lpips", flags->lpips,
          "also LPIPS of the views: FILE has the weights of AlexNet and of LPIPS 0.1; give "
          "it twice where they are in two files")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_option("--images", flags->images,
                      "write the views of the evaluation to this folder, and what they are "
                      "compared with to its folder photographs");
}

absl::StatusOr<ScoreOutput> ScoreOutput::Open(const ScoreFlags& flags) {
  ScoreOutput output;
  if (!flags.lpips.empty()) {
    NERF_ASSIGN_OR_RETURN(output.lpips_, Lpips::Load(flags.lpips));
  }
  if (flags.images.empty()) return output;
  NERF_ASSIGN_OR_RETURN(MadeFolder made, MadeFolder::Make(flags.images + kPhotographs));
  output.folder_.emplace(std::move(made));
  output.images_ = flags.images;
  return output;
}

absl::Status ScoreOutput::WriteView(const View& view, const ImageU8& rendered,
                                    Background background, bool has_mask) {
  if (images_.empty()) return absl::OkStatus();
  std::string name = std::filesystem::path(view.file).replace_extension("").string();
  for (char& c : name) {
    if (c == '/' || c == '\\') c = '_';
  }
  if (name.size() > kMaxName) name.erase(0, name.size() - kMaxName);
  const std::string wanted = name;
  for (int n = 2; !names_.insert(name).second; ++n) name = fmt::format("{}_{}", wanted, n);
  const std::string file = "/" + name + ".png";
  NERF_RETURN_IF_ERROR(WritePng(images_ + file, rendered));
  return WritePng(
      images_ + kPhotographs + file,
      has_mask ? WithoutAlpha(view.image) : CompositedOn(view.image, BackgroundColor(background)));
}

void SortWorstFirst(std::vector<ImageScore>* images) {
  const auto rank = [](const ImageScore& image) {
    return std::isnan(image.psnr) ? std::numeric_limits<double>::infinity() : image.psnr;
  };
  std::stable_sort(images->begin(), images->end(),
                   [&](const ImageScore& a, const ImageScore& b) { return rank(a) < rank(b); });
}

void SetEvaluation(const EvaluationResult& result, Background background, bool has_lpips,
                   JsonObject* object) {
  JsonObject& o = *object;
  o["psnr"] = JsonNumber(result.psnr);
  o["ssim"] = JsonNumber(result.ssim);
  o["psnr_color_aligned"] = JsonNumber(result.psnr_color_aligned);
  if (has_lpips) o["lpips"] = JsonNumber(result.lpips);
  o["images"] = result.images.size();
  o["background"] = BackgroundName(background);
  const Specks& specks = result.specks;
  o["specks"] = {{"pixels", specks.n_pixels()},
                 {"mean", JsonNumber(specks.Mean())},
                 {"percentile_99_9", JsonNumber(specks.Percentile(0.999))}};
  o["seconds_per_image"] = JsonNumber(result.seconds_per_image);
  JsonObject per_image = JsonObject::array();
  for (const ImageScore& image : result.images) {
    JsonObject entry;
    entry["file"] = image.file;
    entry["psnr"] = JsonNumber(image.psnr);
    entry["ssim"] = JsonNumber(image.ssim);
    entry["psnr_color_aligned"] = JsonNumber(image.psnr_color_aligned);
    if (has_lpips) entry["lpips"] = JsonNumber(image.lpips);
    per_image.push_back(std::move(entry));
  }
  o["per_image"] = std::move(per_image);
}

absl::Status WriteEvaluation(const JsonObject& object, const std::string& folder) {
  return WriteFileAtomically(
      folder + "/eval.json",
      object.dump(1, ' ', false, JsonObject::error_handler_t::replace) + "\n");
}

}  // namespace nerf
