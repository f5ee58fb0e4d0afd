#include "engine/program/commands/ablation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kMaxFolderName = 100;  // bytes; file systems take 255

// Keys that are flags of `train` of their own.
constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
    {"method", "--method"},
    {"init", "--init"},
    {"init_scope", "--init-scope"},
    {"batches_ahead", "--batches-ahead"},
    {"threads", "--threads"}};

void Change(std::string_view key, const std::string& value, AblationVariant* variant) {
  if (!variant->name.empty()) variant->name += ' ';
  variant->name += fmt::format("{}={}", key, value);
  if (key == "simd") {
    variant->environment.emplace_back("NERF_SIMD", value);
    return;
  }
  const auto* const flag = std::find_if(std::begin(kFlags), std::end(kFlags),
                                        [&](const auto& known) { return known.first == key; });
  if (flag != std::end(kFlags)) {
    variant->arguments.insert(variant->arguments.end(), {std::string(flag->second), value});
  } else {
    variant->arguments.insert(variant->arguments.end(),
                              {"--set", fmt::format("{}={}", key, value)});
  }
}

// Of a figure of the runs; NaN without any, or where one is not known.
template <typename Figure>
double Mean(const AblationRow& row, Figure figure) {
  double sum = row.runs.empty() ? kUnknownFigure : 0;
  for (const AblationRun& run : row.runs) sum += figure(run);
  return sum / static_cast<double>(row.runs.size());
}

double PsnrOf(const AblationRun& run) { return run.summary.psnr.value_or(kUnknownFigure); }
double SsimOf(const AblationRun& run) { return run.summary.ssim.value_or(kUnknownFigure); }
double LpipsOf(const AblationRun& run) { return run.summary.lpips.value_or(kUnknownFigure); }

// NaN of one seed.
double Spread(const AblationRow& row) {
  if (row.runs.size() < 2) return kUnknownFigure;
  std::vector<double> psnrs;
  for (const AblationRun& run : row.runs) psnrs.push_back(PsnrOf(run));
  return *std::ranges::max_element(psnrs) - *std::ranges::min_element(psnrs);
}

struct AblationMeans {
  double samples, seconds, cpu_seconds, ssim, lpips, seconds_to_psnr, peak_rss_bytes = 0;
};
AblationMeans MeansOf(const AblationRow& row) {
  AblationMeans means;
  means.samples = Mean(row, [](const AblationRun& run) { return run.summary.samples; });
  means.seconds = Mean(row, [](const AblationRun& run) { return run.summary.seconds; });
  means.cpu_seconds = Mean(row, [](const AblationRun& run) { return run.cpu_seconds; });
  means.ssim = Mean(row, SsimOf);
  means.lpips = Mean(row, LpipsOf);
  means.seconds_to_psnr = Mean(row, [](const AblationRun& run) { return run.seconds_to_psnr; });
  for (const AblationRun& run : row.runs)
    means.peak_rss_bytes = std::max(means.peak_rss_bytes, run.summary.peak_rss_bytes);
  return means;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of("\",\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string CsvNumber(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

}  // namespace

absl::StatusOr<AblationSwitch> ParseAblationSwitch(std::string_view text) {
  const size_t equals = text.find('=');
  AblationSwitch parsed;
  parsed.key = text.substr(0, equals);
  if (equals == std::string_view::npos || parsed.key.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--vary {}: must be KEY=VALUE or KEY=VALUE,VALUE", text.substr(0, 64)));
  }
  std::string_view rest = text.substr(equals + 1);
  while (true) {
    const size_t comma = rest.find(',');
    parsed.values.emplace_back(rest.substr(0, comma));
    if (parsed.values.back().empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--vary {}: a value is empty", text.substr(0, 64)));
    }
    if (comma == std::string_view::npos) return parsed;
    rest.remove_prefix(comma + 1);
  }
}

std::vector<AblationVariant> AblationVariants(const std::vector<AblationSwitch>& switches,
                                              bool cross) {
  std::vector<AblationVariant> variants(1);
  for (const AblationSwitch& s : switches) {
    const size_t n_before = cross ? variants.size() : 1;
    for (const std::string& value : s.values) {
      for (size_t i = 0; i < n_before; ++i) {
        AblationVariant variant = variants[i];
        Change(s.key, value, &variant);
        variants.push_back(std::move(variant));
      }
    }
  }
  variants[0].name = "baseline";
  return variants;
}

std::vector<std::string> FolderNames(const std::vector<AblationVariant>& variants) {
  std::vector<std::string> names;
  for (const AblationVariant& variant : variants) {
    std::string name = variant.name.substr(0, kMaxFolderName);
    for (char& c : name) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && !std::strchr("=.-_", c)) c = '_';
    }
    const std::string stem = name;
    for (int i = 2; std::ranges::find(names, name) != names.end(); ++i)
      name = fmt::format("{}_{}", stem, i);
    names.push_back(std::move(name));
  }
  return names;
}

