#include "engine/methods/ngp/rank_exchange.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>

#include "engine/base/check.h"
#include "engine/base/half_float.h"
#include "engine/base/trace.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr size_t kExchangeTile = kernels::kHashTile;
constexpr int64_t kMaxMarched = int64_t{1} << 40;  // in a lane: more is no honest count

// What a message says of a lane before its samples.
struct LaneHead {
  uint64_t n_samples = 0;  // trained: positions and gradients
  uint64_t n_cells = 0;    // evaluated: cells of the grid and densities
  int64_t n_marched = 0;
  int64_t n_trained = 0;
  double loss = 0;
  double squared_error = 0;

  size_t n_tiles() const { return (n_samples + kExchangeTile - 1) / kExchangeTile; }
};

// Bytes of a cache line of the table in either form. Constants, so that copies are inlined.
constexpr size_t kHalfLine = kernels::kLineFloats * sizeof(Half);
constexpr size_t kFloatLine = kernels::kLineFloats * sizeof(float);

template <size_t kBytes>
void GatherLines(const std::byte* level, const std::vector<uint32_t>& lines, std::byte* to) {
  for (const uint32_t line : lines) {
    std::memcpy(to, level + kBytes * line, kBytes);
    to += kBytes;
  }
}

template <size_t kBytes>
void ScatterLines(const std::byte* from, const std::vector<uint64_t>& bits, std::byte* level) {
  for (size_t i = 0; i < bits.size(); ++i) {
    for (uint64_t word = bits[i]; word != 0; word &= word - 1) {
      std::memcpy(level + kBytes * (64 * i + std::countr_zero(word)), from, kBytes);
      from += kBytes;
    }
  }
}

class BlockWriter {
 public:
  // block: of group->NewBlock().
  BlockWriter(Group* group, ByteBlock* block) : block_(block) {
    group->AwaitUnused(*block);
    block_->Resize(0);
  }
  template <typename T>
  void Write(const T* values, size_t n) {
    std::byte* const to = Reserve(n * sizeof(T));
    if (n > 0) std::memcpy(to, values, n * sizeof(T));
  }
  // So many more bytes, which the caller writes before the next call.
  std::byte* Reserve(size_t size) {
    const size_t begin = block_->bytes().size();
    return block_->Resize(begin + size) + begin;
  }

 private:
  ByteBlock* const block_;
};

class BlockReader {
 public:
  BlockReader(int from, Bytes bytes) : from_(from), bytes_(bytes) {}

  template <typename T>
  void Read(T* values, size_t n) {
    if (n > bytes_.size() / sizeof(T)) Fail();
    const std::byte* const from = Take(n * sizeof(T));
    if (n > 0) std::memcpy(values, from, n * sizeof(T));
  }
  const std::byte* Take(size_t size) {
    if (size > bytes_.size()) Fail();
    const std::byte* const from = bytes_.data();
    bytes_ = bytes_.subspan(size);
    return from;
  }
  // Checks n before an array of that size is made.
  template <typename T>
  void Resize(size_t n, std::vector<T>* values) const {
    if (n > bytes_.size() / sizeof(T)) Fail();
    values->resize(n);
  }
  void Check(bool fits) const {
    if (!fits) Fail();
  }
  void CheckEnd() const { Check(bytes_.empty()); }

 private:
  [[noreturn]] void Fail() const {
    throw GroupError(fmt::format("rank {} sent a message that does not fit", from_));
  }

  const int from_;
  Bytes bytes_;
};

}  // namespace

NgpRankExchange::NgpRankExchange(Group* group, const kernels::HashGridShape& shape, size_t n_cells)
    : group_(group),
      shape_(shape),
      n_cells_(n_cells),
      rank_(group != nullptr ? group->rank() : 0),
      n_ranks_(group != nullptr ? group->n_ranks() : 1),
      out_(n_ranks_),
      in_(n_ranks_) {
  for (int rank = 0; rank < n_ranks_; ++rank)
    ranges_.push_back(PartOf(kGradientLanes, rank, n_ranks_));
  for (int level = 0; level < shape.n_levels; ++level) {
    if (Owns(rank_, level)) levels_.push_back(level);
  }
  if (alone()) return;
  for (ByteBlock& block : out_) block = group_->NewBlock();
  lines_ = group_->NewBlock();
}

void NgpRankExchange::ExchangeLanes(int n_active, std::span<LaneOutput> lanes,
                                    NgpParameters* parameters) {
  if (alone()) return;
  const TraceSpan span("exchange lanes");
  SumLanes(this->lanes(), kGradientLanes, kNgpWeights, parameters->weight_gradients(0));
  std::vector<Bytes> to(n_ranks_);
  for (int rank = 0; rank < n_ranks_; ++rank) {
    if (rank == rank_) continue;
    WriteLanes(rank, n_active, lanes, parameters);
    to[rank] = out_[rank].bytes();
  }
  AllToAll(group_, to, &in_);
  for (int rank = 0; rank < n_ranks_; ++rank) {
    if (rank != rank_) ReadLanes(rank, n_active, lanes, parameters);
  }
  SumRanges(ranges_, kGradientLanes, kNgpWeights, parameters->weight_gradients(0));
}

