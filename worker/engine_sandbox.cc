#include "worker/engine_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/sandbox_support.h"
#include "common/status_macros.h"
#include "worker/landlock.h"

extern char** environ;

namespace nerf {
namespace {

namespace fs = std::filesystem;

// Folders of libraries, of their data, and of kernel files that they read. Not /usr/bin: an engine
// has nothing to run.
constexpr std::array kSystemPaths = {
    "/usr/lib",   "/usr/lib64", "/usr/local/lib",   "/usr/local/cuda",    "/usr/share/zoneinfo",
    "/lib",       "/lib64",     "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime",
    "/proc",      "/sys",       "/dev/urandom",     "/dev/zero",          "/opt/nvidia",
    "/etc/nvidia"};
constexpr std::array kDevices = {
    "/dev/null",           "/dev/nvidiactl",   "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset", "/dev/nvidia-caps", "/dev/dri"};
constexpr int kMaxGpus = 16;

// Settings of libraries that an engine uses, and of its own.
constexpr std::array<std::string_view, 14> kKeptVariables = {
    "LANG",    "LC_",   "TZ",    "OMP_",  "OPENBLAS_", "MKL_",  "CUDA_",
    "NVIDIA_", "NERF_", "ASAN_", "TSAN_", "UBSAN_",    "LSAN_", "LD_LIBRARY_PATH"};
constexpr std::array<std::string_view, 2> kDroppedVariables = {"NERF_WORKER_", "NERFCTL_"};

// Answered with EPERM.
constexpr std::array kForbiddenCalls = {
#ifndef NERF_SANITIZED  // LeakSanitizer stops the threads of its own process by it
    SCMP_SYS(ptrace),
#endif
    // Other processes.
    SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd), SCMP_SYS(kcmp), SCMP_SYS(perf_event_open),
    // The network. The socket to the worker is there already.
    SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen),
    SCMP_SYS(accept), SCMP_SYS(accept4),
    // Modes and owners: the cache's files are read-only for the engine.
    SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown),
    SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr),
    SCMP_SYS(fsetxattr), SCMP_SYS(removexattr), SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr),
    // Links out of the folders, devices, pipes by name.
    SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(link), SCMP_SYS(linkat), SCMP_SYS(mknod),
    SCMP_SYS(mknodat), SCMP_SYS(name_to_handle_at), SCMP_SYS(open_by_handle_at),
    // Other views of the system, and parts of the kernel that an engine has no use for.
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns),
    SCMP_SYS(unshare), SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen),
    SCMP_SYS(fsmount), SCMP_SYS(bpf), SCMP_SYS(userfaultfd), SCMP_SYS(io_uring_setup),
    SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(keyctl), SCMP_SYS(acct), SCMP_SYS(quotactl),
    SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(reboot), SCMP_SYS(kexec_load),
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(adjtimex), SCMP_SYS(sethostname)};

// The calls of kForbiddenCalls that ranks need to connect to each other. Sockets are limited by
// ForbidOtherSockets.
constexpr std::array kRankCalls = {SCMP_SYS(socket), SCMP_SYS(connect), SCMP_SYS(bind),
                                   SCMP_SYS(listen), SCMP_SYS(accept),  SCMP_SYS(accept4)};

// Forbids all sockets but those of TCP and those that list the network interfaces.
int ForbidOtherSockets(scmp_filter_ctx context) {
  constexpr scmp_datum_t kMaxDomain = 63, kTypeMask = 0xf;
  const auto forbid = [&](auto... conditions) {
    return seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), sizeof...(conditions),
                            conditions...);
  };
  int error = forbid(SCMP_A0(SCMP_CMP_GT, kMaxDomain));
  for (scmp_datum_t domain = 0; domain <= kMaxDomain && error == 0; ++domain) {
    const bool is_internet = domain == AF_INET || domain == AF_INET6;
    if (!is_internet && domain != AF_NETLINK) error = forbid(SCMP_A0(SCMP_CMP_EQ, domain));
    for (scmp_datum_t type = 0; is_internet && type <= kTypeMask && error == 0; ++type) {
      if (type == SOCK_STREAM) continue;
      error = forbid(SCMP_A0(SCMP_CMP_EQ, domain), SCMP_A1(SCMP_CMP_MASKED_EQ, kTypeMask, type));
    }
  }
  if (error != 0) return error;
  return forbid(SCMP_A0(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
}

absl::StatusOr<std::vector<sock_filter>> BuildFilter(bool ranks) {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) return absl::ResourceExhaustedError("seccomp_init failed");
  int error = ranks ? ForbidOtherSockets(context) : 0;
  for (const int call : kForbiddenCalls) {
    if (error != 0) break;
    if (ranks && std::find(kRankCalls.begin(), kRankCalls.end(), call) != kRankCalls.end()) {
      continue;
    }
    // A call that this architecture does not have is no error.
    error = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), call, 0);
    if (error != 0 && error != -EDOM) break;
    error = 0;
  }
  const UniqueFd file(memfd_create("seccomp", MFD_CLOEXEC));
  if (error == 0) error = seccomp_export_bpf(context, file.get());
  seccomp_release(context);
  if (error != 0) return ErrnoToStatus(-error, "build the seccomp filter");
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return ErrnoToStatus(errno, "stat the seccomp filter");
  std::vector<sock_filter> filter(static_cast<size_t>(status.st_size) / sizeof(sock_filter));
  const ssize_t n = pread(file.get(), filter.data(), filter.size() * sizeof(sock_filter), 0);
  if (n != status.st_size) return absl::InternalError("the seccomp filter was cut");
  return filter;
}

