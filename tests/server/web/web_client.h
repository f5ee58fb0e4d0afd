#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/files/file_io.h"

namespace nerf {

struct WebAnswer {
  int status = 0;                              // 0: the connection ended before a whole answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without chunks
};

// A client connection that can send any bytes. Used by tests of the gateway.
class WebClient {
 public:
  static constexpr int kTimeoutMs = 20'000;

  // `receive_buffer` above 0: the kernel holds about so many bytes that were not read, and not more
  // as more arrive. `from`: an address of this machine to call from.
  explicit WebClient(int port, int receive_buffer = 0, const char* from = nullptr)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (from != nullptr && inet_pton(AF_INET, from, &address.sin_addr) == 1) {
      bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
    }
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }

  virtual ~WebClient() = default;

  void Send(const std::string& bytes) {
    size_t n_sent = 0;
    while (n_sent < bytes.size()) {
      const ssize_t n = SendSome(bytes.data() + n_sent, bytes.size() - n_sent);
      if (n <= 0) return;
      n_sent += static_cast<size_t>(n);
    }
  }

  // No more bytes are sent; those of the server can still be read.
  void CloseWrites() { shutdown(fd_.get(), SHUT_WR); }

  // Whether the server's end is open, by the kernel's table: reading would make room for more.
  bool IsOpenAtServer() const {
    sockaddr_in ends[2];  // here, there
    socklen_t size = sizeof(sockaddr_in);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&ends[0]), &size);
    getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&ends[1]), &size);
    const std::string row = absl::StrFormat("0100007F:%04X 0100007F:%04X 01",
                                            ntohs(ends[1].sin_port), ntohs(ends[0].sin_port));
    return ReadFile("/proc/self/net/tcp", 1 << 24).value_or("").find(row) != std::string::npos;
  }

  // The next response. `to_head`: true for a HEAD request, whose response has no body.
  WebAnswer Read(bool to_head = false) {
    WebAnswer answer = ReadHead();
    if (answer.status == 0 || to_head || answer.status == 204 || answer.status == 304) {
      return answer;
    }
    if (answer.headers["transfer-encoding"] == "chunked") {
      while (true) {
        std::string chunk;
        if (!ReadChunk(&chunk)) return {};
        if (chunk.empty()) return answer;
        answer.body += chunk;
      }
    }
    const size_t length = std::stoul("0" + answer.headers["content-length"]);
    while (buffer_.size() < length) {
      if (!Receive()) return {};
    }
    answer.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return answer;
  }

  // The first line and headers only. Skips status 100.
  WebAnswer ReadHead() {
    WebAnswer answer;
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!Receive()) return {};
    }
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    answer.status = std::stoi("0" + head.substr(9, 3));
    if (answer.status == 100) return ReadHead();
    for (size_t begin = head.find("\r\n") + 2; begin < head.size();) {
      const size_t colon = head.find(": ", begin), line_end = head.find("\r\n", begin);
      std::string name = head.substr(begin, colon - begin);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      answer.headers[name] = head.substr(colon + 2, line_end - colon - 2);
      begin = line_end + 2;
    }
    return answer;
  }

  // One chunk of a body; empty for the last. Returns false if the connection ends.
  bool ReadChunk(std::string* chunk) {
    size_t end = 0;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!Receive()) return false;
    }
    const size_t length = std::stoul(buffer_.substr(0, end), nullptr, 16);
    while (buffer_.size() < end + 2 + length + 2) {
      if (!Receive()) return false;
    }
    *chunk = buffer_.substr(end + 2, length);
    buffer_.erase(0, end + 2 + length + 2);
    return true;
  }

  WebAnswer Ask(const std::string& request) {
    Send(request);
    return Read(request.starts_with("HEAD "));
  }

  // Reads until the server closes the connection. Returns the number of bytes.
  size_t ReadToEnd() {
    size_t n_bytes = 0;
    while (Receive()) n_bytes += std::exchange(buffer_, {}).size();
    return n_bytes;
  }
  // Reads everything. True if the server closes the connection.
  bool HasEnded() {
    ReadToEnd();
    return !timed_out_;
  }

 protected:
  int fd() const { return fd_.get(); }
  virtual ssize_t SendSome(const char* bytes, size_t n_bytes) {
    return send(fd_.get(), bytes, n_bytes, MSG_NOSIGNAL);
  }
  virtual ssize_t ReceiveSome(char* bytes, size_t n_bytes) {
    return recv(fd_.get(), bytes, n_bytes, 0);
  }
  // True if ReceiveSome has bytes that poll does not see.
  virtual bool HasPending() const { return false; }

 private:
  bool Receive() {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (!HasPending() && poll(&waiting, 1, kTimeoutMs) <= 0) {
      timed_out_ = true;
      return false;
    }
    char bytes[65536];
    const ssize_t n = ReceiveSome(bytes, sizeof(bytes));
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  UniqueFd fd_;
  std::string buffer_;
  bool timed_out_ = false;
};

// A complete request with a body, without an Origin.
inline std::string HttpRequest(const std::string& method, const std::string& path,
                               const std::string& headers = "", const std::string& body = "") {
  std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost:8080\r\n" + headers;
  if (!body.empty() || method == "POST" || method == "PATCH") {
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return text + "\r\n" + body;
}

}  // namespace nerf
