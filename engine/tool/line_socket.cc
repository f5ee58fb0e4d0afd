#include "engine/tool/line_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace nerf {

void LineSocket::ReadLines(const std::function<void(const std::string&)>& on_line,
                           const std::function<void()>& on_too_long) {
  std::vector<char> buffer(size_t{1} << 16);
  std::string line;
  bool skipping = false;
  while (true) {
    const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    std::string_view bytes(buffer.data(), static_cast<size_t>(n));
    while (!bytes.empty()) {
      const size_t newline = bytes.find('\n');
      const std::string_view part = bytes.substr(0, newline);
      if (!skipping && line.size() + part.size() > kMaxLineBytes) {
        skipping = true;
        line.clear();
        on_too_long();
      }
      if (!skipping) line.append(part);
      if (newline == std::string_view::npos) break;
      if (!skipping && !line.empty()) on_line(line);
      skipping = false;
      line.clear();
      bytes.remove_prefix(newline + 1);
    }
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
