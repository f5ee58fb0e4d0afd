#include "engine/train/group/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/ids.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// What /proc says of an open anonymous file of this name.
std::string LinkOf(std::string_view name) { return fmt::format("/memfd:{} (deleted)", name); }

std::string ReadLink(const std::string& path) {
  std::array<char, 256> link;
  const ssize_t n = readlink(path.c_str(), link.data(), link.size());
  return std::string(link.data(), n > 0 ? static_cast<size_t>(n) : 0);
}

absl::Status NotHere(std::string_view what) {
  return absl::FailedPreconditionError(fmt::format("cannot share memory: {}", what));
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create(size_t size) {
  // A file that is made larger than allowed is a signal that ends the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < size)
    return absl::ResourceExhaustedError("the limit of the size of files is too low");
  SystemRandom random;
  SharedMemory memory;
  memory.name_ = fmt::format("nerf-ranks-{}", NewUuid4(random));
  memory.file_ = UniqueFd(memfd_create(memory.name_.c_str(), MFD_CLOEXEC));
  if (!memory.file_.ok()) return ErrnoToStatus(errno, "make shared memory");
  if (ftruncate(memory.file_.get(), static_cast<off_t>(size)) != 0)
    return ErrnoToStatus(errno, "size shared memory");
  void* const bytes =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.file_.get(), 0);
  if (bytes == MAP_FAILED) return ErrnoToStatus(errno, "map shared memory");
  memory.bytes_ = static_cast<std::byte*>(bytes);
  memory.size_ = size;
  return memory;
}

std::string SharedMemory::Address() const {
  return fmt::format("{} {} {}", getpid(), file_.get(), name_);
}

absl::StatusOr<SharedMemory> SharedMemory::Open(std::string_view address) {
  const std::vector<std::string> words = absl::StrSplit(std::string(address), ' ');
  int32_t process = 0, fd = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &process) ||
      !absl::SimpleAtoi(words[1], &fd)) {
    return absl::InvalidArgumentError("not an address of shared memory");
  }
  SharedMemory memory;
  // Before the look at the name, which proves that the process is the right one.
  memory.owner_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!memory.owner_.ok()) return NotHere("no such process here");
  const std::string path = fmt::format("/proc/{}/fd/{}", process, fd);
  if (ReadLink(path) != LinkOf(words[2])) return NotHere("it is not of this machine");
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.ok() || fstat(file.get(), &status) != 0 || status.st_size <= 0)
    return NotHere("it cannot be opened");
  memory.size_ = static_cast<size_t>(status.st_size);
  void* const bytes = mmap(nullptr, memory.size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (bytes == MAP_FAILED) return NotHere("it cannot be mapped");
  memory.bytes_ = static_cast<std::byte*>(bytes);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, nullptr)),
      size_(other.size_),
      name_(std::move(other.name_)),
      file_(std::move(other.file_)),
      owner_(std::move(other.owner_)) {}

SharedMemory::~SharedMemory() {
  if (bytes_ != nullptr) munmap(bytes_, size_);
}

bool SharedMemory::OwnerRuns() const {
  pollfd waiting{owner_.get(), POLLIN, 0};  // readable once the process has ended
  return poll(&waiting, 1, 0) <= 0;
}

}  // namespace nerf
