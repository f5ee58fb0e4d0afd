#include "worker/engine/engine_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <thread>
#include <utility>

#include "common/files/file_io.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "engine/base/protocol/message_splitter.h"

namespace nerf {
namespace {

// Limits of the messages that wait for Take. Above them the socket is not read.
constexpr size_t kMaxWaitingMessages = 256;
constexpr size_t kMaxWaitingBytes = size_t{4} << 20;
// A child that has closed its socket is killed if it does not exit within this time.
constexpr int kExitGraceMs = 2000;

class EngineProcess final : public Engine {
 public:
  EngineProcess(UniqueFd socket, UniqueFd wakeup, std::function<void()> on_readable)
      : socket_(std::move(socket)),
        wakeup_(std::move(wakeup)),
        on_readable_(std::move(on_readable)) {}

  ~EngineProcess() override {
    Kill(EngineExit::Kind::kKilled);
    thread_.join();
  }

  // Forks in the IO thread, which lives as long as the child: the kernel sends the parent-death
  // signal when the forking thread ends.
  template <typename Fork>
  bool Start(Fork fork_child) {
    Mutex mu;
    CondVar forked;
    bool done = false;
    thread_ = std::thread([&, fork_child] {
      const pid_t pid = fork_child();
      {
        MutexLock lock(mu_);
        pid_ = pid;
      }
      {
        MutexLock lock(mu);
        done = true;
        // Notify with the lock held: the caller destroys the condition variable once it continues.
        forked.NotifyOne();
      }
      if (pid > 0) RunIo(pid);
    });
    {
      MutexLock lock(mu);
      while (!done) forked.Wait(mu);
    }
    MutexLock lock(mu_);
    return pid_ > 0;
  }

  void Send(const std::string& message) override {
    {
      MutexLock lock(mu_);
      outgoing_ += Delimited(message);
    }
    Wake();
  }

  std::vector<Event> Take() override {
    std::vector<Event> events;
    {
      MutexLock lock(mu_);
      events.swap(events_);
      waiting_bytes_ = 0;
      notified_ = false;
    }
    Wake();
    return events;
  }

  void Kill(EngineExit::Kind kind) override {
    MutexLock lock(mu_);
    // The pid cannot be reused before the child is reaped, which happens under this lock.
    if (pid_ <= 0 || reaped_) return;
    if (!killed_as_.has_value()) killed_as_ = kind;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wakeup_.get(), &one, sizeof(one));
  }

  void RunIo(pid_t pid) {
    std::string writing;
    MessageSplitter splitter;
    std::vector<char> buffer(size_t{64} << 10);
    while (true) {
      bool may_read;
      {
        MutexLock lock(mu_);
        may_read = events_.size() < kMaxWaitingMessages && waiting_bytes_ < kMaxWaitingBytes;
        if (writing.empty()) writing.swap(outgoing_);
      }
      pollfd fds[2] = {{socket_.get(), 0, 0}, {wakeup_.get(), POLLIN, 0}};
      if (may_read) fds[0].events |= POLLIN;
      if (!writing.empty()) fds[0].events |= POLLOUT;
      // Without POLLIN, poll still reports POLLHUP, so the end of the child is noticed.
      if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
      if (fds[1].revents != 0) {
        uint64_t count;
        [[maybe_unused]] const ssize_t n = read(wakeup_.get(), &count, sizeof(count));
      }
      if ((fds[0].revents & POLLOUT) != 0) {
        const ssize_t n = send(socket_.get(), writing.data(), writing.size(), MSG_NOSIGNAL);
        if (n > 0) {
          writing.erase(0, static_cast<size_t>(n));
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
          writing.clear();  // reading will report the end
        }
      }
      if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) break;
        if (n > 0) {
          AddBytes(std::string_view(buffer.data(), static_cast<size_t>(n)), &splitter);
        }
      }
    }
    Reap(pid);
  }

  void AddBytes(std::string_view bytes, MessageSplitter* splitter) {
    bool notify = false;
    splitter->Add(
        bytes,
        [&](std::string message) {
          notify |= AddEvent({std::move(message), std::nullopt});
        },
        [] { LogWarning("dropped a message of the engine above the limit of 1 MiB"); });
    if (notify) on_readable_();
  }

  // Returns whether to call on_readable_.
  bool AddEvent(Event event) {
    MutexLock lock(mu_);
    waiting_bytes_ += event.message.size();
    events_.push_back(std::move(event));
    return !std::exchange(notified_, true);
  }

  void Reap(pid_t pid) {
    for (int waited_ms = 0;; waited_ms += 10) {
      int wait_status = 0;
      EngineExit exit;
      {
        MutexLock lock(mu_);
        const pid_t result = waitpid(pid, &wait_status, WNOHANG);
        if (result == 0) {
          if (waited_ms >= kExitGraceMs) kill(-pid, SIGKILL);
        } else {
          reaped_ = true;
          // Ends processes that the child may have started.
          kill(-pid, SIGKILL);
          if (killed_as_.has_value()) {
            exit = {*killed_as_, SIGKILL};
          } else if (result > 0 && WIFSIGNALED(wait_status)) {
            exit = {EngineExit::Kind::kSignal, WTERMSIG(wait_status)};
          } else if (result > 0 && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0) {
            exit = {EngineExit::Kind::kCode, WEXITSTATUS(wait_status)};
          }
        }
      }
      bool reaped;
      {
        MutexLock lock(mu_);
        reaped = reaped_;
      }
      if (reaped) {
        if (AddEvent({"", exit})) on_readable_();
        return;
      }
      poll(nullptr, 0, 10);
    }
  }

  Mutex mu_;
  pid_t pid_ ABSL_GUARDED_BY(mu_) = -1;
  bool reaped_ ABSL_GUARDED_BY(mu_) = false;
  bool notified_ ABSL_GUARDED_BY(mu_) = false;  // on_readable was called and Take was not yet
  std::optional<EngineExit::Kind> killed_as_ ABSL_GUARDED_BY(mu_);
  std::string outgoing_ ABSL_GUARDED_BY(mu_);
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;

  // Const after construction.
  const UniqueFd socket_, wakeup_;
  const std::function<void()> on_readable_;
  std::thread thread_;
};

}  // namespace

std::string EngineExit::Describe() const {
  switch (kind) {
    case Kind::kClean:
      return "exit code 0";
    case Kind::kCode:
      return fmt::format("exit code {}", code);
    case Kind::kSignal:
      return fmt::format("signal {} ({})", code, strsignal(code));
    case Kind::kKilled:
      return "killed because it did not stop";
    case Kind::kHang:
      return "killed because it was silent";
    case Kind::kLaunchFailed:
      return "could not be started";
  }
  return "unknown";
}

EngineProcessLauncher::EngineProcessLauncher(EngineProcessOptions options)
    : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<Engine>> EngineProcessLauncher::Launch(
    const EngineAccess& access, std::function<void()> on_readable) {
  NERF_ASSIGN_OR_RETURN(const std::unique_ptr<EngineChild> child,
                        EngineChild::Prepare(options_, access));
  UniqueFd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.ok()) return ErrnoToStatus(errno, "eventfd");
  LogInfo("engine starts", {{"sandbox", child->sandbox().description()}});
  auto process = std::make_unique<EngineProcess>(child->TakeSocket(), std::move(wakeup),
                                                 std::move(on_readable));
  if (!process->Start([&child] { return child->Fork(); }))
    return absl::InternalError("fork failed");
  return process;
}

}  // namespace nerf
