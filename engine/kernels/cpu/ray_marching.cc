#include "engine/kernels/ray_marching.h"

#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/ray_marching.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

// One lane a ray: an iteration takes each lane one sample or one jump further, in the same steps as
// the scalar MarchSamples. A lane whose ray is through takes the next ray at once, so rays of any
// lengths keep all lanes busy.

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes advance in groups by turns: a step waits for the one before it, and for the grid, so a
// second group costs little time of its own. A third gained nothing.
constexpr int kGroups = 2;
constexpr int kMaxLanes = HWY_MAX_BYTES / sizeof(float);
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;

// The rays in the lanes. An idle lane has no slot and a t_exit that it is beyond.
struct Lanes {
  alignas(64) float origin[3][kMaxLanes] = {};  // from the grid's center
  alignas(64) float direction[3][kMaxLanes] = {};
  alignas(64) float inverse[3][kMaxLanes] = {};
  alignas(64) float t[kMaxLanes] = {};
  alignas(64) float t_exit[kMaxLanes];
  int slot[kMaxLanes];  // of params.active
  int count[kMaxLanes];
  uint64_t busy = 0;  // a bit for each lane that has a slot
  // Where the last step of each lane was, and lanes for which it was a sample or the end.
  alignas(64) float middles[kMaxLanes], deltas[kMaxLanes];
  alignas(64) int32_t cells[kMaxLanes];
  uint64_t found = 0, through = 0;

  void Take(const MarchRaysParams& params, int lane, int* next_slot) {
    slot[lane] = *next_slot < params.n_active ? (*next_slot)++ : -1;
    t_exit[lane] = -1;
    if (slot[lane] < 0) return;
    busy |= uint64_t{1} << lane;
    const MarchRay& ray = params.rays[params.active[slot[lane]]];
    for (int axis = 0; axis < 3; ++axis) {
      origin[axis][lane] = ray.origin[axis] - params.grid.center[axis];
      direction[axis][lane] = ray.direction[axis];
      inverse[axis][lane] = ray.inverse_direction[axis];
    }
    t[lane] = ray.t;
    t_exit[lane] = ray.t_exit;
    count[lane] = 0;
  }
  void Give(const MarchRaysParams& params, int lane, bool has_left) {
    MarchRay& ray = params.rays[params.active[slot[lane]]];
    ray.t = t[lane];
    if (has_left) ray.t_exit = -1;
    params.n_found[slot[lane]] = count[lane];
    busy &= ~(uint64_t{1} << lane);
  }
};

