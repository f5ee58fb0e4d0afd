#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "common/mutex.h"

namespace nerf {

// An HTTP server on the loopback whose answers a test has written down. Each connection carries one
// request.
class ScriptedHttpServer {
 public:
  struct Request {
    std::string method, target, body;
    std::map<std::string, std::string> headers;  // names in small letters
  };

  ScriptedHttpServer() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    bind(socket_, reinterpret_cast<sockaddr*>(&address), length);
    listen(socket_, 16);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ScriptedHttpServer() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }
  ScriptedHttpServer(const ScriptedHttpServer&) = delete;
  ScriptedHttpServer& operator=(const ScriptedHttpServer&) = delete;

  std::string endpoint() const { return fmt::format("http://127.0.0.1:{}", port_); }

  // The bytes of the next answers, in order, the last one for all that follow. An empty one breaks
  // the connection.
  void Answer(std::vector<std::string> answers) {
    MutexLock lock(mu_);
    answers_ = std::move(answers);
    requests_.clear();
  }
  std::vector<Request> requests() {
    MutexLock lock(mu_);
    return requests_;
  }

  // `length`: what it says of the body, if that is not true.
  static std::string Reply(int status, const std::string& body,
                           const std::string& more_headers = "", int64_t length = -1) {
    return fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}",
                       status, length < 0 ? static_cast<int64_t>(body.size()) : length,
                       more_headers, body);
  }
  static std::string Error(int status, const std::string& code, const std::string& message) {
    return Reply(status,
                 fmt::format("<Error><Code>{}</Code><Message>{}</Message></Error>", code, message));
  }

 private:
  void Serve() {
    while (true) {
      const int connection = accept(socket_, nullptr, nullptr);
      if (connection < 0) return;
      HandleOne(connection);
      close(connection);
    }
  }

  void HandleOne(int connection) {
    std::string bytes;
    std::vector<char> buffer(1 << 16);
    const auto read_more = [&] {
      const ssize_t n = recv(connection, buffer.data(), buffer.size(), 0);
      if (n > 0) bytes.append(buffer.data(), static_cast<size_t>(n));
      return n > 0;
    };
    size_t end = std::string::npos;
    while ((end = bytes.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return;
    }
    Request request;
    const std::string head = bytes.substr(0, end + 2);
    const size_t first = head.find(' '), second = head.find(' ', first + 1);
    request.method = head.substr(0, first);
    request.target = head.substr(first + 1, second - first - 1);
    for (size_t at = head.find("\r\n") + 2; at < head.size(); at = head.find("\r\n", at) + 2) {
      const size_t colon = head.find(':', at), line_end = head.find("\r\n", at);
      if (colon == std::string::npos || colon > line_end) continue;
      const absl::string_view value = absl::StripAsciiWhitespace(
          absl::string_view(head).substr(colon + 1, line_end - colon - 1));
      request.headers[absl::AsciiStrToLower(head.substr(at, colon - at))] = std::string(value);
    }
    const auto length = request.headers.find("content-length");
    const size_t n_body = length == request.headers.end() ? 0 : std::stoul(length->second);
    while (bytes.size() < end + 4 + n_body) {
      if (!read_more()) return;
    }
    request.body = bytes.substr(end + 4, n_body);
    std::string answer;
    {
      MutexLock lock(mu_);
      requests_.push_back(std::move(request));
      if (!answers_.empty()) {
        answer = answers_[std::min(requests_.size() - 1, answers_.size() - 1)];
      }
    }
    send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  const int socket_;
  int port_ = 0;
  Mutex mu_;
  std::vector<std::string> answers_ ABSL_GUARDED_BY(mu_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace nerf
