#include "server/web/rpc_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/messages/rpc_status.h"
#include "common/status_macros.h"
#include "server/web/envelope.h"

namespace nerf {
namespace {

struct CodeRow {
  std::string_view name;
  int http_status;
};

// Indexed by gRPC's code; the statuses are those of Connect's specification.
constexpr std::array<CodeRow, 17> kCodes = {{{"ok", 200},
                                             {"canceled", 499},
                                             {"unknown", 500},
                                             {"invalid_argument", 400},
                                             {"deadline_exceeded", 504},
                                             {"not_found", 404},
                                             {"already_exists", 409},
                                             {"permission_denied", 403},
                                             {"resource_exhausted", 429},
                                             {"failed_precondition", 400},
                                             {"aborted", 409},
                                             {"out_of_range", 400},
                                             {"unimplemented", 501},
                                             {"internal", 500},
                                             {"unavailable", 503},
                                             {"data_loss", 500},
                                             {"unauthenticated", 401}}};

struct TypeRow {
  std::string_view type;
  WebProtocol protocol;
  bool is_json;
  bool is_text;
};

constexpr std::array kTypes = {
    TypeRow{"application/json", WebProtocol::kConnectUnary, true, false},
    TypeRow{"application/proto", WebProtocol::kConnectUnary, false, false},
    TypeRow{"application/connect+json", WebProtocol::kConnectStream, true, false},
    TypeRow{"application/connect+proto", WebProtocol::kConnectStream, false, false},
    TypeRow{"application/grpc-web", WebProtocol::kGrpcWeb, false, false},
    TypeRow{"application/grpc-web+proto", WebProtocol::kGrpcWeb, false, false},
    TypeRow{"application/grpc-web+json", WebProtocol::kGrpcWeb, true, false},
    TypeRow{"application/grpc-web-text", WebProtocol::kGrpcWeb, false, true},
    TypeRow{"application/grpc-web-text+proto", WebProtocol::kGrpcWeb, false, true},
};

const CodeRow& RowOf(int code) {
  return code >= 0 && code < static_cast<int>(kCodes.size()) ? kCodes[static_cast<size_t>(code)]
                                                             : kCodes[2];
}

// "charset=utf-8" is the only allowed parameter of a JSON type.
bool IsUtf8Parameter(std::string_view parameter) {
  std::string lower(parameter);
  absl::AsciiStrToLower(&lower);
  return lower == "charset=utf-8" || lower == "charset=\"utf-8\"";
}

// Reads at most `max_digits` digits; nullopt for any other text.
std::optional<int64_t> ParseDigits(std::string_view text, size_t max_digits) {
  if (text.empty() || text.size() > max_digits ||
      text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<absl::Duration> UnitOfGrpcTimeout(char unit) {
  switch (unit) {
    case 'H':
      return absl::Hours(1);
    case 'M':
      return absl::Minutes(1);
    case 'S':
      return absl::Seconds(1);
    case 'm':
      return absl::Milliseconds(1);
    case 'u':
      return absl::Microseconds(1);
    case 'n':
      return absl::Nanoseconds(1);
    default:
      return std::nullopt;
  }
}

std::string Base64WithoutPadding(std::string_view bytes) {
  std::string text = absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()));
  while (!text.empty() && text.back() == '=') text.pop_back();
  return text;
}

std::string JsonString(std::string_view text) {
  std::string json = "\"";
  for (const char c : ToUtf8(text)) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      json += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      json += c;
    }
  }
  return json + '"';
}

// The encoding of gRPC's trailer grpc-message.
std::string PercentEncoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (c < 0x20 || c > 0x7e || c == '%') {
      encoded += fmt::format("%{:02X}", static_cast<int>(static_cast<unsigned char>(c)));
    } else {
      encoded += c;
    }
  }
  return encoded;
}

}  // namespace

std::optional<RpcFormat> ParseRpcContentType(std::string_view content_type) {
  const size_t semicolon = content_type.find(';');
  const auto stripped = [](std::string_view text) {
    return absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  };
  const std::string type = absl::AsciiStrToLower(stripped(content_type.substr(0, semicolon)));
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeRow& row) { return row.type == type; });
  if (found == kTypes.end()) return std::nullopt;
  if (semicolon != std::string_view::npos) {
    const auto parameter = stripped(content_type.substr(semicolon + 1));
    if (!found->is_json || !IsUtf8Parameter({parameter.data(), parameter.size()})) {
      return std::nullopt;
    }
  }
  return RpcFormat{found->protocol, found->is_json, found->is_text, type};
}