bool IsKept(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  return std::any_of(kKeptVariables.begin(), kKeptVariables.end(), begins) &&
         std::none_of(kDroppedVariables.begin(), kDroppedVariables.end(), begins);
}

// The program that the kernel runs to load a dynamic program.
std::vector<std::string> Loaders() {
  std::vector<std::string> loaders;
  for (const char* folder : {"/lib64", "/lib", "/usr/lib64"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().filename().string().starts_with("ld-linux")) {
        loaders.push_back(fs::canonical(entry.path(), error).string());
      }
    }
  }
  return loaders;
}

LandlockPaths PathsOf(const EngineSandboxOptions& options, const std::string& program) {
  LandlockPaths paths;
  paths.read.assign(kSystemPaths.begin(), kSystemPaths.end());
  paths.read.insert(paths.read.end(), options.read_paths.begin(), options.read_paths.end());
  std::error_code error;
  const fs::path real_program = fs::canonical(program, error);
  // Libraries that lie beside it.
  paths.read.push_back(real_program.parent_path().string());
  paths.read.push_back((real_program.parent_path().parent_path() / "lib").string());
  paths.execute = Loaders();
  paths.execute.push_back(real_program.string());
  paths.tcp = options.ranks;
  paths.write = options.write_paths;
  if (options.shared_memory) paths.write.emplace_back("/dev/shm");
  paths.devices.assign(kDevices.begin(), kDevices.end());
  for (int i = 0; i < kMaxGpus; ++i) paths.devices.push_back(fmt::format("/dev/nvidia{}", i));
  return paths;
}

bool DropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  // Capabilities that root would get back at exec.
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    // Without CAP_SETPCAP it fails, and then there is nothing to get back.
    prctl(PR_CAPBSET_DROP, capability);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return syscall(SYS_capset, &header, none) == 0;
}

bool Limit(__rlimit_resource resource, uint64_t most) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, most);
  limit.rlim_max = limit.rlim_cur;
  return setrlimit(resource, &limit) == 0;
}

}  // namespace

EngineSandbox::EngineSandbox() = default;
EngineSandbox::~EngineSandbox() = default;
EngineSandbox::EngineSandbox(EngineSandbox&&) noexcept = default;

absl::StatusOr<EngineSandbox> EngineSandbox::Build(const EngineSandboxOptions& options,
                                                   const std::string& program) {
  EngineSandbox sandbox;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!options.enabled || IsKept(*variable)) sandbox.variables_.emplace_back(*variable);
  }
  for (std::string& variable : sandbox.variables_) {
    sandbox.environment_.push_back(variable.data());
  }
  sandbox.environment_.push_back(nullptr);
  if (!options.enabled) return sandbox;
  sandbox.enabled_ = true;
  sandbox.max_file_bytes_ = options.max_file_bytes;
  sandbox.max_open_files_ = options.max_open_files;
  NERF_ASSIGN_OR_RETURN(sandbox.filter_, BuildFilter(options.ranks));
  const int version = LandlockVersion();
  if (version > 0) {
    NERF_ASSIGN_OR_RETURN(sandbox.ruleset_, MakeLandlockRuleset(PathsOf(options, program)));
  }
  sandbox.description_ =
      fmt::format("{}, seccomp, no capabilities, limits{}",
                  version > 0 ? fmt::format("Landlock {}", version) : "no Landlock in this kernel",
                  options.ranks ? ", TCP to other ranks" : "");
  return sandbox;
}

bool EngineSandbox::Apply() const {
  if (!enabled_) return true;
  if (!Limit(RLIMIT_CORE, 0) || !Limit(RLIMIT_FSIZE, max_file_bytes_) ||
      !Limit(RLIMIT_NOFILE, max_open_files_)) {
    return false;
  }
  if (!DropCapabilities()) return false;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (ruleset_.ok() && !EnforceLandlock(ruleset_.get())) return false;
  sock_fprog program{};
  program.len = static_cast<uint16_t>(filter_.size());
  program.filter = const_cast<sock_filter*>(filter_.data());
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace nerf
