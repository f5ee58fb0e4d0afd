#include "engine/field/kernels/splat_tiles.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/splat_tiles.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowTag = hn::CappedTag<float, kSplatTile>;
using RowFloats = hn::Vec<RowTag>;

constexpr int kPixels = kSplatTile * kSplatTile;
constexpr int kCheckEvery = 16;  // splats between looks at whether light is left

// exp(x) for x in [-80, 0], to 3e-7 of its value: a power of two times a polynomial.
HWY_INLINE RowFloats ExpOfNegative(RowTag d, RowFloats x) {
  const hn::RebindToSigned<RowTag> di;
  const RowFloats scaled = hn::Mul(x, hn::Set(d, 1.44269504f));
  const RowFloats whole = hn::Round(scaled);
  const RowFloats rest = hn::Sub(scaled, whole);
  RowFloats value = hn::Set(d, 1.33335581e-3f);
  for (const float term : {9.61812911e-3f, 5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f, 1.0f})
    value = hn::MulAdd(value, rest, hn::Set(d, term));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, whole), hn::Set(di, 127)));
  return hn::Mul(value, hn::BitCast(d, exponent));
}

// The pixels of a tile that a splat may reach: rows, and vectors of a row.
struct Reached {
  int first_row, last_row, first_vector, last_vector;  // the last ones are not reached

  HWY_INLINE Reached(const FlatSplat& splat, const SplatTileParams& params, int lanes) {
    const auto clamped = [](float pixel) {
      return static_cast<int>(std::clamp(pixel, 0.0f, static_cast<float>(kSplatTile)));
    };
    const float x = splat.x - static_cast<float>(params.left);
    const float y = splat.y - static_cast<float>(params.top);
    first_row = clamped(y - splat.reach_y);
    last_row = clamped(y + splat.reach_y + 1);
    first_vector = clamped(x - splat.reach_x) / lanes;
    last_vector = (clamped(x + splat.reach_x + 1) + lanes - 1) / lanes;
  }
};

// One splat in vectors of pixels.
struct SplatLanes {
  RowTag d;
  RowFloats half_a, b, opacity, least, most;
  float half_c, y;

  HWY_INLINE explicit SplatLanes(const FlatSplat& splat)
      : half_a(hn::Set(d, -0.5f * splat.a)),
        b(hn::Set(d, -splat.b)),
        opacity(hn::Set(d, splat.opacity)),
        least(hn::Set(d, kMinSplatAlpha)),
        most(hn::Set(d, kMaxSplatAlpha)),
        half_c(-0.5f * splat.c),
        y(splat.y) {}

  // Alphas before their upper bound; 0 below the lower one.
  HWY_INLINE RowFloats Alphas(RowFloats dx, float dy) const {
    const RowFloats power = hn::MulAdd(dx, hn::MulAdd(half_a, dx, hn::Mul(b, hn::Set(d, dy))),
                                       hn::Set(d, half_c * dy * dy));
    const RowFloats bounded = hn::Max(hn::Min(power, hn::Zero(d)), hn::Set(d, -80.0f));
    const RowFloats alpha = hn::Mul(opacity, ExpOfNegative(d, bounded));
    return hn::IfThenElseZero(hn::Ge(alpha, least), alpha);
  }
};

HWY_INLINE bool IsDark(const float* transmittances) {
  const RowTag d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  RowFloats brightest = hn::Zero(d);
  for (int i = 0; i < kPixels; i += lanes)
    brightest = hn::Max(brightest, hn::Load(d, transmittances + i));
  return hn::GetLane(hn::MaxOfLanes(d, brightest)) < kMinSplatTransmittance;
}

// The places of pixel centers on the x axis, from that of the tile's first pixel on.
HWY_INLINE RowFloats CentersAt(RowTag d, int left, int column) {
  return hn::Iota(d, static_cast<float>(left + column) + 0.5f);
}

