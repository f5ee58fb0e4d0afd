#include "tests/torture/cut_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace nerf {
namespace {

using Kind = DiskOp::Kind;

void Overwrite(std::string* bytes, uint64_t offset, std::string_view with) {
  if (bytes->size() < offset + with.size()) bytes->resize(offset + with.size(), '\0');
  bytes->replace(offset, with.size(), with);
}

void WriteNew(const std::string& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) std::abort();
  if (write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  close(fd);
}

}  // namespace

CutDisk::CutDisk(const std::vector<RecordedDisk::Node>& first_nodes) {
  for (const RecordedDisk::Node& first : first_nodes) {
    Node& node = nodes_.emplace_back();
    node.is_folder = first.is_folder;
    node.live = node.durable = first.bytes;
    node.entries = first.entries;
  }
}

CutDisk::Node& CutDisk::node(int index) {
  if (static_cast<size_t>(index) >= nodes_.size()) nodes_.resize(static_cast<size_t>(index) + 1);
  return nodes_[static_cast<size_t>(index)];
}

void CutDisk::Apply(const DiskOp& op) {
  const uint64_t sequence = ++sequence_;
  switch (op.kind) {
    case Kind::kWrite: {
      Node& file = node(op.node);
      const uint64_t end = op.offset + op.bytes.size();
      if (end > file.live.size()) file.lengths.push_back({sequence, end});
      Overwrite(&file.live, op.offset, op.bytes);
      for (uint64_t at = op.offset; at < end;) {
        const uint64_t next = std::min(end, (at / kSector + 1) * kSector);
        file.pieces.push_back({sequence, at, op.bytes.substr(at - op.offset, next - at)});
        at = next;
      }
      return;
    }
    case Kind::kTruncate: {
      Node& file = node(op.node);
      file.lengths.push_back({sequence, op.offset, op.offset < file.live.size()});
      file.live.resize(op.offset, '\0');
      return;
    }
    case Kind::kSync:
      if (!node(op.node).is_folder) {
        SyncFile(node(op.node), op.failed);
      } else if (!op.failed) {
        SyncFolder(op.node);
      }
      return;
    case Kind::kMake:
      node(op.target).is_folder = op.is_folder;
      effects_.push_back({sequence, op.node, op.name, op.target});
      return;
    case Kind::kLink:
      effects_.push_back({sequence, op.node, op.name, op.target});
      return;
    case Kind::kUnlink:
      effects_.push_back({sequence, op.node, op.name, -1});
      return;
    case Kind::kRename:
      effects_.push_back({sequence, op.new_node, op.new_name, op.target});
      effects_.push_back({sequence, op.node, op.name, -1, true});
      return;
  }
}

void CutDisk::SyncFile(Node& file, bool failed) {
  if (failed) {
    for (Piece& piece : file.pieces) piece.is_lost = true;
    return;
  }
  // A sector that was written after a failed fsync goes to the disk as it is now, the rest of what
  // that fsync was to write does not.
  std::set<uint64_t> written;
  bool has_lost = false;
  for (const Piece& piece : file.pieces) {
    has_lost |= piece.is_lost;
    if (!piece.is_lost) written.insert(piece.offset / kSector);
  }
  const bool truncates = std::any_of(file.lengths.begin(), file.lengths.end(),
                                     [](const Length& length) { return length.truncates; });
  if (!has_lost && truncates) {
    file.durable = file.live;
    file.pieces.clear();
  } else if (!has_lost) {
    file.durable.resize(file.live.size(), '\0');
    for (const Piece& piece : file.pieces) {
      std::copy_n(file.live.begin() + static_cast<ptrdiff_t>(piece.offset), piece.bytes.size(),
                  file.durable.begin() + static_cast<ptrdiff_t>(piece.offset));
    }
    file.pieces.clear();
  } else {
    file.durable.resize(file.live.size(), '\0');
    for (const uint64_t sector : written) {
      if (sector * kSector >= file.live.size()) continue;
      Overwrite(&file.durable, sector * kSector, file.live.substr(sector * kSector, kSector));
    }
    std::erase_if(file.pieces, [&](const Piece& piece) {
      return written.contains(piece.offset / kSector) || piece.offset >= file.live.size();
    });
  }
  file.lengths.clear();
}

void CutDisk::ApplyEffect(const Effect& effect) {
  auto& entries = node(effect.folder).entries;
  if (effect.target < 0) {
    entries.erase(effect.name);
  } else {
    entries[effect.name] = effect.target;
  }
}

void CutDisk::SyncFolder(int folder) {
  // Where the old name of a rename is surely gone, the new one is surely there.
  std::set<uint64_t> renames;
  for (const Effect& effect : effects_) {
    if (effect.folder == folder && effect.is_old_name) renames.insert(effect.sequence);
  }
  std::vector<Effect> later;
  for (Effect& effect : effects_) {
    if (effect.folder == folder || renames.contains(effect.sequence)) {
      ApplyEffect(effect);
    } else {
      later.push_back(std::move(effect));
    }
  }
  effects_ = std::move(later);
}

