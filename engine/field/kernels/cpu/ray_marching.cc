#include "engine/field/kernels/ray_marching.h"

#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/field/kernels/cpu/ray_marching.cc"
#include "hwy/foreach_target.h"
// foreach_target must come before highway.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

// A lane marches one ray: each iteration takes every lane to its ray's next sample or past an empty
// cell, in the same steps as the scalar MarchSamples. A lane whose ray is finished starts the next
// ray at once, so that all lanes stay busy whatever the rays' lengths.

HWY_BEFORE_NAMESPACE();
namespace nerf::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Two groups of lanes advance by turns: one computes while the other waits for its grid loads. A
// third group gained nothing.
constexpr int kGroups = 2;
constexpr int kMaxLanes = HWY_MAX_BYTES / sizeof(float);
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using FloatVec = hn::Vec<Floats>;
using IntVec = hn::Vec<Ints>;

// A group of lanes with the rays they march. An idle lane has t_exit -1, so it finds nothing.
struct Lanes {
  alignas(64) float origin[3][kMaxLanes] = {};  // relative to the grid's center
  alignas(64) float direction[3][kMaxLanes] = {};
  alignas(64) float inverse[3][kMaxLanes] = {};
  alignas(64) float t[kMaxLanes] = {};
  alignas(64) float t_exit[kMaxLanes];
  int slot[kMaxLanes];  // index in params.active; -1: idle
  int count[kMaxLanes];
  uint64_t busy = 0;  // bit i: lane i has a slot
  // The intervals of the last step; masks of the lanes whose interval is a sample, and of those
  // whose ray is finished.
  alignas(64) float middles[kMaxLanes], deltas[kMaxLanes];
  alignas(64) int32_t cells[kMaxLanes];
  uint64_t found = 0, finished = 0;