int DrawSplatTile(const SplatTileParams& params, SplatTilePixels* pixels) {
  const RowTag d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int i = 0; i < kPixels; i += lanes) {
    for (float* const channel : pixels->colors) hn::Store(hn::Zero(d), d, channel + i);
    hn::Store(hn::Set(d, 1.0f), d, pixels->transmittances + i);
  }
  for (int entry = 0; entry < params.n; ++entry) {
    if (entry % kCheckEvery == kCheckEvery - 1 && IsDark(pixels->transmittances)) return entry;
    const FlatSplat& splat = params.splats[params.order[entry]];
    const SplatLanes splat_lanes(splat);
    const Reached reached(splat, params, lanes);
    const RowFloats red = hn::Set(d, splat.color.x), green = hn::Set(d, splat.color.y),
                    blue = hn::Set(d, splat.color.z);
    for (int row = reached.first_row; row < reached.last_row; ++row) {
      const float dy = static_cast<float>(params.top + row) + 0.5f - splat.y;
      for (int vector = reached.first_vector; vector < reached.last_vector; ++vector) {
        const int column = vector * lanes, i = row * kSplatTile + column;
        const RowFloats dx = hn::Sub(CentersAt(d, params.left, column), hn::Set(d, splat.x));
        const RowFloats alpha = hn::Min(splat_lanes.Alphas(dx, dy), splat_lanes.most);
        const RowFloats transmittance = hn::Load(d, pixels->transmittances + i);
        const RowFloats weight = hn::Mul(transmittance, alpha);
        hn::Store(hn::MulAdd(weight, red, hn::Load(d, pixels->colors[0] + i)), d,
                  pixels->colors[0] + i);
        hn::Store(hn::MulAdd(weight, green, hn::Load(d, pixels->colors[1] + i)), d,
                  pixels->colors[1] + i);
        hn::Store(hn::MulAdd(weight, blue, hn::Load(d, pixels->colors[2] + i)), d,
                  pixels->colors[2] + i);
        hn::Store(hn::Sub(transmittance, weight), d, pixels->transmittances + i);
      }
    }
  }
  return params.n;
}

