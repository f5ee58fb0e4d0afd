#include "worker/engine/engine_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/process/sandbox_support.h"
#include "common/status_macros.h"
#include "worker/engine/landlock.h"

extern char** environ;

namespace nerf {
namespace {

// Settings of libraries that an engine uses, and of its own.
constexpr std::array<std::string_view, 13> kKeptVariables = {
    "LANG",    "LC_",   "TZ",    "OMP_",  "OPENBLAS_", "MKL_", "CUDA_",
    "NVIDIA_", "NERF_", "ASAN_", "TSAN_", "UBSAN_",    "LSAN_"};
constexpr std::array<std::string_view, 2> kDroppedVariables = {"NERF_WORKER_", "NERFCTL_"};
constexpr char kLibraryPath[] = "LD_LIBRARY_PATH";

// Calls of these numbers, and those of kernels to come, are refused with ENOSYS: libc takes that
// for an older kernel and does without. Others get EPERM.
constexpr int kFirstNewCall = 424, kEndOfNewCalls = 1024;
// Requests to open files that libraries make: terminals, and the state of descriptors.
constexpr std::array kRequests = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX};
// What fcntl may do. Not F_SETOWN, F_SETSIG and F_NOTIFY, which send signals to others; not
// F_SETLEASE, which holds up whoever opens the file.
constexpr std::array kFileCommands = {F_DUPFD,     F_DUPFD_CLOEXEC, F_GETFD,      F_SETFD,
                                      F_GETFL,     F_SETFL,         F_GETLK,      F_SETLK,
                                      F_SETLKW,    F_OFD_GETLK,     F_OFD_SETLK,  F_OFD_SETLKW,
                                      F_ADD_SEALS, F_GET_SEALS,     F_GETPIPE_SZ, F_SETPIPE_SZ};

// A filter in the making. Remembers the first error.
class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(EPERM))) {
    if (context_ == nullptr) error_ = -ENOMEM;
    constexpr uint32_t kBinaryTree = 2;
    if (error_ == 0) error_ = seccomp_attr_set(context_, SCMP_FLTATR_CTL_OPTIMIZE, kBinaryTree);
  }
  ~Filter() {
    if (context_ != nullptr) seccomp_release(context_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  template <typename... Conditions>
  void Add(uint32_t action, int call, Conditions... conditions) {
    if (error_ != 0) return;
    error_ = seccomp_rule_add(context_, action, call, sizeof...(conditions), conditions...);
    if (error_ == -EDOM) error_ = 0;  // a call that this architecture does not have
  }
  template <typename... Conditions>
  void Allow(int call, Conditions... conditions) {
    Add(SCMP_ACT_ALLOW, call, conditions...);
  }
  int Export(int fd) { return error_ != 0 ? error_ : seccomp_export_bpf(context_, fd); }

 private:
  const scmp_filter_ctx context_;
  int error_ = 0;
};

void AllowSockets(const std::vector<SocketRule>& rules, Filter* filter) {
  constexpr scmp_datum_t kTypeMask = 0xf;  // without SOCK_CLOEXEC and the like
  for (const SocketRule& rule : rules) {
    const auto is_domain = SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(rule.domain));
    const auto is_type =
        SCMP_A1(SCMP_CMP_MASKED_EQ, kTypeMask, static_cast<scmp_datum_t>(rule.type));
    if (rule.protocol.has_value()) {
      filter->Allow(SCMP_SYS(socket), is_domain, is_type,
                    SCMP_A2(SCMP_CMP_EQ, static_cast<scmp_datum_t>(*rule.protocol)));
    } else {
      filter->Allow(SCMP_SYS(socket), is_domain, is_type);
    }
  }
}

