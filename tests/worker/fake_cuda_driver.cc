// A stand-in for NVIDIA's libcuda.so.1: cuInit does to the system what the driver's does, so that a
// sandbox that would stop the driver stops it, too. Each failed step is named on stderr.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

namespace {

constexpr int kSuccess = 0, kOperatingSystem = 304;  // CUresult

bool Step(bool worked, const std::string& what) {
  if (!worked) std::fprintf(stderr, "fake driver: %s: %s\n", what.c_str(), std::strerror(errno));
  return worked;
}

bool Exists(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0;
}

bool Reads(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 0;
  const bool worked = fd >= 0 && read(fd, &byte, 1) >= 0;
  if (fd >= 0) close(fd);
  return Step(worked, "read " + path);
}

// Files that only some installations have.
bool ReadsIfThere(const std::string& path) { return !Exists(path) || Reads(path); }

bool Lists(const char* folder) {
  DIR* const opened = opendir(folder);
  if (opened != nullptr) closedir(opened);
  return Step(opened != nullptr, std::string("list ") + folder);
}

bool UsesDevice(const std::string& path) {
  if (!Exists(path)) return true;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (!Step(fd >= 0, "open " + path)) return false;
  constexpr unsigned long kRequest = _IOWR('F', 200, int);
  int argument = 0;
  // The files that stand in for devices answer that they know no such request.
  const bool worked = ioctl(fd, kRequest, &argument) == 0 || errno == ENOTTY;
  close(fd);
  return Step(worked, "ioctl " + path);
}

bool SharesMemory() {
  const std::string path = "/dev/shm/cuda.shm." + std::to_string(getpid());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (!Step(fd >= 0, "make " + path)) return false;
  void* const memory = ftruncate(fd, 4096) == 0
                           ? mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                           : MAP_FAILED;
  const bool worked = memory != MAP_FAILED;
  if (worked) munmap(memory, 4096);
  unlink(path.c_str());
  close(fd);
  return Step(worked, "map " + path);
}

bool SharesNamelessMemory() {
  const int fd = memfd_create("cuda", MFD_CLOEXEC);
  const bool worked = fd >= 0 && ftruncate(fd, 4096) == 0;
  if (fd >= 0) close(fd);
  return Step(worked, "make nameless memory");
}

bool MapsMemory() {
  constexpr size_t kReserved = size_t{1} << 36, kUsed = size_t{1} << 21;
  auto* const reserved = static_cast<char*>(
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (!Step(reserved != MAP_FAILED, "reserve addresses")) return false;
  const bool worked = mmap(reserved, kUsed, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == reserved &&
                      madvise(reserved, kUsed, MADV_DONTFORK) == 0 && mlock(reserved, 4096) == 0 &&
                      mprotect(reserved, 4096, PROT_READ) == 0;
  munmap(reserved, kReserved);
  return Step(worked, "use addresses");
}

bool AsksTheKernel() {
  utsname name{};
  rusage usage{};
  cpu_set_t cores;
  int policy = 0;
  const int event = eventfd(0, EFD_CLOEXEC);
  const bool worked =
      uname(&name) == 0 && getrusage(RUSAGE_SELF, &usage) == 0 &&
      sched_getaffinity(0, sizeof(cores), &cores) == 0 &&
      sched_setaffinity(0, sizeof(cores), &cores) == 0 && event >= 0 &&
      prctl(PR_GET_DUMPABLE) >= 0 &&
      // A kernel without NUMA has no such call.
      (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) == 0 || errno == ENOSYS);
  if (event >= 0) close(event);
  return Step(worked, "ask the kernel");
}

// A name that other processes could ask for, and a thread that waits for them.
bool Listens() {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (!Step(fd >= 0, "make a socket")) return false;
  const int yes = 1;
  if (!Step(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) == 0, "set up a socket")) {
    return false;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "cuda-uvmfd-4026531836-" + std::to_string(getpid());
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!Step(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind a socket") ||
      !Step(listen(fd, 16) == 0, "listen")) {
    return false;
  }
  std::thread([fd] {
    pollfd waiting{fd, POLLIN, 0};
    poll(&waiting, 1, -1);
  }).detach();
  return true;
}

bool LoadsNeighbor() {
  if (dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_NOW) != nullptr) return true;
  std::fprintf(stderr, "fake driver: %s\n", dlerror());
  return false;
}

// What some installations keep beside the folder of the libraries.
bool ReadsOwnFiles() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&ReadsOwnFiles), &self) == 0) return false;
  const std::filesystem::path folder = std::filesystem::path(self.dli_fname).parent_path();
  return ReadsIfThere((folder.parent_path() / "share/nvidia/profile").string());
}

}  // namespace

extern "C" {

int cuInit(unsigned int /*flags*/) {
  bool worked = true;
  for (const char* file :
       {"/proc/self/maps", "/proc/self/status", "/proc/devices", "/proc/meminfo",
        "/proc/sys/vm/overcommit_memory", "/sys/devices/system/cpu/online", "/dev/zero"}) {
    worked &= Reads(file);
  }
  for (const char* file : {"/opt/nvidia/profile", "/etc/nvidia/profile"}) {
    worked &= ReadsIfThere(file);
  }
  worked &= Lists("/sys/devices/system") && Lists("/proc/self/task");
  for (const char* device : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-uvm",
                             "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
                             "/dev/nvidia-caps/nvidia-cap1", "/dev/dri/renderD128", "/dev/dxg"}) {
    worked &= UsesDevice(device);
  }
  worked &= ReadsOwnFiles() && LoadsNeighbor() && SharesMemory() && SharesNamelessMemory() &&
            MapsMemory() && AsksTheKernel() && Listens();
  return worked ? kSuccess : kOperatingSystem;
}

int cuDeviceGetCount(int* n_devices) {
  *n_devices = 1;
  return kSuccess;
}

}  // extern "C"
