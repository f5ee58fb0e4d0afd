#include "server/store/curve_codec.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "common/error_reason.h"
#include "common/packed_strings.h"

namespace nerf {
namespace {

// Stands where the first point's step would: as a double it is no step.
constexpr std::string_view kScoresMagic = "nerfcrv2";
constexpr size_t kNumbers = 7;
constexpr size_t kPointBytes = kNumbers * sizeof(double);

void PutDouble(double value, std::string* bytes) {
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) bytes->push_back(static_cast<char>(bits >> shift));
}

double GetDouble(std::string_view bytes) {
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof(double); ++i) {
    bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return std::bit_cast<double>(bits);
}

void PutScores(const std::vector<TestViewScore>& scores, std::string* bytes) {
  std::vector<std::string> texts;
  for (const TestViewScore& score : scores) {
    texts.push_back(score.file);
    PutDouble(score.psnr, &texts.emplace_back());
  }
  const std::string packed = PackStrings(texts);
  *bytes += kScoresMagic;
  PutDouble(static_cast<double>(packed.size()), bytes);
  *bytes += packed;
}

// Takes what PutScores has written from the front of *bytes; nullopt for other bytes.
std::optional<std::vector<TestViewScore>> TakeScores(std::string_view* bytes) {
  std::vector<TestViewScore> scores;
  if (!bytes->starts_with(kScoresMagic)) return scores;
  bytes->remove_prefix(kScoresMagic.size());
  if (bytes->size() < sizeof(double)) return std::nullopt;
  const double size = GetDouble(*bytes);
  bytes->remove_prefix(sizeof(double));
  if (!(size >= 0 && size <= static_cast<double>(bytes->size()))) return std::nullopt;
  const auto texts = UnpackStrings(bytes->substr(0, static_cast<size_t>(size)));
  if (!texts.has_value() || texts->size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < texts->size(); i += 2) {
    if ((*texts)[i + 1].size() != sizeof(double)) return std::nullopt;
    scores.push_back({(*texts)[i], GetDouble((*texts)[i + 1])});
  }
  bytes->remove_prefix(static_cast<size_t>(size));
  return scores;
}

}  // namespace

std::string EncodeCurve(const TrainingCurve& curve) {
  std::string bytes;
  bytes.reserve(curve.points().size() * kPointBytes);
  if (!curve.test_views().empty()) PutScores(curve.test_views(), &bytes);
  for (const CurvePoint& point : curve.points()) {
    for (const double number :
         {static_cast<double>(point.step), point.seconds, point.loss, point.psnr_train,
          point.rays_per_second, point.samples_per_second,
          point.psnr_preview.value_or(std::numeric_limits<double>::quiet_NaN())}) {
      PutDouble(number, &bytes);
    }
  }
  return bytes;
}

absl::StatusOr<TrainingCurve> DecodeCurve(std::string_view bytes) {
  const auto corrupt = [] {
    return WithReason(absl::DataLossError("the stored curves of a job are damaged"),
                      reason::kStoreCorrupt);
  };
  std::optional<std::vector<TestViewScore>> scores = TakeScores(&bytes);
  if (!scores.has_value() || bytes.size() % kPointBytes != 0) return corrupt();
  std::vector<CurvePoint> points;
  for (; !bytes.empty(); bytes.remove_prefix(kPointBytes)) {
    std::array<double, kNumbers> n;
    for (size_t i = 0; i < kNumbers; ++i) n[i] = GetDouble(bytes.substr(i * sizeof(double)));
    const bool is_step = n[0] >= 1 && n[0] <= 0xffffffffu && n[0] == std::floor(n[0]);
    if (!is_step || (!points.empty() && n[0] <= points.back().step)) return corrupt();
    points.push_back({static_cast<uint32_t>(n[0]), n[1], n[2], n[3], n[4], n[5],
                      std::isnan(n[6]) ? std::nullopt : std::optional(n[6])});
  }
  return TrainingCurve(std::move(points), *std::move(scores));
}

}  // namespace nerf