absl::StatusOr<absl::Duration> ReadRpcTimeout(const RpcFormat& format,
                                              const HttpRequestHead& head) {
  const bool is_grpc = format.protocol == WebProtocol::kGrpcWeb;
  const char* const name = is_grpc ? "grpc-timeout" : "connect-timeout-ms";
  if (head.CountOf(name) == 0) return absl::InfiniteDuration();
  std::string_view value = head.Header(name);
  const absl::Status bad = absl::InvalidArgumentError(
      fmt::format("{}: '{}' is not {}", name, ToUtf8(value.substr(0, 32)),
                  is_grpc ? "1 to 8 digits and one of H, M, S, m, u, n" : "1 to 10 digits"));
  absl::Duration unit = absl::Milliseconds(1);
  if (is_grpc) {
    const auto stated = value.empty() ? std::nullopt : UnitOfGrpcTimeout(value.back());
    if (!stated.has_value()) return bad;
    unit = *stated;
    value.remove_suffix(1);
  }
  const std::optional<int64_t> count = ParseDigits(value, is_grpc ? 8 : 10);
  if (!count.has_value()) return bad;
  return *count * unit;
}

absl::Status CheckRpcHeaders(const RpcFormat& format, const HttpRequestHead& head) {
  for (const char* name : {"content-encoding", "connect-content-encoding", "grpc-encoding"}) {
    const std::string_view coding = head.Header(name);
    if (!coding.empty() && coding != "identity") {
      return absl::UnimplementedError(
          fmt::format("{}: '{}' is not supported, only identity", name, ToUtf8(coding)));
    }
  }
  const std::string_view version = head.Header("connect-protocol-version");
  if (format.protocol != WebProtocol::kGrpcWeb && !version.empty() && version != "1") {
    return absl::InvalidArgumentError("connect-protocol-version must be 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnwrapRequest(const RpcFormat& format, std::string body) {
  if (format.protocol == WebProtocol::kConnectUnary) return body;
  if (format.is_text) {
    NERF_ASSIGN_OR_RETURN(body, DecodeBase64Pieces(body));
  }
  NERF_RETURN_IF_ERROR(SoleEnvelope(body).status());
  return body.erase(0, kEnvelopeHeaderBytes);
}

std::string WrapMessage(const RpcFormat& format, std::string_view message) {
  if (format.protocol == WebProtocol::kConnectUnary) return std::string(message);
  std::string frame = Envelope(0, message);
  return format.is_text ? absl::Base64Escape(frame) : frame;
}

std::string WrapEnd(const RpcFormat& format, const google::rpc::Status& status) {
  if (format.protocol == WebProtocol::kConnectStream) {
    return Envelope(kConnectEndFlag,
                    status.code() == 0 ? "{}" : "{\"error\":" + ConnectErrorJson(status) + "}");
  }
  std::string trailers = fmt::format("grpc-status:{}\r\n", status.code());
  if (!status.message().empty()) {
    trailers += "grpc-message:" + PercentEncoded(status.message()) + "\r\n";
  }
  if (status.details_size() > 0) {
    trailers +=
        "grpc-status-details-bin:" + Base64WithoutPadding(status.SerializeAsString()) + "\r\n";
  }
  std::string frame = Envelope(kGrpcWebTrailerFlag, trailers);
  return format.is_text ? absl::Base64Escape(frame) : frame;
}

std::string ConnectErrorJson(const google::rpc::Status& status) {
  std::string json = fmt::format(R"({{"code":"{}")", ConnectCodeName(status.code()));
  if (!status.message().empty()) json += ",\"message\":" + JsonString(status.message());
  if (status.details_size() > 0) {
    json += ",\"details\":[";
    for (int i = 0; i < status.details_size(); ++i) {
      const std::string& url = status.details(i).type_url();
      if (i > 0) json += ',';
      json +=
          fmt::format(R"({{"type":{},"value":"{}"}})", JsonString(url.substr(url.rfind('/') + 1)),
                      Base64WithoutPadding(status.details(i).value()));
    }
    json += ']';
  }
  return json + '}';
}

std::string_view ConnectCodeName(int code) { return RowOf(code).name; }

int HttpStatusOf(int code) { return RowOf(code).http_status; }

}  // namespace nerf
