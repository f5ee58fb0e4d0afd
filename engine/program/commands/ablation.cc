#include "engine/program/commands/ablation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "fmt/format.h"

namespace nerf {
namespace {

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

double Mean(const std::vector<double>& values) {
  if (values.empty()) return kUnknownFigure;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

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

double AblationRow::MeanPsnr() const { return Mean(psnrs); }
double AblationRow::MeanSecondsToPsnr() const { return Mean(seconds_to_psnr); }

double SecondsToPsnr(const std::vector<BudgetResult>& results, double target) {
  if (results.empty() || !(results.back().psnr >= target)) return kUnknownFigure;
  const BudgetResult& above = results.back();
  if (results.size() == 1) return above.seconds;
  const BudgetResult& below = results[results.size() - 2];
  const double share = (target - below.psnr) / (above.psnr - below.psnr);
  return below.seconds * std::pow(above.seconds / below.seconds, share);
}

void AddToRow(const TrainSummary& summary, double cpu_seconds, AblationRow* row) {
  row->psnrs.push_back(summary.psnr.value_or(kUnknownFigure));
  const auto n = static_cast<double>(row->psnrs.size());
  const auto add = [n](double value, double* mean) { *mean += (value - *mean) / n; };
  add(summary.samples, &row->samples);
  add(summary.seconds, &row->seconds);
  add(cpu_seconds, &row->cpu_seconds);
  row->peak_rss_bytes = std::max(row->peak_rss_bytes, summary.peak_rss_bytes);
}

std::string AblationHead(double target_psnr) {
  std::string head =
      fmt::format("{:<32} {:>9} {:>8} {:>8} {:>9} {:>8} {:>7} {:>7}", "TECHNIQUE", "M SAMPLES",
                  "SECONDS", "CPU S", "PEAK MIB", "PSNR DB", "GAIN", "SPREAD");
  if (target_psnr > 0) {
    head += fmt::format(" {:>11}", fmt::format("S TO {:g} DB", target_psnr));
  }
  return head;
}

std::string AblationLine(const AblationRow& row, double baseline_psnr) {
  if (!row.failure.empty()) return fmt::format("{:<32} failed: {}", row.name, row.failure);
  const double psnr = row.MeanPsnr();
  const auto number = [](double value, const char* sign) {
    return std::isfinite(value) ? fmt::format("{}{:.2f}", value >= 0 ? sign : "", value) : "-";
  };
  const double spread = row.psnrs.size() < 2 ? kUnknownFigure
                                             : *std::ranges::max_element(row.psnrs) -
                                                   *std::ranges::min_element(row.psnrs);
  std::string line =
      fmt::format("{:<32} {:>9.1f} {:>8.1f} {:>8.1f} {:>9.0f} {:>8} {:>7} {:>7}", row.name,
                  row.samples / 1e6, row.seconds, row.cpu_seconds, row.peak_rss_bytes / 1048576,
                  number(psnr, ""), number(psnr - baseline_psnr, "+"), number(spread, ""));
  if (!row.seconds_to_psnr.empty()) {
    const double seconds = row.MeanSecondsToPsnr();
    line += fmt::format(" {:>11}", std::isfinite(seconds) ? fmt::format("{:.1f}", seconds) : "-");
  }
  return line;
}

void SetAblationRow(const AblationRow& row, JsonObject* object) {
  JsonObject& o = *object;
  o["name"] = row.name;
  if (!row.failure.empty()) {
    o["failure"] = row.failure;
    return;
  }
  o["samples"] = JsonNumber(row.samples);
  o["seconds"] = JsonNumber(row.seconds);
  o["cpu_seconds"] = JsonNumber(row.cpu_seconds);
  o["peak_rss_bytes"] = JsonNumber(row.peak_rss_bytes);
  o["psnr"] = JsonNumber(row.MeanPsnr());
  o["psnr_of_seeds"] = JsonObject::array();
  for (const double psnr : row.psnrs) o["psnr_of_seeds"].push_back(JsonNumber(psnr));
  if (!row.seconds_to_psnr.empty()) o["seconds_to_psnr"] = JsonNumber(row.MeanSecondsToPsnr());
}

}  // namespace nerf