absl::StatusOr<std::vector<sock_filter>> BuildFilter(const EngineRules& rules) {
  Filter filter;
  AllowSockets(rules.sockets, &filter);
  for (const int call : rules.calls) filter.Allow(call);
  const auto is_open = [&](int call) { return rules.calls.contains(call); };
  // Threads and, if allowed, processes of its own, in no new namespaces. clone3 hides its flags in
  // memory: ENOSYS, and libc calls clone.
  if (!is_open(SCMP_SYS(clone))) {
    constexpr scmp_datum_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    const scmp_datum_t wanted = rules.processes ? 0 : CLONE_THREAD;
    filter.Allow(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaces | wanted, wanted));
  }
  if (!is_open(SCMP_SYS(ioctl))) {
    for (const auto request : kRequests) {
      filter.Allow(SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(request)));
    }
  }
  if (!is_open(SCMP_SYS(fcntl))) {
    for (const auto command : kFileCommands) {
      filter.Allow(SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command)));
    }
  }
  filter.Allow(SCMP_SYS(prlimit64), SCMP_A0(SCMP_CMP_EQ, 0));
  for (int call = kFirstNewCall; call < kEndOfNewCalls; ++call) {
    if (!is_open(call)) filter.Add(SCMP_ACT_ERRNO(ENOSYS), call);
  }
  const UniqueFd file(memfd_create("seccomp", MFD_CLOEXEC));
  if (const int error = filter.Export(file.get()); error != 0)
    return ErrnoToStatus(-error, "build the seccomp filter");
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return ErrnoToStatus(errno, "stat the seccomp filter");
  std::vector<sock_filter> program(static_cast<size_t>(status.st_size) / sizeof(sock_filter));
  const ssize_t n = pread(file.get(), program.data(), program.size() * sizeof(sock_filter), 0);
  if (n != status.st_size) return absl::InternalError("the seccomp filter was cut");
  return program;
}

bool IsKept(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  return std::any_of(kKeptVariables.begin(), kKeptVariables.end(), begins) &&
         std::none_of(kDroppedVariables.begin(), kDroppedVariables.end(), begins);
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

// Where memory is short the kernel ends this process, and neither the worker nor a server beside
// it. Not all containers let a process say so; the rest of the sandbox holds without.
void BeFirstToBeKilled() {
  constexpr std::string_view kMost = "1000";
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t n = write(fd, kMost.data(), kMost.size());
  close(fd);
}

}  // namespace

EngineSandbox::EngineSandbox() = default;
EngineSandbox::~EngineSandbox() = default;
EngineSandbox::EngineSandbox(EngineSandbox&&) noexcept = default;

absl::StatusOr<EngineSandbox> EngineSandbox::Build(const EngineSandboxOptions& options,
                                                   const std::string& program) {
  const char* const library_path = getenv(kLibraryPath);
  LoaderPaths loader_paths;
  if (library_path != nullptr) loader_paths.library_path = library_path;
  return Build(options, RulesOf(options, program, loader_paths));
}

absl::StatusOr<EngineSandbox> EngineSandbox::Build(const EngineSandboxOptions& options,
                                                   const EngineRules& rules) {
  EngineSandbox sandbox;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with(std::string(kLibraryPath) + "=")) continue;
    if (!options.enabled || IsKept(text)) sandbox.variables_.emplace_back(text);
  }
  if (!rules.library_path.empty()) {
    sandbox.variables_.push_back(fmt::format("{}={}", kLibraryPath, rules.library_path));
  }
  for (std::string& variable : sandbox.variables_) {
    sandbox.environment_.push_back(variable.data());
  }
  sandbox.environment_.push_back(nullptr);
  if (!options.enabled) return sandbox;
  sandbox.enabled_ = true;
  sandbox.max_file_bytes_ = options.max_file_bytes;
  sandbox.max_open_files_ = options.max_open_files;
  sandbox.max_data_bytes_ = options.max_data_bytes;
  NERF_ASSIGN_OR_RETURN(sandbox.filter_, BuildFilter(rules));
  const int version = LandlockVersion();
  if (version > 0) {
    NERF_ASSIGN_OR_RETURN(sandbox.ruleset_, MakeLandlockRuleset(rules.paths));
  }
  sandbox.description_ =
      fmt::format("{}, seccomp, no capabilities, limits{}{}",
                  version > 0 ? fmt::format("Landlock {}", version) : "no Landlock in this kernel",
                  options.gpu ? ", a GPU" : "", options.ranks ? ", TCP to other ranks" : "");
  return sandbox;
}

bool EngineSandbox::Apply() const {
  if (!enabled_) return true;
  if (!Limit(RLIMIT_CORE, 0) || !Limit(RLIMIT_FSIZE, max_file_bytes_) ||
      !Limit(RLIMIT_NOFILE, max_open_files_)) {
    return false;
  }
  if (max_data_bytes_ > 0 && !Limit(RLIMIT_DATA, max_data_bytes_)) return false;
  BeFirstToBeKilled();
  if (!DropCapabilities()) return false;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (ruleset_.ok() && !EnforceLandlock(ruleset_.get())) return false;
  sock_fprog program{};
  program.len = static_cast<uint16_t>(filter_.size());
  program.filter = const_cast<sock_filter*>(filter_.data());
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace nerf