std::string CutDisk::Draw(const Node& file, Kept kept, SeededRandom random) {
  if (kept == Kept::kEverything) return file.live;
  if (kept == Kept::kNothing || (file.pieces.empty() && file.lengths.empty())) return file.durable;
  const size_t n_lengths = random.Next() % (file.lengths.size() + 1);
  const uint64_t last_length = n_lengths == 0 ? 0 : file.lengths[n_lengths - 1].sequence;
  const uint64_t size = n_lengths == 0 ? file.durable.size() : file.lengths[n_lengths - 1].size;
  // How many of the writes of each sector are kept. Now and then nearly all or nearly none.
  const uint64_t lean = random.Next() % 3;
  std::map<uint64_t, size_t> n_writes, n_kept;
  for (const Piece& piece : file.pieces) ++n_writes[piece.offset / kSector];
  for (const auto& [sector, n] : n_writes) {
    const bool leans = lean != 0 && random.Next() % 8 != 0;
    n_kept[sector] = !leans ? random.Next() % (n + 1) : lean == 1 ? n : 0;
  }
  std::string bytes = file.durable;
  uint64_t lost_from = UINT64_MAX;  // what was written behind a lost truncation is lost
  auto length = file.lengths.begin();
  const auto pass_lengths = [&](uint64_t before) {
    for (; length != file.lengths.end() && length->sequence < before; ++length) {
      if (!length->truncates) continue;
      if (length->sequence > last_length) {
        lost_from = std::min(lost_from, length->size);
      } else if (length->size < bytes.size()) {
        bytes.resize(length->size);
      }
    }
  };
  std::map<uint64_t, size_t> n_seen;
  for (const Piece& piece : file.pieces) {
    pass_lengths(piece.sequence);
    const uint64_t sector = piece.offset / kSector;
    if (++n_seen[sector] > n_kept[sector] || piece.offset >= lost_from) continue;
    Overwrite(&bytes, piece.offset, piece.bytes);
  }
  pass_lengths(UINT64_MAX);
  bytes.resize(size, '\0');
  return bytes;
}

void CutDisk::WriteTo(const std::string& folder, Kept kept, SeededRandom& random) const {
  // Names that are drawn by the system must not decide what is kept: a seed repeats a cut.
  const uint64_t seed = random.Next();
  // Of each name, how many of its changes are kept.
  using Name = std::pair<int, std::string>;
  struct Changes {
    std::vector<const Effect*> effects;
    size_t n_kept = 0;
  };
  std::map<Name, Changes> changes;
  for (const Effect& effect : effects_) {
    changes[{effect.folder, effect.name}].effects.push_back(&effect);
  }
  for (auto& [name, change] : changes) {
    const size_t n = change.effects.size();
    SeededRandom own(seed ^ (change.effects[0]->sequence * 2 + change.effects[0]->is_old_name));
    change.n_kept = kept == Kept::kNothing      ? 0
                    : kept == Kept::kEverything ? n
                                                : own.Next() % (n + 1);
  }
  // Where an old name is gone, the new one is there.
  std::map<uint64_t, std::pair<Changes*, size_t>> new_names;  // by the rename's sequence
  for (auto& [name, change] : changes) {
    for (size_t i = 0; i < change.effects.size(); ++i) {
      if (!change.effects[i]->is_old_name) new_names[change.effects[i]->sequence] = {&change, i};
    }
  }
  for (bool changed = true; std::exchange(changed, false);) {
    for (const auto& [name, change] : changes) {
      for (size_t i = 0; i < change.n_kept; ++i) {
        if (!change.effects[i]->is_old_name) continue;
        const auto found = new_names.find(change.effects[i]->sequence);
        if (found == new_names.end()) continue;  // synced
        const auto [other, place] = found->second;
        if (other->n_kept > place) continue;
        other->n_kept = place + 1;
        changed = true;
      }
    }
  }
  std::map<int, std::string> written;  // several names of one file stay names of one
  const auto write_folder = [&](const auto& self, int index, const std::string& path) -> void {
    std::map<std::string, int> entries = nodes_[static_cast<size_t>(index)].entries;
    for (const auto& [name, change] : changes) {
      if (name.first != index || change.n_kept == 0) continue;
      const Effect& last = *change.effects[change.n_kept - 1];
      if (last.target < 0) {
        entries.erase(name.second);
      } else {
        entries[name.second] = last.target;
      }
    }
    for (const auto& [name, target] : entries) {
      const Node& child = nodes_[static_cast<size_t>(target)];
      const std::string child_path = path + "/" + name;
      if (child.is_folder) {
        if (mkdir(child_path.c_str(), 0700) != 0) std::abort();
        self(self, target, child_path);
        continue;
      }
      const auto [first, is_new] = written.try_emplace(target, child_path);
      if (is_new) {
        const SeededRandom own(seed + static_cast<uint64_t>(target));
        WriteNew(child_path, Draw(child, kept, own));
      } else if (link(first->second.c_str(), child_path.c_str()) != 0) {
        std::abort();
      }
    }
  };
  write_folder(write_folder, 0, folder);
}

}  // namespace nerf