void NgpRankExchange::WriteLanes(int to, int n_active, std::span<const LaneOutput> lanes,
                                 NgpParameters* parameters) {
  BlockWriter writer(group_, &out_[to]);
  const size_t tile_floats = kExchangeTile * shape_.n_features;
  for (int l = ranges_[rank_].begin; l < ranges_[rank_].end; ++l) {
    const LaneOutput& lane = lanes[l];
    const LaneHead head{lane.positions.size(), lane.cells.size(), lane.n_marched,
                        lane.n_trained,        lane.loss,         lane.squared_error};
    writer.Write(&head, 1);
    writer.Write(lane.positions.data(), lane.positions.size());
    writer.Write(lane.cells.data(), lane.cells.size());
    writer.Write(lane.sigmas.data(), lane.sigmas.size());
    for (size_t tile = 0; tile < head.n_tiles(); ++tile) {
      const float* const gradients =
          lane.grad_encodings.data() + tile * kExchangeTile * kEncodingWidth;
      for (int level = to; level < n_active; level += n_ranks_)
        writer.Write(gradients + tile_floats * level, tile_floats);
    }
  }
  for (const int lane : LanesWithSums(ranges_[rank_], kGradientLanes))
    writer.Write(parameters->weight_gradients(lane), kNgpWeights);
}

void NgpRankExchange::ReadLanes(int from, int n_active, std::span<LaneOutput> lanes,
                                NgpParameters* parameters) {
  BlockReader reader(from, in_[from].bytes());
  const size_t tile_floats = kExchangeTile * shape_.n_features;
  for (int l = ranges_[from].begin; l < ranges_[from].end; ++l) {
    LaneOutput& lane = lanes[l];
    LaneHead head;
    reader.Read(&head, 1);
    // Counts decide how many rays the next step has.
    reader.Check(head.n_trained >= 0 && head.n_trained <= head.n_marched &&
                 head.n_marched <= kMaxMarched);
    reader.Resize(head.n_samples, &lane.positions);
    reader.Read(lane.positions.data(), lane.positions.size());
    reader.Resize(head.n_cells, &lane.cells);
    reader.Read(lane.cells.data(), lane.cells.size());
    reader.Check(std::ranges::all_of(lane.cells, [&](uint32_t cell) { return cell < n_cells_; }));
    reader.Resize(head.n_cells, &lane.sigmas);
    reader.Read(lane.sigmas.data(), lane.sigmas.size());
    lane.n_marched = head.n_marched;
    lane.n_trained = head.n_trained;
    lane.loss = head.loss;
    lane.squared_error = head.squared_error;
    const size_t n_floats = head.n_tiles() * kExchangeTile * kEncodingWidth;
    if (lane.grad_encodings.size() < n_floats)
      lane.grad_encodings = Buffer<float>(std::max(n_floats, 2 * lane.grad_encodings.size()));
    for (size_t tile = 0; tile < head.n_tiles(); ++tile) {
      float* const gradients = lane.grad_encodings.data() + tile * kExchangeTile * kEncodingWidth;
      for (int level = rank_; level < n_active; level += n_ranks_)
        reader.Read(gradients + tile_floats * level, tile_floats);
    }
  }
  for (const int lane : LanesWithSums(ranges_[from], kGradientLanes))
    reader.Read(parameters->weight_gradients(lane), kNgpWeights);
  reader.CheckEnd();
}

void NgpRankExchange::ExchangeRays(std::span<int32_t> views, std::span<Vec3> values, size_t n_views,
                                   const std::function<IndexRange(IndexRange lanes)>& rays_of) {
  if (alone()) return;
  const TraceSpan span("exchange rays");
  const IndexRange own = rays_of(lanes());
  BlockWriter writer(group_, &lines_);
  writer.Write(views.data() + own.begin, static_cast<size_t>(own.end - own.begin));
  writer.Write(values.data() + own.begin, static_cast<size_t>(own.end - own.begin));
  AllGather(group_, lines_.bytes(), &in_);
  for (int rank = 0; rank < n_ranks_; ++rank) {
    if (rank == rank_) continue;
    const IndexRange rays = rays_of(ranges_[rank]);
    const auto n = static_cast<size_t>(rays.end - rays.begin);
    BlockReader reader(rank, in_[rank].bytes());
    reader.Read(views.data() + rays.begin, n);
    reader.Read(values.data() + rays.begin, n);
    reader.CheckEnd();
    reader.Check(std::ranges::all_of(views.subspan(rays.begin, n), [&](int32_t view) {
      return view >= 0 && static_cast<size_t>(view) < n_views;
    }));
  }
}

