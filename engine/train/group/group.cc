#include "engine/train/group/group.h"

#include <chrono>

#include "engine/base/check.h"
#include "engine/base/trace.h"
#include "fmt/format.h"

namespace nerf {

void Group::Transfer(std::span<const Outgoing> out, std::span<const Incoming> in) {
  const TraceSpan span("transfer");
  const auto begin = std::chrono::steady_clock::now();
  DoTransfer(out, in);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  traffic_.seconds += spent.count();
  ++traffic_.n_transfers;
  for (const Outgoing& block : out) traffic_.bytes_sent += static_cast<int64_t>(block.bytes.size());
  for (const Incoming& block : in)
    traffic_.bytes_received += static_cast<int64_t>(block.block->bytes().size());
}

void Group::AwaitUnused(const ByteBlock&) {}

void AllToAll(Group* group, std::span<const Bytes> to, std::vector<ByteBlock>* from) {
  const int n_ranks = group->n_ranks();
  NERF_CHECK(static_cast<int>(to.size()) == n_ranks);
  from->resize(n_ranks);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int rank = 0; rank < n_ranks; ++rank) {
    if (rank == group->rank()) continue;
    out.push_back({rank, to[rank]});
    in.push_back({rank, &(*from)[rank]});
  }
  if (!out.empty()) group->Transfer(out, in);
}

void AllGather(Group* group, Bytes mine, std::vector<ByteBlock>* from) {
  AllToAll(group, std::vector<Bytes>(group->n_ranks(), mine), from);
}

void Gather(Group* group, int root, Bytes mine, std::vector<ByteBlock>* from) {
  if (group->rank() != root) {
    const Outgoing block{root, mine};
    group->Transfer({&block, 1}, {});
    return;
  }
  from->resize(group->n_ranks());
  std::vector<Incoming> in;
  for (int rank = 0; rank < group->n_ranks(); ++rank) {
    if (rank != root) in.push_back({rank, &(*from)[rank]});
  }
  if (!in.empty()) group->Transfer({}, in);
}

void Broadcast(Group* group, int root, std::span<std::byte> bytes) {
  if (group->rank() == root) {
    std::vector<Outgoing> out;
    for (int rank = 0; rank < group->n_ranks(); ++rank) {
      if (rank != root) out.push_back({rank, bytes});
    }
    if (!out.empty()) group->Transfer(out, {});
    return;
  }
  ByteBlock block;
  const Incoming in{root, &block};
  group->Transfer({}, {&in, 1});
  if (block.bytes().size() != bytes.size()) {
    throw GroupError(fmt::format("rank {} sent {} bytes where rank {} expects {}", root,
                                 block.bytes().size(), group->rank(), bytes.size()));
  }
  if (!bytes.empty()) std::memcpy(bytes.data(), block.bytes().data(), bytes.size());
}

void Reduce(Group* group, std::span<int64_t> counts) {
  std::vector<ByteBlock> from;
  AllGather(group, BytesOf(counts), &from);
  for (int rank = 0; rank < group->n_ranks(); ++rank) {
    if (rank == group->rank()) continue;
    if (from[rank].bytes().size() != counts.size_bytes())
      throw GroupError(fmt::format("rank {} reduces another number of counts", rank));
    for (size_t i = 0; i < counts.size(); ++i) {
      int64_t count = 0;
      std::memcpy(&count, from[rank].bytes().data() + i * sizeof(count), sizeof(count));
      counts[i] += count;
    }
  }
}

}  // namespace nerf
