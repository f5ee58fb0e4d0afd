#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <functional>
#include <memory>

namespace boost::asio::ssl {
class context;
}

namespace nerf {

// The bytes of one connection, plain or by TLS. One read and one write may be pending at a time.
// Callbacks run on the socket's executor, never within the call, and keep alive what they capture.
// Not thread-safe.
class WebStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using ErrorCode = boost::system::error_code;
  using Callback = std::function<void(const ErrorCode&, size_t n_bytes)>;

  // Plain if `tls` is null. The context may go once the constructor has returned.
  WebStream(Socket socket, boost::asio::ssl::context* tls);
  WebStream(WebStream&& other) noexcept;
  ~WebStream();

  bool is_tls() const;
  Socket& socket() { return *socket_; }

  // Requires is_tls(). Before all other calls.
  void Handshake(Callback callback);
  void Read(boost::asio::mutable_buffer buffer, Callback callback);  // some bytes
  void Write(boost::asio::const_buffer buffer, Callback callback);   // all of them
  // Tells the peer that no more bytes will come. Requires that no read or write is pending.
  void EndWrites(Callback callback);
  // Drops bytes of the peer, without decrypting them. After EndWrites or a failed handshake.
  void Discard(boost::asio::mutable_buffer buffer, Callback callback);

  // True if a handshake failed because the peer speaks plain HTTP.
  static bool IsPlainHttp(const ErrorCode& error);

 private:
  struct Tls;
  std::unique_ptr<Socket> socket_;  // where `tls_` expects it, also after a move
  std::unique_ptr<Tls> tls_;        // null: plain
};

}  // namespace nerf