  Lanes() {
    for (int lane = 0; lane < kMaxLanes; ++lane) {
      slot[lane] = -1;
      t_exit[lane] = -1;
    }
  }
  // Gives the lane the next ray, or makes it idle when there is none.
  void StartRay(const MarchRaysParams& params, int lane, int* next_slot) {
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
  // Writes back the lane's ray.
  void StoreRay(const MarchRaysParams& params, int lane) {
    MarchRay& ray = params.rays[params.active[slot[lane]]];
    ray.t = t[lane];
    if ((finished >> lane & 1) != 0) ray.t_exit = -1;
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

// MarchSteps for vectors.
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

// Where points lie in the nested grids.
struct GridCells {
  IntVec cell[3];  // along each axis, within the level
  IntVec block;    // index over all levels
  IntVec bit;      // of the cell in its block
  FloatVec scale;  // 2^level
};

// What the grid says of cells: whether they are occupied, and their blocks' empty_distances.
struct GridContent {
  IntVec empty_distance;
  hn::Mask<Ints> is_occupied;
};

// The march of all lanes of a group by one step.
class LaneMarcher {
 public:
  LaneMarcher(const MarchGrid& grid, const MarchSteps& steps)
      : grid_(grid),
        stepping_(steps),
        cells_per_unit_(grid.resolution / (2 * grid.half_side)),
        cell_size_(2 * grid.half_side / grid.resolution) {}

  // Each lane's interval becomes a sample, or the lane jumps over empty space.
  HWY_INLINE void Advance(Lanes* lanes) const {
    const Floats d;
    const Ints di;
    const FloatVec t = hn::Load(d, lanes->t), t_exit = hn::Load(d, lanes->t_exit);
    const FloatVec delta = stepping_.Delta(t);
    const FloatVec middle = hn::MulAdd(hn::Set(d, 0.5f), delta, t);
    const auto has_left = hn::Ge(middle, t_exit);
    const GridCells cells = Locate(*lanes, middle);
    const GridContent content = Read(cells);
    const auto is_sample = hn::AndNot(has_left, hn::RebindMask(d, content.is_occupied));
    const FloatVec t_jump = Jump(t, EmptySpaceExit(*lanes, cells, content.empty_distance));
    const FloatVec t_next = hn::IfThenElse(is_sample, hn::Add(t, delta), t_jump);
    // If t is so large that a step does not change it, the march would never end.
    const auto is_finished = hn::Or(has_left, hn::Not(hn::Gt(t_next, t)));
    hn::Store(hn::IfThenElse(has_left, t, t_next), d, lanes->t);

    hn::Store(middle, d, lanes->middles);
    hn::Store(delta, d, lanes->deltas);
    hn::Store(hn::Add(hn::ShiftLeft<6>(cells.block), cells.bit), di, lanes->cells);
    lanes->found = LaneBits(is_sample) & lanes->busy;
    lanes->finished = LaneBits(is_finished) & lanes->busy;
  }

 private:
  // The level, block and cell at distance `middle` along the rays.
  HWY_INLINE GridCells Locate(const Lanes& lanes, FloatVec middle) const {
    const Floats d;
    const Ints di;
    FloatVec p[3];
    for (int axis = 0; axis < 3; ++axis) {
      p[axis] =
          hn::MulAdd(hn::Load(d, lanes.direction[axis]), middle, hn::Load(d, lanes.origin[axis]));
    }
    GridCells cells;
    IntVec level = hn::Zero(di);
    cells.scale = hn::Set(d, 1.0f);
    FloatVec inverse_scale = cells.scale;
    if (grid_.n_levels > 1) {
      const auto distance = hn::Mul(hn::Max(hn::Abs(p[0]), hn::Max(hn::Abs(p[1]), hn::Abs(p[2]))),
                                    hn::Set(d, 1 / grid_.half_side));
      const auto exponent =
          hn::Sub(hn::ShiftRight<23>(hn::BitCast(di, distance)), hn::Set(di, 127 - 1));
      level = hn::Min(hn::Max(exponent, hn::Zero(di)), hn::Set(di, grid_.n_levels - 1));
      cells.scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(level, hn::Set(di, 127))));
      inverse_scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(hn::Set(di, 127), level)));
    }
    const auto half = hn::Mul(cells.scale, hn::Set(d, grid_.half_side));
    const auto cells_per_unit = hn::Mul(hn::Set(d, cells_per_unit_), inverse_scale);
    const auto last_cell = hn::ConvertTo(d, hn::Set(di, grid_.resolution - 1));
    for (int axis = 0; axis < 3; ++axis) {
      // Rays that have left may be anywhere: clamped before they become integers.
      const auto coordinate = hn::Mul(hn::Add(p[axis], half), cells_per_unit);
      cells.cell[axis] = hn::ConvertTo(di, hn::Min(hn::Max(coordinate, hn::Zero(d)), last_cell));
    }
    const auto side = hn::Set(di, grid_.resolution / 4), three = hn::Set(di, 3);
    cells.block = hn::Add(hn::Mul(level, side), hn::ShiftRight<2>(cells.cell[2]));
    cells.block = hn::Add(hn::Mul(cells.block, side), hn::ShiftRight<2>(cells.cell[1]));
    cells.block = hn::Add(hn::Mul(cells.block, side), hn::ShiftRight<2>(cells.cell[0]));
    cells.bit = hn::Add(hn::And(cells.cell[0], three),
                        hn::Add(hn::ShiftLeft<2>(hn::And(cells.cell[1], three)),
                                hn::ShiftLeft<4>(hn::And(cells.cell[2], three))));
    return cells;
  }

  HWY_INLINE GridContent Read(const GridCells& cells) const {
    const Ints di;
    // Distances are bytes, loaded as words of four.
    const auto* distance_words = reinterpret_cast<const int32_t*>(grid_.empty_distances);
    const auto distance_word = hn::GatherIndex(di, distance_words, hn::ShiftRight<2>(cells.block));
    const auto byte_shift = hn::ShiftLeft<3>(hn::And(cells.block, hn::Set(di, 3)));
    GridContent content;
    content.empty_distance = hn::And(hn::Shr(distance_word, byte_shift), hn::Set(di, 255));
    // The words of empty blocks are not loaded: that would only cost memory traffic.
    const auto has_cells = hn::Eq(content.empty_distance, hn::Zero(di));
    const auto word = hn::Add(hn::ShiftLeft<1>(cells.block), hn::ShiftRight<5>(cells.bit));
    const auto* bit_words = reinterpret_cast<const int32_t*>(grid_.blocks);
    const auto bit_word = hn::GatherIndex(di, bit_words, hn::IfThenElseZero(has_cells, word));
    const auto bit_shift = hn::And(cells.bit, hn::Set(di, 31));
    content.is_occupied = hn::And(
        has_cells, hn::Ne(hn::And(hn::Shr(bit_word, bit_shift), hn::Set(di, 1)), hn::Zero(di)));
    return content;
  }

  // Where the rays leave their cell, or the cube of empty blocks around it.
  HWY_INLINE FloatVec EmptySpaceExit(const Lanes& lanes, const GridCells& cells,
                                     IntVec empty_distance) const {
    const Floats d;
    const Ints di;
    const auto one = hn::Set(di, 1);
    const auto has_cells = hn::Eq(empty_distance, hn::Zero(di));
    const auto half = hn::Mul(cells.scale, hn::Set(d, grid_.half_side));
    const auto cell_size = hn::Mul(hn::Set(d, cell_size_), cells.scale);
    FloatVec t_out = hn::Load(d, lanes.t_exit);
    for (int axis = 0; axis < 3; ++axis) {
      const IntVec cell = cells.cell[axis];
      const auto block = hn::ShiftRight<2>(cell);
      const auto high = hn::IfThenElse(has_cells, hn::Add(cell, one),
                                       hn::ShiftLeft<2>(hn::Add(block, empty_distance)));
      const auto low = hn::IfThenElse(
          has_cells, cell, hn::ShiftLeft<2>(hn::Sub(hn::Add(block, one), empty_distance)));
      const auto is_rising = hn::Gt(hn::Load(d, lanes.direction[axis]), hn::Zero(d));
      const auto ahead = hn::IfThenElse(is_rising, hn::ConvertTo(d, high), hn::ConvertTo(d, low));
      const auto face = hn::Sub(hn::Mul(ahead, cell_size), half);
      t_out = hn::Min(t_out, hn::Mul(hn::Sub(face, hn::Load(d, lanes.origin[axis])),
                                     hn::Load(d, lanes.inverse[axis])));
    }
    return t_out;
  }

  // The first interval behind t_out: at least one whole step from t.
  HWY_INLINE FloatVec Jump(FloatVec t, FloatVec t_out) const {
    const Floats d;
    const auto n_now = stepping_.ToSteps(t);
    const auto wanted =
        hn::Ceil(hn::Sub(hn::Sub(stepping_.ToSteps(hn::Max(t_out, t)), n_now), hn::Set(d, 0.5f)));
    return stepping_.FromSteps(hn::Add(n_now, hn::Max(wanted, hn::Set(d, 1.0f))));
  }

  const MarchGrid& grid_;
  const Stepping stepping_;
  const float cells_per_unit_, cell_size_;  // of level 0
};

