#include "server/store/curve_codec.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/error_reason.h"

namespace nerf {
namespace {

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

}  // namespace

std::string EncodeCurve(const TrainingCurve& curve) {
  std::string bytes;
  bytes.reserve(curve.points().size() * kPointBytes);
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
  if (bytes.size() % kPointBytes != 0) return corrupt();
  std::vector<CurvePoint> points;
  for (; !bytes.empty(); bytes.remove_prefix(kPointBytes)) {
    std::array<double, kNumbers> n;
    for (size_t i = 0; i < kNumbers; ++i) n[i] = GetDouble(bytes.substr(i * sizeof(double)));
    const bool is_step = n[0] >= 1 && n[0] <= 0xffffffffu && n[0] == std::floor(n[0]);
    if (!is_step || (!points.empty() && n[0] <= points.back().step)) return corrupt();
    points.push_back({static_cast<uint32_t>(n[0]), n[1], n[2], n[3], n[4], n[5],
                      std::isnan(n[6]) ? std::nullopt : std::optional(n[6])});
  }
  return TrainingCurve(std::move(points));
}

}  // namespace nerf
