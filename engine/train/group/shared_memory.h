#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/files/file_io.h"

namespace nerf {

// Memory that one process writes and others of its machine read. It has no name in any folder, so
// that nothing is left when the processes end. Movable, not thread-safe.
class SharedMemory {
 public:
  // Zeroed memory of this process. Pages that are not touched cost nothing. Errors: what the system
  // says; ResourceExhausted if files may not become that large.
  static absl::StatusOr<SharedMemory> Create(size_t size);
  // The memory that has this Address(), to be read. Errors: InvalidArgument for a text that is no
  // address; FailedPrecondition if there is none that this process may read, as on another machine
  // or in another container.
  static absl::StatusOr<SharedMemory> Open(std::string_view address);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // A text by which other processes of this machine open the memory of Create; no other memory of
  // any machine has it.
  std::string Address() const;
  // Of memory of Create: from now on it cannot be opened.
  void Close() { file_.Reset(); }
  // Of memory of Open: whether the process that made it runs.
  bool OwnerRuns() const;

  std::byte* data() const { return bytes_; }  // of memory of Open: must not be written
  size_t size() const { return size_; }

 private:
  SharedMemory() = default;

  std::byte* bytes_ = nullptr;
  size_t size_ = 0;
  std::string name_;
  UniqueFd file_;   // of Create
  UniqueFd owner_;  // of Open: the process
};

}  // namespace nerf
