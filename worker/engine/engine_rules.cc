#include "worker/engine/engine_rules.h"

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

// What an engine needs, with room for other versions of libc and libraries. All other calls are
// refused, those of kernels newer than this list, too.
constexpr std::array kCalls = {
    // Files. The rules of Landlock say which; modes, owners, times, links and attributes stay as
    // they are, so that the cache's files, which are linked into an engine's folders, do.
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(preadv),
    SCMP_SYS(pwritev),
    SCMP_SYS(preadv2),
    SCMP_SYS(pwritev2),
    SCMP_SYS(lseek),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(creat),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(stat),
    SCMP_SYS(fstat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getdents),
    SCMP_SYS(getdents64),
    SCMP_SYS(getcwd),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(flock),
    SCMP_SYS(pipe),
    SCMP_SYS(pipe2),
    SCMP_SYS(truncate),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(sync_file_range),
    SCMP_SYS(fadvise64),
    SCMP_SYS(readahead),
    SCMP_SYS(sendfile),
    SCMP_SYS(copy_file_range),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(rmdir),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(umask),
    // Memory.
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(mprotect),
    SCMP_SYS(madvise),
    SCMP_SYS(msync),
    SCMP_SYS(mincore),
    SCMP_SYS(brk),
    SCMP_SYS(mlock),
    SCMP_SYS(mlock2),
    SCMP_SYS(munlock),
    SCMP_SYS(membarrier),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(set_mempolicy),
    SCMP_SYS(mbind),
    // Threads, and the one program.
    SCMP_SYS(execve),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(futex),
    SCMP_SYS(rseq),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(get_robust_list),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(tgkill),
    SCMP_SYS(wait4),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_setaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_get_priority_max),
    SCMP_SYS(sched_get_priority_min),
    SCMP_SYS(getpriority),
    SCMP_SYS(prctl),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(getcpu),
    SCMP_SYS(restart_syscall),
    // Signals.
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(signalfd4),
    // Time, and what waits.
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(times),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(timerfd_gettime),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(eventfd),
    SCMP_SYS(eventfd2),
    // The socket to the worker, which is there already.
    SCMP_SYS(sendto),
    SCMP_SYS(recvfrom),
    SCMP_SYS(sendmsg),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendmmsg),
    SCMP_SYS(recvmmsg),
    SCMP_SYS(shutdown),
    SCMP_SYS(getsockopt),
    SCMP_SYS(setsockopt),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),
    // About the machine and itself.
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getrandom),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getresuid),
    SCMP_SYS(getresgid),
    SCMP_SYS(getgroups),
    SCMP_SYS(getpgrp),
    SCMP_SYS(getpgid),
    SCMP_SYS(getsid),
    SCMP_SYS(capget),
#ifdef NERF_SANITIZED
    // LeakSanitizer stops the threads of its own process from a child.
    SCMP_SYS(clone),
    SCMP_SYS(ptrace),
    SCMP_SYS(personality),
    SCMP_SYS(kill),
#endif
};
// Ranks connect to each other, and ask for the network's interfaces.
constexpr std::array kRankCalls = {SCMP_SYS(connect), SCMP_SYS(bind),    SCMP_SYS(listen),
                                   SCMP_SYS(accept),  SCMP_SYS(accept4), SCMP_SYS(ioctl)};
// CUDA's driver works by requests to its devices, opens a socket in the abstract namespace and
// listens.
constexpr std::array kDriverCalls = {SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(ioctl),
                                     SCMP_SYS(memfd_create)};

// To start other programs, to wait for them and to end them: Landlock, where it is new enough,
// allows signals to these alone.
constexpr std::array kProcessCalls = {SCMP_SYS(vfork), SCMP_SYS(waitid), SCMP_SYS(kill)};

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
  paths.execute = ProgramLoaders();
  paths.execute.push_back(real_program.string());
  for (const std::string& other : options.programs) {
    const fs::path real_other = fs::canonical(other, error);
    if (!error) paths.execute.push_back(real_other.string());
  }
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
  EngineLibraries libraries = FindEngineLibraries(program, options.gpu, known, loader_paths);
  for (const std::string& other : options.programs) {
    const EngineLibraries more =
        FindEngineLibraries(other, /*with_driver=*/false, known, loader_paths);
    libraries.files.insert(libraries.files.end(), more.files.begin(), more.files.end());
  }
  EngineRules rules;
  rules.paths = PathsOf(options, program, libraries);
  rules.library_path = libraries.library_path;
  rules.sockets = SocketsOf(options);
  rules.calls.insert(kCalls.begin(), kCalls.end());
  if (options.ranks) rules.calls.insert(kRankCalls.begin(), kRankCalls.end());
  rules.processes = !options.programs.empty();
  if (rules.processes) rules.calls.insert(kProcessCalls.begin(), kProcessCalls.end());
  if (options.gpu) rules.calls.insert(kDriverCalls.begin(), kDriverCalls.end());
  return rules;
}

}  // namespace nerf
