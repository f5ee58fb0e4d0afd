// An engine that was taken over: tries to reach what is not its own and says what it got in one
// message per attempt, "NAME ok" or "NAME refused" with the error. Arguments: folder of its job,
// the key of the worker in its cache folder, a file in the cache that the job's folder links to.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kWorkerFd = 3;

void Say(const std::string& name, bool got_it) {
  const char* const error = errno == 0 ? "" : strerrorname_np(errno);
  const std::string text = name + (got_it ? " ok" : std::string(" refused ") + error);
  // A length below 128 is one byte.
  const std::string message = static_cast<char>(text.size()) + text;
  if (text.size() >= 128 || write(kWorkerFd, message.data(), message.size()) < 0) _exit(1);
  errno = 0;
}

bool CanRead(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 0;
  const bool got_it = fd >= 0 && read(fd, &byte, 1) > 0;
  if (fd >= 0) close(fd);
  return got_it;
}

bool CanList(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  char entries[1024];
  const bool got_it = fd >= 0 && syscall(SYS_getdents64, fd, entries, sizeof(entries)) > 0;
  if (fd >= 0) close(fd);
  return got_it;
}

bool ReadsText(const char* path, const std::string& expected) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  char text[64];
  const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));
  if (fd >= 0) close(fd);
  return n > 0 && std::string(text, static_cast<size_t>(n)) == expected;
}

bool CanWrite(const std::string& path, int flags = 0) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0600);
  const bool got_it = fd >= 0 && write(fd, "x", 1) == 1;
  if (fd >= 0) close(fd);
  return got_it;
}

bool CanRun(const char* program) {
  const pid_t child = fork();
  if (child == 0) {
    char* argv[] = {const_cast<char*>(program), nullptr};
    execv(program, argv);
    _exit(99);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) != 99;
}