double AblationRow::MeanPsnr() const { return Mean(*this, PsnrOf); }

double SecondsToPsnr(const std::vector<BudgetResult>& results, double target) {
  if (results.empty() || !(results.back().psnr >= target)) return kUnknownFigure;
  const BudgetResult& above = results.back();
  if (results.size() == 1) return above.seconds;
  const BudgetResult& below = results[results.size() - 2];
  const double share = (target - below.psnr) / (above.psnr - below.psnr);
  return below.seconds * std::pow(above.seconds / below.seconds, share);
}

std::string AblationHead(const AblationColumns& columns) {
  std::string head =
      fmt::format("{:<28} {:>9} {:>8} {:>8} {:>9} {:>8} {:>7} {:>7} {:>7}", "TECHNIQUE",
                  "M SAMPLES", "SECONDS", "CPU S", "PEAK MIB", "PSNR DB", "GAIN", "SPREAD", "SSIM");
  if (columns.has_lpips) head += fmt::format(" {:>7}", "LPIPS");
  if (columns.target_psnr > 0)
    head += fmt::format(" {:>11}", fmt::format("S TO {:g} DB", columns.target_psnr));
  return head;
}

std::string AblationLine(const AblationRow& row, double baseline_psnr,
                         const AblationColumns& columns) {
  if (!row.failure.empty()) return fmt::format("{:<28} failed: {}", row.name, row.failure);
  const double psnr = row.MeanPsnr();
  const AblationMeans means = MeansOf(row);
  const auto number = [](double value, const char* sign, int digits) {
    if (!std::isfinite(value)) return std::string("-");
    return fmt::format("{}{:.{}f}", value >= 0 ? sign : "", value, digits);
  };
  std::string line = fmt::format(
      "{:<28} {:>9.1f} {:>8.1f} {:>8.1f} {:>9.0f} {:>8} {:>7} {:>7} {:>7}", row.name,
      means.samples / 1e6, means.seconds, means.cpu_seconds, means.peak_rss_bytes / 1048576,
      number(psnr, "", 2), number(psnr - baseline_psnr, "+", 2), number(Spread(row), "", 2),
      number(means.ssim, "", 4));
  if (columns.has_lpips) line += fmt::format(" {:>7}", number(means.lpips, "", 4));
  if (columns.target_psnr > 0) line += fmt::format(" {:>11}", number(means.seconds_to_psnr, "", 1));
  return line;
}

void SetAblationRow(const AblationRow& row, const AblationColumns& columns, JsonObject* object) {
  JsonObject& o = *object;
  o["name"] = row.name;
  if (!row.failure.empty()) {
    o["failure"] = row.failure;
    return;
  }
  const AblationMeans means = MeansOf(row);
  o["samples"] = JsonNumber(means.samples);
  o["seconds"] = JsonNumber(means.seconds);
  o["cpu_seconds"] = JsonNumber(means.cpu_seconds);
  o["peak_rss_bytes"] = JsonNumber(means.peak_rss_bytes);
  o["psnr"] = JsonNumber(row.MeanPsnr());
  o["psnr_of_seeds"] = JsonObject::array();
  for (const AblationRun& run : row.runs) o["psnr_of_seeds"].push_back(JsonNumber(PsnrOf(run)));
  o["ssim"] = JsonNumber(means.ssim);
  if (columns.has_lpips) o["lpips"] = JsonNumber(means.lpips);
  if (columns.target_psnr > 0) o["seconds_to_psnr"] = JsonNumber(means.seconds_to_psnr);
}

std::string AblationCsv(const std::vector<AblationRow>& rows) {
  std::string csv =
      "technique,seed,samples,seconds,cpu_seconds,peak_rss_bytes,psnr,ssim,lpips,seconds_to_psnr,"
      "folder,failure\n";
  for (const AblationRow& row : rows) {
    const std::string name = CsvField(row.name);
    for (const AblationRun& run : row.runs) {
      csv += fmt::format("{},{}", name, run.seed);
      for (const double figure :
           {run.summary.samples, run.summary.seconds, run.cpu_seconds, run.summary.peak_rss_bytes,
            PsnrOf(run), SsimOf(run), LpipsOf(run), run.seconds_to_psnr}) {
        csv += ',' + CsvNumber(figure);
      }
      csv += fmt::format(",{},\n", CsvField(run.folder));
    }
    if (row.failure.empty()) continue;
    csv += fmt::format("{},{},,,,,,,,,,{}\n", name, row.runs.size() + 1, CsvField(row.failure));
  }
  return csv;
}

}  // namespace nerf
