#include "server/web/web_stream.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace nerf {

namespace asio = boost::asio;

struct WebStream::Tls {
  asio::ssl::stream<Socket&> stream;
};

WebStream::WebStream(Socket socket, asio::ssl::context* tls)
    : socket_(std::make_unique<Socket>(std::move(socket))) {
  if (tls != nullptr) tls_.reset(new Tls{asio::ssl::stream<Socket&>(*socket_, *tls)});
}

WebStream::WebStream(WebStream&& other) noexcept = default;
WebStream::~WebStream() = default;

bool WebStream::is_tls() const { return tls_ != nullptr; }

void WebStream::Handshake(Callback callback) {
  tls_->stream.async_handshake(
      asio::ssl::stream_base::server,
      [callback = std::move(callback)](const ErrorCode& error) { callback(error, 0); });
}

void WebStream::Read(asio::mutable_buffer buffer, Callback callback) {
  if (tls_ == nullptr) return socket_->async_read_some(buffer, std::move(callback));
  tls_->stream.async_read_some(buffer, std::move(callback));
}

void WebStream::Write(asio::const_buffer buffer, Callback callback) {
  if (tls_ == nullptr) return asio::async_write(*socket_, buffer, std::move(callback));
  asio::async_write(tls_->stream, buffer, std::move(callback));
}

void WebStream::EndWrites(Callback callback) {
  const auto end = [this, callback = std::move(callback)](const ErrorCode& error) {
    ErrorCode ignored;
    socket_->shutdown(Socket::shutdown_send, ignored);
    callback(error, 0);
  };
  if (tls_ == nullptr) return asio::post(socket_->get_executor(), [end] { end({}); });
  // Ends once the peer has answered, or with an error where it still sends.
  tls_->stream.async_shutdown(end);
}

void WebStream::Discard(asio::mutable_buffer buffer, Callback callback) {
  socket_->async_read_some(buffer, std::move(callback));
}

bool WebStream::IsPlainHttp(const ErrorCode& error) {
  return error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

}  // namespace nerf