bool CanOpenSocket(int domain, int type = SOCK_STREAM) {
  const int fd = socket(domain, type | SOCK_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

bool CanReadMemoryOf(pid_t other) {
  char here[8];
  iovec local{here, sizeof(here)}, remote{reinterpret_cast<void*>(0x400000), sizeof(here)};
  // EFAULT would mean that it was allowed to look.
  return process_vm_readv(other, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT;
}

}  // namespace

// What the program reaches that it has begun anew in its place.
int RunAnew(const std::string& secret) {
  Say("secret-after-exec", CanRead(secret));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  Say("process-after-exec", child > 0);
  Say("end", true);
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3) return RunAnew(argv[2]);
  if (argc != 4) return 2;
  const std::string job = argv[1], secret = argv[2], cached = argv[3];
  const std::string cache = secret.substr(0, secret.rfind('/'));
  const pid_t worker = getppid();
  const std::string of_worker = "/proc/" + std::to_string(worker);

  // Its own work.
  Say("read-scene", CanRead(job + "/scene.json"));
  Say("write-output", CanWrite(job + "/out.bin", O_CREAT | O_EXCL));
  Say("make-folder", mkdir((job + "/sub").c_str(), 0700) == 0);
  Say("read-libraries", CanRead("/proc/self/maps"));

  Say("secret", CanRead(secret));
  Say("secret-by-dots", CanRead(job + "/../../" + secret.substr(secret.rfind('/') + 1)));
  Say("passwd", CanRead("/etc/passwd"));
  Say("other-files", CanRead("/etc/hostname") || CanRead("/etc/group"));
  Say("cache", CanRead(cached));
  Say("list-of-cache", CanList(cache));
  Say("other-project", CanRead(cache + "/rooms/2/jobs/photo.png"));
  Say("list-of-projects", CanList(cache + "/rooms"));
  Say("admin-token", CanRead(cache + "/../data/admin.token"));
  Say("worker-token", CanRead(cache + "/../data/worker.token"));
  Say("queue", CanRead(cache + "/../data/nerfd.db"));
  Say("write-queue", CanWrite(cache + "/../data/nerfd.db"));
  Say("list-of-data-folder", CanList(cache + "/../data"));
  Say("other-folder", CanWrite("/tmp/hostile-engine", O_CREAT));
  Say("write-cached", CanWrite(job + "/linked.bin"));
  Say("chmod-cached", chmod((job + "/linked.bin").c_str(), 0600) == 0);
  Say("truncate-cached", truncate((job + "/linked.bin").c_str(), 0) == 0);
  // Calls of newer kernels: fchmodat2, setxattrat, open_tree_attr.
  const std::string linked = job + "/linked.bin";
  Say("chmod-by-a-newer-call", syscall(452, AT_FDCWD, linked.c_str(), 0600, 0) == 0);
  Say("times-of-cached", utimensat(AT_FDCWD, linked.c_str(), nullptr, 0) == 0);
  char attribute[] = "x";
  struct {
    void* value;
    unsigned size, flags;
  } value{attribute, 1, 0};
  Say("attribute-by-a-newer-call",
      syscall(463, AT_FDCWD, linked.c_str(), 0, "user.x", &value, sizeof(value)) == 0);
  Say("tree-by-a-newer-call", syscall(467, AT_FDCWD, job.c_str(), 0, nullptr, 0) >= 0);
  Say("program-folder", CanRead(cache + "/bin/beside"));
  Say("shared-memory", CanWrite("/dev/shm/hostile-engine", O_CREAT));
  Say("symlink", symlink(secret.c_str(), (job + "/soft").c_str()) == 0);
  Say("hard-link", link(secret.c_str(), (job + "/hard").c_str()) == 0);
  Say("move-away", rename((job + "/out.bin").c_str(), "/tmp/hostile-out") == 0);
  Say("environment",
      getenv("NERF_WORKER_SECRET") != nullptr || getenv("HOSTILE_SECRET") != nullptr);

  // 1.5 GiB that are never touched: the limit counts what may be.
  constexpr size_t kMuch = size_t{3} << 29;
  Say("much-memory", mmap(nullptr, kMuch, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
  Say("first-to-be-killed", ReadsText("/proc/self/oom_score_adj", "1000\n"));

  Say("tcp", CanOpenSocket(AF_INET) || CanOpenSocket(AF_INET6));
  Say("udp", CanOpenSocket(AF_INET, SOCK_DGRAM) || CanOpenSocket(AF_INET6, SOCK_DGRAM));
  Say("unix-socket", CanOpenSocket(AF_UNIX));
  Say("netlink", CanOpenSocket(AF_NETLINK));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  Say("process", child > 0);
  Say("session", setsid() >= 0);
  const long cloned =
      syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (cloned == 0) _exit(0);
  Say("clone-in-a-namespace", cloned > 0);
  Say("system-v-memory", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) >= 0);
  Say("nameless-program", memfd_create("x", MFD_CLOEXEC) >= 0);
  Say("shell", CanRun("/bin/sh") || CanRun("/usr/bin/true"));
  Say("signal-worker", kill(worker, 0) == 0);
  Say("trace-worker", ptrace(PTRACE_SEIZE, worker, nullptr, nullptr) == 0);
  Say("memory-of-worker", CanReadMemoryOf(worker) || CanRead(of_worker + "/mem"));
  Say("environment-of-worker", CanRead(of_worker + "/environ"));
  Say("namespace", unshare(CLONE_NEWUSER) == 0);
  Say("mount", mount("none", job.c_str(), "tmpfs", 0, nullptr) == 0);
  Say("privileges", setuid(0) == 0 && CanRead("/etc/shadow"));
  const auto limit_of = [](auto resource) {
    rlimit limit{};
    getrlimit(resource, &limit);
    return limit.rlim_max;
  };
  Say("core-file", limit_of(RLIMIT_CORE) != 0);
  Say("huge-file", limit_of(RLIMIT_FSIZE) > uint64_t{64} << 30);
  Say("many-descriptors", limit_of(RLIMIT_NOFILE) > 4096);
  char again[] = "again";
  char* arguments[] = {argv[0], again, argv[2], nullptr};
  execv("/proc/self/exe", arguments);
  Say("exec", false);
  return 1;
}
