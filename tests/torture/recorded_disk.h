#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nerf {

// One change of a file system, in the order in which a program asked for it.
struct DiskOp {
  enum class Kind {
    kWrite,     // `bytes` at `offset` of `node`
    kTruncate,  // to `offset` bytes, which may also make a file longer
    kSync,      // fsync of a file or a folder
    kMake,      // `name` of folder `node` becomes the new file or folder `target`
    kLink,      // `name` of folder `node` becomes the file `target`, too
    kUnlink,    // `name` of folder `node` goes
    kRename,    // `name` of folder `node` becomes `new_name` of folder `new_node`
  };
  Kind kind = Kind::kWrite;
  int node = 0;
  uint64_t offset = 0;
  std::string bytes = {};
  std::string name = {}, new_name = {};
  int target = 0, new_node = 0;
  bool is_folder = false;  // of `target`
  bool failed = false;     // of kSync: it returned an error
};

// What a fault does to one operation.
enum class DiskFault { kNone, kIoError, kNoSpace, kShortWrite, kDead };

// Records what this process changes below a folder, and lets operations fail. The calls of libc
// that change files (open, write, fsync, rename, ... of recorded_disk.cc) are defined by the test
// program itself, so that product code and SQLite run as they are; on other paths they only pass
// on. The folder's real files are what a running process sees, the page cache so to speak; what a
// power cut leaves of them is drawn by CutDisk. Not recorded: modes and times.
// At most one object at a time.
class RecordedDisk {
 public:
  struct Node {
    bool is_folder = false;
    std::string bytes = {};                   // of a file, when recording began
    std::map<std::string, int> entries = {};  // of a folder, now
  };
  // Asked before each operation, with its number in `ops`.
  using ChooseFault = std::function<DiskFault(size_t number, const DiskOp& op)>;

  // What `folder` has is taken for synced. `folder` has no link in its path and no trailing slash.
  explicit RecordedDisk(std::string folder);
  ~RecordedDisk();
  RecordedDisk(const RecordedDisk&) = delete;
  RecordedDisk& operator=(const RecordedDisk&) = delete;

  // The nodes when recording began; the folder is node 0.
  const std::vector<Node>& first_nodes() const { return first_nodes_; }
  const std::vector<DiskOp>& ops() const { return ops_; }
  std::vector<DiskOp> TakeOps() { return std::move(ops_); }
  size_t n_ops() const { return ops_.size(); }
  const std::string& folder() const { return folder_; }

  void set_choose_fault(ChooseFault choose) { choose_fault_ = std::move(choose); }
  // From now on every operation fails and changes nothing, as if the process had been killed, until
  // Revive.
  void Kill() { dead_ = true; }
  void Revive() { dead_ = false; }
  bool dead() const { return dead_; }

  // --- For the calls of libc. ---
  static RecordedDisk* Of(std::string_view path);  // null: the path is not recorded
  // The fault of an operation that is about to run. kDead when the process is dead.
  DiskFault Begin(const DiskOp& op);
  void Add(DiskOp op) { ops_.push_back(std::move(op)); }
  std::optional<int> Find(std::string_view path) const;
  // The folder of a path's last part, and that part.
  std::optional<std::pair<int, std::string>> FindParent(std::string_view path) const;
  int MakeNode(bool is_folder);
  std::map<std::string, int>& entries(int folder) {
    return nodes_[static_cast<size_t>(folder)].entries;
  }

 private:
  void Scan(const std::string& path, int node);

  const std::string folder_;
  std::vector<Node> first_nodes_, nodes_;
  std::vector<DiskOp> ops_;
  ChooseFault choose_fault_;
  bool dead_ = false;
};

}  // namespace nerf
