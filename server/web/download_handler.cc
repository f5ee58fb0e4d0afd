#include "server/web/download_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/rpc/status_conversion.h"
#include "google/bytestream/bytestream.pb.h"

namespace nerf {
namespace {

struct ShownFileType {
  std::string_view extension;
  std::string_view type;
};

// Types that a browser may show. HTML and SVG are missing because they can hold scripts.
constexpr std::array kShownTypes = {
    ShownFileType{".png", "image/png"},
    ShownFileType{".jpg", "image/jpeg"},
    ShownFileType{".jpeg", "image/jpeg"},
    ShownFileType{".mp4", "video/mp4"},
    ShownFileType{".webm", "video/webm"},
    ShownFileType{".json", "application/json"},
    ShownFileType{".txt", "text/plain; charset=utf-8"},
};
constexpr std::string_view kSavedType = "application/octet-stream";
constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
constexpr size_t kMaxNameBytes = 128;

// NAME of "filename=NAME"; empty for any other query.
std::string_view FileName(std::string_view query) {
  constexpr std::string_view kKey = "filename=";
  if (!query.starts_with(kKey)) return {};
  query.remove_prefix(kKey.size());
  const bool is_name = query.size() <= kMaxNameBytes && !query.starts_with('.') &&
                       query.find_first_not_of(kNameCharacters) == std::string_view::npos;
  return is_name ? query : std::string_view();
}

std::optional<std::string_view> ShownType(std::string_view file_name) {
  const std::string name =
      absl::AsciiStrToLower(absl::string_view(file_name.data(), file_name.size()));
  const auto found =
      std::find_if(kShownTypes.begin(), kShownTypes.end(),
                   [&](const ShownFileType& row) { return name.ends_with(row.extension); });
  if (found == kShownTypes.end()) return std::nullopt;
  return found->type;
}

class DownloadHandler final : public HttpHandler {
 public:
  DownloadHandler(const BlobPath& blob, HttpExchange* exchange, Upstream* upstream)
      : blob_(blob), exchange_(*exchange), upstream_(*upstream) {}

  void Start() override {
    if (absl::Status status = exchange_.Admit(); !status.ok()) {
      return exchange_.Respond(ErrorResponse(status));
    }
    const HttpRequestHead& head = exchange_.head();
    const std::string etag = fmt::format("\"{}\"", blob_.sha256);
    response_.headers = Headers(etag);
    range_ = {0, blob_.byte_size};
    const std::string_view if_range = head.Header("if-range");
    const RangeKind kind = if_range.empty() || if_range == etag
                               ? ParseRange(head.Header("range"), blob_.byte_size, &range_)
                               : RangeKind::kWhole;
    is_known_ = head.Header("if-none-match") == etag;
    if (is_known_) {
      response_.status = 304;
      range_ = {0, std::min<uint64_t>(blob_.byte_size, 1)};
    } else if (kind == RangeKind::kUnsatisfiable) {
      response_.status = 416;
      response_.headers.emplace_back("Content-Range", fmt::format("bytes */{}", blob_.byte_size));
      return exchange_.Respond(std::move(response_));
    } else if (kind == RangeKind::kPart) {
      response_.status = 206;
      response_.headers.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", range_.begin,
                                                                  range_.end - 1, blob_.byte_size));
    }
    is_head_ = head.method == "HEAD";
    StartRead();
  }

 private:
  HttpHeaders Headers(const std::string& etag) const {
    const std::string_view name = FileName(exchange_.head().query);
    const auto shown = ShownType(name);
    HttpHeaders headers = {{"Content-Type", std::string(shown.value_or(kSavedType))},
                           {"Content-Security-Policy", "default-src 'none'; sandbox"},
                           {"Cache-Control", "private, max-age=31536000, immutable"},
                           {"Accept-Ranges", "bytes"},
                           {"ETag", etag}};
    const std::string disposition = shown.has_value() ? "inline" : "attachment";
    headers.emplace_back(
        "Content-Disposition",
        name.empty() ? disposition : fmt::format("{}; filename=\"{}\"", disposition, name));
    return headers;
  }

  void StartRead() {
    google::bytestream::ReadRequest request;
    request.set_resource_name(blob_.resource_name);
    request.set_read_offset(static_cast<int64_t>(range_.begin));
    // HEAD reads one byte to learn whether the blob exists. A limit of 0 would mean no limit.
    const uint64_t length = is_head_ ? 1 : range_.end - range_.begin;
    request.set_read_limit(static_cast<int64_t>(length));
    UpstreamHandlers handlers;
    handlers.on_message = [this](std::string bytes) { Deliver(bytes); };
    handlers.on_done = [this](const grpc::Status& status) { Finish(FromGrpcStatus(status)); };
    call_.emplace(
        &upstream_,
        UpstreamRequest{"/google.bytestream.ByteStream/Read", ForwardedMetadata(exchange_.head())},
        std::move(handlers));
    call_->Send(request.SerializeAsString(), /*is_last=*/true);
    call_->Read();
  }

  void Deliver(const std::string& bytes) {
    if (is_head_ || is_known_) return call_->Read();
    google::bytestream::ReadResponse chunk;
    if (!chunk.ParseFromString(bytes)) return exchange_.Abort();
    BeginOnce();
    n_sent_ += chunk.data().size();
    exchange_.Write(std::move(*chunk.mutable_data()), [this] { call_->Read(); });
  }

  void BeginOnce() {
    if (std::exchange(has_begun_, true)) return;
    exchange_.BeginStream(response_, range_.end - range_.begin);
  }

  void Finish(const absl::Status& status) {
    call_.reset();
    if (!status.ok()) {
      return has_begun_ ? exchange_.Abort() : exchange_.Respond(ErrorResponse(status));
    }
    if (is_known_) return exchange_.Respond(std::move(response_));
    // Fewer bytes than Content-Length: cut the connection, so that the peer notices.
    if (!is_head_ && n_sent_ != range_.end - range_.begin) return exchange_.Abort();
    BeginOnce();
    exchange_.EndStream();
  }

  const BlobPath blob_;
  HttpExchange& exchange_;
  Upstream& upstream_;
  HttpResponse response_;
  ByteRange range_;
  bool is_head_ = false;
  bool is_known_ = false;  // the peer has it in its cache
  bool has_begun_ = false;
  uint64_t n_sent_ = 0;
  std::optional<UpstreamCall> call_;
};

}  // namespace

std::unique_ptr<HttpHandler> MakeDownloadHandler(const BlobPath& blob, HttpExchange* exchange,
                                                 Upstream* upstream) {
  return std::make_unique<DownloadHandler>(blob, exchange, upstream);
}

}  // namespace nerf