void NgpRankExchange::ExchangeLines(int n_active, std::span<const std::vector<uint32_t>> changed,
                                    NgpParameters* parameters, NgpLineCounts* counts) {
  if (alone() && counts == nullptr) return;
  const TraceSpan span("exchange lines");
  const size_t line_bytes = parameters->ReadLineBytes();
  const size_t n_lines = shape_.level_size() / kernels::kLineFloats;
  NERF_CHECK(n_lines % 64 == 0);  // so that no bit is of a line outside the level
  std::vector<uint64_t> bits(n_lines / 64);
  std::optional<BlockWriter> writer;
  if (!alone()) writer.emplace(group_, &lines_);
  for (size_t i = 0; i < levels_.size() && levels_[i] < n_active; ++i) {
    std::fill(bits.begin(), bits.end(), uint64_t{0});
    for (const uint32_t line : changed[i]) bits[line / 64] |= uint64_t{1} << line % 64;
    if (counts != nullptr) counts->Add(levels_[i], bits);
    if (alone()) continue;
    writer->Write(bits.data(), bits.size());
    std::byte* const to = writer->Reserve(line_bytes * changed[i].size());
    const std::byte* const level = parameters->ReadLevel(levels_[i]);
    if (line_bytes == kHalfLine) {
      GatherLines<kHalfLine>(level, changed[i], to);
    } else {
      GatherLines<kFloatLine>(level, changed[i], to);
    }
  }
  if (alone()) return;
  AllGather(group_, lines_.bytes(), &in_);
  for (int rank = 0; rank < n_ranks_; ++rank) {
    if (rank == rank_) continue;
    BlockReader reader(rank, in_[rank].bytes());
    for (int l = rank; l < n_active; l += n_ranks_) {
      reader.Read(bits.data(), bits.size());
      size_t n_changed = 0;
      for (const uint64_t word : bits) n_changed += static_cast<size_t>(std::popcount(word));
      if (counts != nullptr) counts->Add(l, bits);
      const std::byte* const from = reader.Take(line_bytes * n_changed);
      if (line_bytes == kHalfLine) {
        ScatterLines<kHalfLine>(from, bits, parameters->ReadLevel(l));
      } else {
        ScatterLines<kFloatLine>(from, bits, parameters->ReadLevel(l));
      }
    }
    reader.CheckEnd();
  }
}

double NgpRankExchange::BytesReceived(const Counts& counts, const kernels::HashGridShape& shape,
                                      size_t line_bytes, int n_ranks) {
  // Rank 0 lacks the lanes of the others; of levels it needs the samples of its own alone.
  const IndexRange own = PartOf(kGradientLanes, 0, n_ranks);
  const double n_lanes = kGradientLanes - (own.end - own.begin);
  const int n_own_levels = (counts.n_active + n_ranks - 1) / n_ranks;
  const double samples =
      counts.n_trained * sizeof(Vec3) + counts.n_marched * (sizeof(uint32_t) + sizeof(float));
  // A lane's last tile is half empty on average.
  const double rows = counts.n_trained + 0.5 * kExchangeTile * kGradientLanes;
  const double gradients = rows * shape.n_features * sizeof(float) * n_own_levels;
  double bytes =
      n_lanes * ((samples + gradients) / kGradientLanes + static_cast<double>(sizeof(LaneHead)));
  for (int level = 0; level < counts.n_active; ++level) {
    if (level % n_ranks == 0) continue;
    bytes += counts.n_lines[level] * static_cast<double>(line_bytes) +
             static_cast<double>(shape.level_size()) / kernels::kLineFloats / 8;
  }
  for (int rank = 1; rank < n_ranks; ++rank) {
    const size_t n_sums =
        LanesWithSums(PartOf(kGradientLanes, rank, n_ranks), kGradientLanes).size();
    bytes += static_cast<double>(n_sums * kNgpWeights * sizeof(float));
  }
  return bytes;
}

void NgpRankExchange::CollectLevels(NgpParameters* parameters) {
  if (alone()) return;
  for (int level = 0; level < shape_.n_levels; ++level) {
    for (const std::span<std::byte> array : parameters->LevelArrays(level))
      Broadcast(group_, level % n_ranks_, array);
  }
  const Bytes weights = std::as_bytes(std::span(parameters->weights(), kNgpWeights));
  AllGather(group_, weights, &in_);
  for (int rank = 0; rank < n_ranks_; ++rank) {
    if (rank == rank_) continue;
    const Bytes other = in_[rank].bytes();
    if (!std::equal(weights.begin(), weights.end(), other.begin(), other.end())) {
      throw GroupError(fmt::format(
          "ranks {} and {} have come to different weights: do they run the same program on "
          "processors of the same kind?",
          rank_, rank));
    }
  }
}

}  // namespace nerf
