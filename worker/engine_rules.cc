#include "worker/engine_rules.h"

#include <linux/netlink.h>
#include <seccomp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace nerf {
namespace {

namespace fs = std::filesystem;

// Folders of libraries, of their data, and of kernel files that they read. Not /usr/bin: an engine
// has nothing to run.
constexpr std::array kSystemPaths = {
    "/usr/lib", "/usr/lib64", "/usr/local/lib",   "/usr/local/cuda",    "/usr/share/zoneinfo",
    "/lib",     "/lib64",     "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime",
    "/proc",    "/sys",       "/dev/urandom",     "/dev/zero"};
// The same for CUDA.
constexpr std::array kDriverPaths = {"/usr/local/nvidia", "/opt/nvidia", "/etc/nvidia"};

// Answered with EPERM.
constexpr std::array kForbiddenCalls = {
#ifndef NERF_SANITIZED  // LeakSanitizer stops the threads of its own process by it
    SCMP_SYS(ptrace),
#endif
    // Other processes.
    SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd), SCMP_SYS(kcmp), SCMP_SYS(perf_event_open),
    // The network. The socket to the worker is there already.
    SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept),
    SCMP_SYS(accept4),
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

// The calls of kForbiddenCalls that ranks need to connect to each other.
constexpr std::array kRankCalls = {SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen),
                                   SCMP_SYS(accept), SCMP_SYS(accept4)};
// Those that CUDA's driver needs: it opens a socket in the abstract namespace and listens.
constexpr std::array kDriverCalls = {SCMP_SYS(bind), SCMP_SYS(listen)};

template <typename Calls>
bool Has(const Calls& calls, int call) {
  return std::find(calls.begin(), calls.end(), call) != calls.end();
}

bool IsDevice(const std::string& path) { return path.starts_with("/dev/"); }

// The device files of NVIDIA's driver that are there, and of what it works with.
std::vector<std::string> DriverDevices() {
  std::vector<std::string> devices = {"/dev/dri", "/dev/dxg"};
  std::error_code error;
  for (fs::directory_iterator it("/dev", error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with("nvidia")) devices.push_back(it->path());
  }
  return devices;
}

LandlockPaths PathsOf(const EngineSandboxOptions& options, const std::string& program,
                      const EngineLibraries& libraries) {
  LandlockPaths paths;
  paths.read.assign(kSystemPaths.begin(), kSystemPaths.end());
  paths.read.insert(paths.read.end(), libraries.files.begin(), libraries.files.end());
  std::error_code error;
  const fs::path real_program = fs::canonical(program, error);
  // Libraries that lie beside it.
  paths.read.push_back(real_program.parent_path().string());
  paths.read.push_back((real_program.parent_path().parent_path() / "lib").string());
  paths.execute = ProgramLoaders();
  paths.execute.push_back(real_program.string());
  paths.tcp = options.ranks;
  paths.write = options.write_paths;
  paths.devices = {"/dev/null"};
  for (const std::string& path : options.read_paths) {
    (IsDevice(path) ? paths.devices : paths.read).push_back(path);
  }
  if (options.gpu) {
    paths.read.insert(paths.read.end(), kDriverPaths.begin(), kDriverPaths.end());
    paths.write.emplace_back("/dev/shm");
    const std::vector<std::string> devices = DriverDevices();
    paths.devices.insert(paths.devices.end(), devices.begin(), devices.end());
  }
  return paths;
}

std::vector<SocketRule> SocketsOf(const EngineSandboxOptions& options) {
  std::vector<SocketRule> sockets;
  if (options.ranks) {
    for (const int domain : {AF_INET, AF_INET6}) sockets.push_back({domain, SOCK_STREAM, {}});
    // They list the network interfaces.
    for (const int type : {SOCK_RAW, SOCK_DGRAM}) {
      sockets.push_back({AF_NETLINK, type, NETLINK_ROUTE});
    }
  }
  // Services of a machine do not listen on this kind, also where ranks may connect.
  if (options.gpu) sockets.push_back({AF_UNIX, SOCK_SEQPACKET, {}});
  return sockets;
}

}  // namespace

EngineRules RulesOf(const EngineSandboxOptions& options, const std::string& program,
                    const LoaderPaths& loader_paths) {
  std::vector<std::string> known(kSystemPaths.begin(), kSystemPaths.end());
  if (options.gpu) known.insert(known.end(), kDriverPaths.begin(), kDriverPaths.end());
  const EngineLibraries libraries = FindEngineLibraries(program, options.gpu, known, loader_paths);
  EngineRules rules;
  rules.paths = PathsOf(options, program, libraries);
  rules.library_path = libraries.library_path;
  rules.sockets = SocketsOf(options);
  for (const int call : kForbiddenCalls) {
    const bool is_needed =
        (options.ranks && Has(kRankCalls, call)) || (options.gpu && Has(kDriverCalls, call));
    if (!is_needed) rules.forbidden_calls.push_back(call);
  }
  return rules;
}

}  // namespace nerf
