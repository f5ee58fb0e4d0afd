#include "engine/program/serve/message_socket.h"

#include <google/protobuf/util/json_util.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/protocol/line_splitter.h"
#include "engine/base/protocol/message_splitter.h"

namespace nerf {

absl::StatusOr<internal::WorkerRequest> MessageSocket::Parse(const std::string& bytes) const {
  internal::WorkerRequest request;
  if (form_ == MessageForm::kBinary) {
    if (request.ParseFromString(bytes)) return request;
    return absl::InvalidArgumentError("a message that cannot be parsed");
  }
  const auto parsed = google::protobuf::util::JsonStringToMessage(bytes, &request);
  if (parsed.ok()) return request;
  return absl::InvalidArgumentError(
      std::string(parsed.message().data(), parsed.message().size()).substr(0, 200));
}

void MessageSocket::Read(const OnRequest& on_request) {
  const auto on_bytes = [&](const std::string& bytes) { on_request(Parse(bytes), bytes.size()); };
  const auto on_too_long = [&] {
    on_request(absl::InvalidArgumentError("a message of more than 1 MiB"), 0);
  };
  std::vector<char> buffer(size_t{1} << 16);
  LineSplitter lines;
  MessageSplitter messages;
  while (true) {
    const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    const std::string_view bytes(buffer.data(), static_cast<size_t>(n));
    if (form_ == MessageForm::kJson) {
      lines.Add(bytes, on_bytes, on_too_long);
    } else {
      messages.Add(bytes, on_bytes, on_too_long);
    }
  }
}

bool MessageSocket::Write(const internal::EngineMessage& message) {
  std::string text;
  if (form_ == MessageForm::kJson) {
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    // It fails for none of our messages.
    if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return true;
    text += '\n';
  } else {
    text = Delimited(message.SerializeAsString());
  }
  std::string_view bytes = text;
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void MessageSocket::Shutdown() { shutdown(fd_, SHUT_RDWR); }

}  // namespace nerf
