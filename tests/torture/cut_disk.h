#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/torture/recorded_disk.h"
#include "tests/torture/seeded_random.h"

namespace nerf {

// How much of what was not synced a power cut keeps.
enum class Kept { kNothing, kSome, kEverything };

// The disk below a RecordedDisk: what is surely on it after the first n operations, and what may
// be. A cut keeps any subset of the rest that a file system may keep:
//   - of each sector (512 bytes) of a file any version since the last fsync of the file, so writes
//     are torn, reordered and dropped;
//   - of a file's length any since then; what was not written reads as zeros; what was written
//     after a truncation that is lost is lost, too;
//   - of each name any version since the last fsync of its folder. An fsync of a file says nothing
//     about its name. A rename may leave both names, never none.
// A failed fsync makes nothing sure, nor does a later one for the same bytes: the kernel counts
// them as written.
class CutDisk {
 public:
  explicit CutDisk(const std::vector<RecordedDisk::Node>& first_nodes);

  void Apply(const DiskOp& op);
  // Writes what a cut leaves into `folder`, which is empty.
  void WriteTo(const std::string& folder, Kept kept, SeededRandom& random) const;

 private:
  static constexpr uint64_t kSector = 512;

  // A part of a write that lies in one sector.
  struct Piece {
    uint64_t sequence = 0;
    uint64_t offset = 0;
    std::string bytes;
    bool is_lost = false;  // an fsync of it has failed
  };
  struct Length {
    uint64_t sequence = 0;
    uint64_t size = 0;
    bool truncates = false;
  };
  struct Node {
    bool is_folder = false;
    std::string live;     // what the process sees
    std::string durable;  // since the last fsync
    std::vector<Piece> pieces;
    std::vector<Length> lengths;
    std::map<std::string, int> entries;  // durable ones, of a folder
  };
  // What one operation does to one name. A rename has two: the new name, then the old one.
  struct Effect {
    uint64_t sequence = 0;
    int folder = 0;
    std::string name;
    int target = -1;  // -1: the name goes
    bool is_old_name = false;
  };

  Node& node(int index);
  void SyncFile(Node& file, bool failed);
  void SyncFolder(int folder);
  void ApplyEffect(const Effect& effect);
  static std::string Draw(const Node& file, Kept kept, SeededRandom random);

  uint64_t sequence_ = 0;
  std::vector<Node> nodes_;
  std::vector<Effect> effects_;  // not durable yet, in order
};

}  // namespace nerf