template <class M>
HWY_INLINE uint64_t LaneBits(M mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(Floats(), mask, bytes);
  uint64_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

// MarchSteps, lane by lane.
struct Stepping {
  explicit Stepping(const MarchSteps& steps)
      : step(steps.step),
        cone(steps.cone),
        per_step(1 / steps.step),
        turn(cone > 0 ? step / cone : 0),
        turn_steps(cone > 0 ? 1 / cone : 0),
        growth(cone > 0 ? std::log1p(cone) : 1),
        per_growth(1 / growth) {}

  template <class V>
  HWY_INLINE V Delta(V t) const {
    const Floats d;
    return hn::Max(hn::Set(d, step), hn::Mul(t, hn::Set(d, cone)));
  }
  template <class V>
  HWY_INLINE V ToSteps(V t) const {
    const Floats d;
    const auto linear = hn::Mul(t, hn::Set(d, per_step));
    if (cone <= 0) return linear;
    const auto ratio = hn::Max(hn::Div(t, hn::Set(d, turn)), hn::Set(d, 1.0f));
    const auto beyond =
        hn::MulAdd(hn::Log(d, ratio), hn::Set(d, per_growth), hn::Set(d, turn_steps));
    return hn::IfThenElse(hn::Le(t, hn::Set(d, turn)), linear, beyond);
  }
  template <class V>
  HWY_INLINE V FromSteps(V n) const {
    const Floats d;
    const auto linear = hn::Mul(n, hn::Set(d, step));
    if (cone <= 0) return linear;
    const auto exponent =
        hn::Mul(hn::Max(hn::Sub(n, hn::Set(d, turn_steps)), hn::Zero(d)), hn::Set(d, growth));
    const auto beyond = hn::Mul(hn::Exp(d, exponent), hn::Set(d, turn));
    return hn::IfThenElse(hn::Le(n, hn::Set(d, turn_steps)), linear, beyond);
  }

  float step, cone, per_step, turn, turn_steps, growth, per_growth;
};

void MarchRays(const MarchRaysParams& params) {
  const MarchGrid& grid = params.grid;
  NERF_CHECK(grid.empty_distances != nullptr);
  const Floats d;
  const Ints di;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const Stepping stepping(params.steps);
  const auto* reach_words = reinterpret_cast<const int32_t*>(grid.empty_distances);
  const auto* bit_words = reinterpret_cast<const int32_t*>(grid.blocks);
  const auto one = hn::Set(d, 1.0f);
  const auto side = hn::Set(di, grid.resolution / 4), last_cell = hn::Set(di, grid.resolution - 1);
  const auto cells_per_unit0 = hn::Set(d, grid.resolution / (2 * grid.half_side));
  const auto cell_size0 = hn::Set(d, 2 * grid.half_side / grid.resolution);

  Lanes groups[kGroups];
  int next_slot = 0;
  for (Lanes& group : groups) {
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      group.slot[lane] = -1;
      group.t_exit[lane] = -1;
    }
    for (int lane = 0; lane < lanes; ++lane) group.Take(params, lane, &next_slot);
  }
  const auto advance = [&](Lanes& state) HWY_ATTR {
    const auto t = hn::Load(d, state.t), t_exit = hn::Load(d, state.t_exit);
    const auto delta = stepping.Delta(t);
    const auto middle = hn::MulAdd(hn::Set(d, 0.5f), delta, t);
    const auto has_left = hn::Ge(middle, t_exit);

    // Where the middle lies: level, cell, block.
    decltype(hn::Zero(d)) p[3];
    for (int axis = 0; axis < 3; ++axis) {
      p[axis] =
          hn::MulAdd(hn::Load(d, state.direction[axis]), middle, hn::Load(d, state.origin[axis]));
    }
    auto level = hn::Zero(di);
    auto scale = one, inverse_scale = one;
    if (grid.n_levels > 1) {
      const auto distance = hn::Mul(hn::Max(hn::Abs(p[0]), hn::Max(hn::Abs(p[1]), hn::Abs(p[2]))),
                                    hn::Set(d, 1 / grid.half_side));
      const auto exponent =
          hn::Sub(hn::ShiftRight<23>(hn::BitCast(di, distance)), hn::Set(di, 127 - 1));
      level = hn::Min(hn::Max(exponent, hn::Zero(di)), hn::Set(di, grid.n_levels - 1));
      scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(level, hn::Set(di, 127))));
      inverse_scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(hn::Set(di, 127), level)));
    }
    const auto half = hn::Mul(scale, hn::Set(d, grid.half_side));
    const auto cells_per_unit = hn::Mul(cells_per_unit0, inverse_scale);
    decltype(level) cell[3];
    for (int axis = 0; axis < 3; ++axis) {
      // Rays that have left may be anywhere: clamped before they become integers.
      const auto place = hn::Mul(hn::Add(p[axis], half), cells_per_unit);
      const auto bounded = hn::Min(hn::Max(place, hn::Zero(d)), hn::ConvertTo(d, last_cell));
      cell[axis] = hn::ConvertTo(di, bounded);
    }
    auto block = hn::Add(hn::Mul(level, side), hn::ShiftRight<2>(cell[2]));
    block = hn::Add(hn::Mul(block, side), hn::ShiftRight<2>(cell[1]));
    block = hn::Add(hn::Mul(block, side), hn::ShiftRight<2>(cell[0]));

    // What is there. Reaches are bytes: four to a word.
    const auto three = hn::Set(di, 3);
    const auto reach_word = hn::GatherIndex(di, reach_words, hn::ShiftRight<2>(block));
    const auto reach =
        hn::And(hn::Shr(reach_word, hn::ShiftLeft<3>(hn::And(block, three))), hn::Set(di, 255));
    const auto bit =
        hn::Add(hn::And(cell[0], three), hn::Add(hn::ShiftLeft<2>(hn::And(cell[1], three)),
                                                 hn::ShiftLeft<4>(hn::And(cell[2], three))));
    // No words of empty blocks, which would come from memory for nothing.
    const auto in_block = hn::Eq(reach, hn::Zero(di));
    const auto word = hn::Add(hn::ShiftLeft<1>(block), hn::ShiftRight<5>(bit));
    const auto bit_word = hn::GatherIndex(di, bit_words, hn::IfThenElseZero(in_block, word));
    const auto is_occupied = hn::Ne(
        hn::And(hn::Shr(bit_word, hn::And(bit, hn::Set(di, 31))), hn::Set(di, 1)), hn::Zero(di));
    const auto is_sample = hn::AndNot(has_left, hn::RebindMask(d, hn::And(in_block, is_occupied)));

    // Out of the empty cell, or of all the empty blocks around.
    const auto cell_size = hn::Mul(cell_size0, scale);
    auto t_out = t_exit;
    for (int axis = 0; axis < 3; ++axis) {
      const auto own_block = hn::ShiftRight<2>(cell[axis]);
      const auto high = hn::IfThenElse(in_block, hn::Add(cell[axis], hn::Set(di, 1)),
                                       hn::ShiftLeft<2>(hn::Add(own_block, reach)));
      const auto low =
          hn::IfThenElse(in_block, cell[axis],
                         hn::ShiftLeft<2>(hn::Sub(hn::Add(own_block, hn::Set(di, 1)), reach)));
      const auto direction = hn::Load(d, state.direction[axis]);
      const auto ahead = hn::IfThenElse(hn::Gt(direction, hn::Zero(d)), hn::ConvertTo(d, high),
                                        hn::ConvertTo(d, low));
      const auto face = hn::Sub(hn::Mul(ahead, cell_size), half);
      t_out = hn::Min(t_out, hn::Mul(hn::Sub(face, hn::Load(d, state.origin[axis])),
                                     hn::Load(d, state.inverse[axis])));
    }
    const auto n_now = stepping.ToSteps(t);
    const auto wanted =
        hn::Ceil(hn::Sub(hn::Sub(stepping.ToSteps(hn::Max(t_out, t)), n_now), hn::Set(d, 0.5f)));
    const auto landed = stepping.FromSteps(hn::Add(n_now, hn::Max(wanted, one)));
    const auto t_next = hn::IfThenElse(is_sample, hn::Add(t, delta), landed);
    // A step that no longer changes a float would go on for ever.
    const auto is_through = hn::Or(has_left, hn::Not(hn::Gt(t_next, t)));
    hn::Store(hn::IfThenElse(has_left, t, t_next), d, state.t);

    hn::Store(middle, d, state.middles);
    hn::Store(delta, d, state.deltas);
    hn::Store(hn::Add(hn::ShiftLeft<6>(block), bit), di, state.cells);
    state.found = LaneBits(is_sample) & state.busy;
    state.through = LaneBits(is_through) & state.busy;
  };
  const auto hand_out = [&](Lanes& state) {
    uint64_t full = 0;
    for (uint64_t bits = state.found; bits != 0; bits &= bits - 1) {
      const int lane = std::countr_zero(bits);
      const size_t i = static_cast<size_t>(state.slot[lane]) * params.max_samples +
                       static_cast<size_t>(state.count[lane]++);
      params.t_middles[i] = state.middles[lane];
      params.deltas[i] = state.deltas[lane];
      params.cells[i] = static_cast<uint32_t>(state.cells[lane]);
      full |= uint64_t{state.count[lane] == params.max_samples} << lane;
    }
    for (uint64_t bits = state.through | full; bits != 0; bits &= bits - 1) {
      const int lane = std::countr_zero(bits);
      state.Give(params, lane, (state.through >> lane & 1) != 0);
      state.Take(params, lane, &next_slot);
    }
  };
  const auto any_busy = [&] {
    uint64_t busy = 0;
    for (const Lanes& group : groups) busy |= group.busy;
    return busy != 0;
  };
  while (any_busy()) {
    for (Lanes& group : groups) {
      if (group.busy != 0) advance(group);
    }
    for (Lanes& group : groups) {
      if (group.busy != 0) hand_out(group);
    }
  }
}

}  // namespace nerf::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nerf::kernels {
HWY_EXPORT(MarchRays);
namespace cpu {
void MarchRays(const MarchRaysParams& params) { HWY_DYNAMIC_DISPATCH(MarchRays)(params); }
}  // namespace cpu
}  // namespace nerf::kernels
#endif  // HWY_ONCE