// The loss changes with the alpha of a splat by what it shows, less what is hidden behind it:
//   dL/dalpha_k = T_k (g . c_k) - (sum over j > k of w_j (g . c_j) + T_end g_T) / (1 - alpha_k).
// The sum is that over all splats, known from the picture, less that over the ones up to k.
void BackwardSplatTile(const SplatTileParams& params, const SplatTilePixels& drawn,
                       const SplatTilePixels& gradients, FlatSplatGradient* splat_gradients) {
  const RowTag d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) float transmittances[kPixels];
  alignas(64) float behind[kPixels];  // the sum above, of the splats that are still to come
  for (int i = 0; i < kPixels; i += lanes) {
    hn::Store(hn::Set(d, 1.0f), d, transmittances + i);
    RowFloats sum =
        hn::Mul(hn::Load(d, drawn.transmittances + i), hn::Load(d, gradients.transmittances + i));
    for (int channel = 0; channel < 3; ++channel) {
      sum = hn::MulAdd(hn::Load(d, drawn.colors[channel] + i),
                       hn::Load(d, gradients.colors[channel] + i), sum);
    }
    hn::Store(sum, d, behind + i);
  }
  const RowFloats one = hn::Set(d, 1.0f);
  for (int entry = 0; entry < params.n; ++entry) {
    const FlatSplat& splat = params.splats[params.order[entry]];
    const SplatLanes splat_lanes(splat);
    const Reached reached(splat, params, lanes);
    const RowFloats red = hn::Set(d, splat.color.x), green = hn::Set(d, splat.color.y),
                    blue = hn::Set(d, splat.color.z);
    // Of v = dL/d(exponent): its sum, and those weighted by dx, dy and their products.
    RowFloats v = hn::Zero(d), vx = v, vy = v, vxx = v, vxy = v, vyy = v, by_red = v, by_green = v,
              by_blue = v;
    for (int row = reached.first_row; row < reached.last_row; ++row) {
      const float dy = static_cast<float>(params.top + row) + 0.5f - splat.y;
      const RowFloats dys = hn::Set(d, dy);
      for (int vector = reached.first_vector; vector < reached.last_vector; ++vector) {
        const int column = vector * lanes, i = row * kSplatTile + column;
        const RowFloats dx = hn::Sub(CentersAt(d, params.left, column), hn::Set(d, splat.x));
        const RowFloats free_alpha = splat_lanes.Alphas(dx, dy);
        const RowFloats alpha = hn::Min(free_alpha, splat_lanes.most);
        const RowFloats transmittance = hn::Load(d, transmittances + i);
        const RowFloats weight = hn::Mul(transmittance, alpha);
        const RowFloats g_red = hn::Load(d, gradients.colors[0] + i),
                        g_green = hn::Load(d, gradients.colors[1] + i),
                        g_blue = hn::Load(d, gradients.colors[2] + i);
        by_red = hn::MulAdd(weight, g_red, by_red);
        by_green = hn::MulAdd(weight, g_green, by_green);
        by_blue = hn::MulAdd(weight, g_blue, by_blue);
        const RowFloats shown =
            hn::MulAdd(g_red, red, hn::MulAdd(g_green, green, hn::Mul(g_blue, blue)));
        const RowFloats rest = hn::NegMulAdd(weight, shown, hn::Load(d, behind + i));
        hn::Store(rest, d, behind + i);
        hn::Store(hn::Sub(transmittance, weight), d, transmittances + i);
        const RowFloats by_alpha =
            hn::Sub(hn::Mul(transmittance, shown), hn::Div(rest, hn::Sub(one, alpha)));
        // At its upper bound alpha does not change.
        const RowFloats by_exponent =
            hn::IfThenElseZero(hn::Lt(free_alpha, splat_lanes.most), hn::Mul(by_alpha, alpha));
        const RowFloats by_dx = hn::Mul(by_exponent, dx);
        v = hn::Add(v, by_exponent);
        vx = hn::Add(vx, by_dx);
        vxx = hn::MulAdd(by_dx, dx, vxx);
        vy = hn::MulAdd(by_exponent, dys, vy);
        vxy = hn::MulAdd(by_dx, dys, vxy);
        vyy = hn::MulAdd(hn::Mul(by_exponent, dys), dys, vyy);
      }
    }
    const auto sum = [&](RowFloats value)
                         HWY_ATTR { return hn::GetLane(hn::SumOfLanes(d, value)); };
    const float sum_x = sum(vx), sum_y = sum(vy);
    FlatSplatGradient& gradient = splat_gradients[entry];
    gradient.x = splat.a * sum_x + splat.b * sum_y;
    gradient.y = splat.b * sum_x + splat.c * sum_y;
    gradient.a = -0.5f * sum(vxx);
    gradient.b = -sum(vxy);
    gradient.c = -0.5f * sum(vyy);
    gradient.opacity = splat.opacity > 0 ? sum(v) / splat.opacity : 0;
    gradient.color = {sum(by_red), sum(by_green), sum(by_blue)};
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(DrawSplatTile);
HWY_EXPORT(BackwardSplatTile);
namespace cpu {
int DrawSplatTile(const SplatTileParams& params, SplatTilePixels* pixels) {
  return HWY_DYNAMIC_DISPATCH(DrawSplatTile)(params, pixels);
}
void BackwardSplatTile(const SplatTileParams& params, const SplatTilePixels& drawn,
                       const SplatTilePixels& gradients, FlatSplatGradient* splat_gradients) {
  HWY_DYNAMIC_DISPATCH(BackwardSplatTile)(params, drawn, gradients, splat_gradients);
}
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
