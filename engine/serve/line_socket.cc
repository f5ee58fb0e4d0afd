#include "engine/serve/line_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace nerf {

void LineSocket::ReadLines(const std::function<void(const std::string&)>& on_line,
                           const std::function<void()>& on_too_long) {
  std::vector<char> buffer(size_t{1} << 16);
  LineSplitter splitter;
  while (true) {
    const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    splitter.Add({buffer.data(), static_cast<size_t>(n)}, on_line, on_too_long);
  }
}

bool LineSocket::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void LineSocket::Shutdown() { shutdown(fd_, SHUT_RDWR); }

}  // namespace nerf