// Writes the samples that the last step found. Lanes whose ray is finished, or has max_samples, get
// the next ray.
void WriteSamples(const MarchRaysParams& params, Lanes* lanes, int* next_slot) {
  uint64_t full = 0;
  for (uint64_t bits = lanes->found; bits != 0; bits &= bits - 1) {
    const int lane = std::countr_zero(bits);
    const size_t i = static_cast<size_t>(lanes->slot[lane]) * params.max_samples +
                     static_cast<size_t>(lanes->count[lane]++);
    params.t_middles[i] = lanes->middles[lane];
    params.deltas[i] = lanes->deltas[lane];
    params.cells[i] = static_cast<uint32_t>(lanes->cells[lane]);
    full |= uint64_t{lanes->count[lane] == params.max_samples} << lane;
  }
  for (uint64_t bits = lanes->finished | full; bits != 0; bits &= bits - 1) {
    const int lane = std::countr_zero(bits);
    lanes->StoreRay(params, lane);
    lanes->StartRay(params, lane, next_slot);
  }
}

void MarchRays(const MarchRaysParams& params) {
  NERF_CHECK(params.grid.empty_distances != nullptr);
  const LaneMarcher marcher(params.grid, params.steps);
  Lanes groups[kGroups];
  int next_slot = 0;
  for (Lanes& group : groups) {
    for (size_t lane = 0; lane < hn::Lanes(Floats()); ++lane)
      group.StartRay(params, static_cast<int>(lane), &next_slot);
  }
  const auto any_busy = [&groups] {
    uint64_t busy = 0;
    for (const Lanes& group : groups) busy |= group.busy;
    return busy != 0;
  };
  while (any_busy()) {
    for (Lanes& group : groups) {
      if (group.busy != 0) marcher.Advance(&group);
    }
    for (Lanes& group : groups) {
      if (group.busy != 0) WriteSamples(params, &group, &next_slot);
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
