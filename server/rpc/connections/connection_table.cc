#include "server/rpc/connections/connection_table.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "common/logging.h"

namespace nerf {
namespace {

constexpr uint64_t kFreeBytes = 64 << 10;
constexpr uint64_t kMessageShare = 32;   // 1/32 of a message: headers of its frames, of TLS
constexpr uint64_t kBytesPerCall = 512;  // headers, which HTTP/2 compresses
constexpr uint64_t kAckedShare = 8;      // 1/8 of what was sent: window updates
constexpr int64_t kBytesPerSecond = 4;   // pings; one of 17 bytes may come every 10 s

constexpr absl::Duration kMaxUnreadStay = absl::Seconds(1);

constexpr int kMaxWindow = 64 << 20;
constexpr char kFlooding[] = "closed a connection that cancels calls too fast";

std::optional<uint64_t> CookieOf(int socket) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return std::nullopt;
  return cookie;
}

// Received bytes that the kernel still has.
uint64_t UnreadOf(int socket) {
  int n_bytes = 0;
  return ioctl(socket, SIOCINQ, &n_bytes) == 0 ? static_cast<uint64_t>(std::max(n_bytes, 0)) : 0;
}

std::array<uint8_t, 16> Mapped(const in_addr& v4) {
  std::array<uint8_t, 16> bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(&bytes[12], &v4, sizeof(v4));
  return bytes;
}

std::optional<ConnectionTable::Peer> PeerOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ConnectionTable::Peer(Mapped(v4.sin_addr), ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  ConnectionTable::Peer peer;
  std::memcpy(peer.first.data(), &v6.sin6_addr, peer.first.size());
  peer.second = ntohs(v6.sin6_port);
  return peer;
}

// %5B becomes [.
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16).ptr == &text[i + 1] + 2) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace

std::optional<ConnectionTable::Peer> ConnectionTable::ParsePeer(std::string_view text) {
  const bool is_v6 = text.starts_with("ipv6:");
  if (!is_v6 && !text.starts_with("ipv4:")) return std::nullopt;
  std::string address = PercentDecoded(text.substr(5));
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  Peer peer;
  const char* const end = address.data() + address.size();
  const auto [last, error] = std::from_chars(address.data() + colon + 1, end, peer.second);
  if (last != end || error != std::errc()) return std::nullopt;
  address.resize(colon);
  if (!is_v6) {
    in_addr v4{};
    if (inet_pton(AF_INET, address.c_str(), &v4) != 1) return std::nullopt;
    peer.first = Mapped(v4);
    return peer;
  }
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  address = address.substr(0, address.find('%'));  // without the zone of a link-local address
  if (inet_pton(AF_INET6, address.c_str(), peer.first.data()) != 1) return std::nullopt;
  return peer;
}

void ConnectionTable::Add(int socket) {
  const std::optional<Peer> peer = PeerOf(socket);
  const std::optional<uint64_t> cookie = CookieOf(socket);
  if (!peer.has_value() || !cookie.has_value()) return;
  MutexLock lock(mu_);
  if (const auto old = connections_.find(*peer); old != connections_.end()) Erase(old);
  if (const auto leaving = NextToLeave(); leaving != connections_.end()) {
    Close(leaving->second);
    Erase(leaving);
  }
  const SteadyTime now = clock_.Now();
  const uint64_t number = ++n_added_;
  Connection added;
  added.socket = socket;
  added.cookie = *cookie;
  added.came = added.shed_time = now;
  added.stranger = number;
  if (++n_new_ > kCrowd || strangers_fill_) SetSlow(added, true, now);
  connections_[*peer] = added;
  strangers_[number] = *peer;
}

bool ConnectionTable::NextStrangerMustWait() {
  MutexLock lock(mu_);
  const auto leaving = NextToLeave();
  return leaving != connections_.end() && clock_.Now() - leaving->second.came < kMinStay;
}

void ConnectionTable::ShowedToken(const Peer& peer) {
  MutexLock lock(mu_);
  const auto found = connections_.find(peer);
  if (found == connections_.end() || found->second.stranger == 0) return;
  strangers_.erase(std::exchange(found->second.stranger, 0));
  SetSlow(found->second, false, found->second.slow_time);
}

ConnectionTable::Connections::iterator ConnectionTable::Erase(Connections::iterator connection) {
  strangers_.erase(connection->second.stranger);
  return connections_.erase(connection);
}

ConnectionTable::Connections::iterator ConnectionTable::NextToLeave() {
  if (strangers_.size() < kMaxStrangers) return connections_.end();
  std::map<std::array<uint8_t, 16>, size_t> n_of;
  std::vector<Connections::iterator> gone;
  for (const auto& [number, peer] : strangers_) {
    const auto found = connections_.find(peer);
    if (CookieOf(found->second.socket) != found->second.cookie) gone.push_back(found);
    ++n_of[peer.first];
  }
  for (const auto& one : gone) Erase(one);
  if (!gone.empty()) return connections_.end();
  size_t most = 0;
  for (const auto& [address, n] : n_of) most = std::max(most, n);
  auto oldest = connections_.end();
  for (const auto& [number, peer] : strangers_) {
    if (n_of[peer.first] < most) continue;
    const auto found = connections_.find(peer);
    if (oldest == connections_.end()) oldest = found;
    // The token of one that came a moment ago may be among the bytes that gRPC has yet to read.
    const bool is_late = clock_.Now() - found->second.came >= kMaxUnreadStay;
    if (is_late || UnreadOf(found->second.socket) == 0) return found;
  }
  return oldest;
}

void ConnectionTable::Began(const Peer& peer) {
  MutexLock lock(mu_);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  found->second.excused += kBytesPerCall;
  if (++found->second.n_calls > kMaxCalls) CloseCaller(peer, /*is_stranger=*/false, kFlooding);
}

void ConnectionTable::Ended(const Peer& peer) {
  MutexLock lock(mu_);
  const auto found = connections_.find(peer);
  if (found != connections_.end() && found->second.n_calls > 0) --found->second.n_calls;
}

void ConnectionTable::CloseFlooding(const Peer& peer) {
  MutexLock lock(mu_);
  CloseCaller(peer, /*is_stranger=*/false, kFlooding);
}

void ConnectionTable::CloseStranger(const Peer& peer) {
  MutexLock lock(mu_);
  CloseCaller(peer, /*is_stranger=*/true, "closed a connection that makes calls without a token");
}

void ConnectionTable::CloseCaller(const Peer& peer, bool is_stranger, std::string_view why) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || (is_stranger && found->second.stranger == 0)) return;
  const auto n_streams =
      static_cast<uint64_t>(std::max<int64_t>(found->second.n_streams, kMaxCalls));
  closing_.push_back({found->second.socket, found->second.cookie, n_streams * kBytesPerStream});
  Close(found->second);
  Erase(found);
  LogWarning(why);
}

void ConnectionTable::HasStreams(const Peer& peer, int64_t n_streams) {
  MutexLock lock(mu_);
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  found->second.n_streams = n_streams;
  found->second.n_waiting = n_streams - found->second.n_calls;
}

void ConnectionTable::Received(const Peer& peer, uint64_t byte_size) {
  MutexLock lock(mu_);
  const auto found = connections_.find(peer);
  if (found != connections_.end()) found->second.excused += byte_size + byte_size / kMessageShare;
}

// Resets it: gRPC sees the error, frees what it holds and closes the socket. What the socket has
// received and gRPC has not read yet is dropped: gRPC would read it first. A client that waits for
// room to send, too, sees the end at once; after shutdown() it would learn of it by its next probe
// of the window, which may be a minute away.
void ConnectionTable::Close(const Connection& connection) {
  if (CookieOf(connection.socket) != connection.cookie) return;
  const sockaddr no_address{.sa_family = AF_UNSPEC, .sa_data = {}};
  connect(connection.socket, &no_address, sizeof(no_address));
}

// The kernel makes of 1 the least window that it knows, 2 KiB, of which one comes per round trip; a
// sender whose packets are larger, as over loopback, sends five a second. The kernel raises it
// again while much is read, so a slow one is to be set again later.
void ConnectionTable::SetSlow(Connection& connection, bool is_slow, SteadyTime now) {
  if (!connection.is_slow && !is_slow) return;
  if (CookieOf(connection.socket) != connection.cookie) return;
  const int window = is_slow ? 1 : kMaxWindow;
  setsockopt(connection.socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &window, sizeof(window));
  if (connection.is_slow != is_slow) connection.slow_time = now;
  connection.is_slow = is_slow;
}

std::optional<uint64_t> ConnectionTable::HeldBy(Connection& connection, SteadyTime now) {
  if (CookieOf(connection.socket) != connection.cookie) return std::nullopt;
  tcp_info tcp{};
  socklen_t size = sizeof(tcp);
  if (getsockopt(connection.socket, IPPROTO_TCP, TCP_INFO, &tcp, &size) != 0) return std::nullopt;
  connection.excused += (tcp.tcpi_bytes_acked - connection.acked) / kAckedShare;
  connection.acked = tcp.tcpi_bytes_acked;
  const int64_t seconds = absl::ToInt64Seconds(now - connection.shed_time);
  if (seconds > 0) {
    connection.excused += static_cast<uint64_t>(seconds * kBytesPerSecond);
    connection.shed_time = now;
  }
  connection.excused = std::min<uint64_t>(connection.excused, tcp.tcpi_bytes_received);
  // The kernel has what gRPC has not read, and bounds it.
  const uint64_t unread = UnreadOf(connection.socket);
  // Since they were counted, calls may have reached handlers, and others ended.
  const int64_t n_waiting =
      std::min(connection.n_waiting, connection.n_streams - connection.n_calls);
  const uint64_t of_streams =
      n_waiting > 0 ? static_cast<uint64_t>(n_waiting) * kBytesPerStream : 0;
  const uint64_t held = tcp.tcpi_bytes_received - connection.excused;
  const uint64_t free = kFreeBytes + unread;
  return of_streams + (held > free ? held - free : 0);
}

bool ConnectionTable::fills() {
  MutexLock lock(mu_);
  return fills_;
}

bool ConnectionTable::has_crowd() {
  MutexLock lock(mu_);
  return n_new_ >= kCrowd;
}

uint64_t ConnectionTable::HeldByClosing() {
  std::erase_if(closing_, [](const Closing& one) { return CookieOf(one.socket) != one.cookie; });
  uint64_t held = 0;
  for (const Closing& one : closing_) held += one.held;
  return held;
}

bool ConnectionTable::is_closing() {
  MutexLock lock(mu_);
  return HeldByClosing() > max_held_bytes_ / 16;
}

bool ConnectionTable::is_full() {
  MutexLock lock(mu_);
  return held_ + HeldByClosing() > max_held_bytes_ / 2;
}

int ConnectionTable::Shed() {
  const SteadyTime now = clock_.Now();
  MutexLock lock(mu_);
  n_new_ = 0;
  uint64_t total = 0;
  uint64_t of_strangers = 0;
  std::vector<Holder> holders;
  for (auto it = connections_.begin(); it != connections_.end();) {
    const std::optional<uint64_t> held = HeldBy(it->second, now);
    if (!held.has_value()) {
      it = Erase(it);
      continue;
    }
    total += *held;
    const bool is_stranger = it->second.stranger != 0;
    if (is_stranger) of_strangers += *held;
    if (*held > 0) holders.push_back({is_stranger, *held, it->first});
    ++it;
  }
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return std::tie(a.is_stranger, a.held, a.peer) > std::tie(b.is_stranger, b.held, b.peer);
  });
  strangers_fill_ = of_strangers > kMaxStrangerBytes / 4;
  fills_ = total > max_held_bytes_ / 4 || strangers_fill_;
  SlowStrangers(holders, of_strangers, now);
  held_ = total;
  int n_closed = 0;
  if (of_strangers > kMaxStrangerBytes) {
    const uint64_t of_others = total - of_strangers;
    n_closed +=
        CloseHolders(holders, of_others + kMaxStrangerBytes / 2, kMaxClosedStrangers, total);
  }
  if (total + HeldByClosing() > max_held_bytes_) {
    n_closed += CloseHolders(holders, max_held_bytes_ / 2, holders.size(), total);
  }
  held_ = total;
  if (n_closed > 0) {
    LogWarning("closed connections that are full of unfinished messages", {{"count", n_closed}});
  }
  return n_closed;
}

void ConnectionTable::SlowStrangers(const std::vector<Holder>& holders, uint64_t all,
                                    SteadyTime now) {
  for (const auto& [number, peer] : strangers_) {
    Connection& connection = connections_[peer];
    const bool may_go = all < kMaxStrangerBytes / 8 && now - connection.slow_time >= kSlowTime;
    SetSlow(connection, connection.is_slow && !may_go, now);
  }
  if (!strangers_fill_) return;
  uint64_t fast = 0;
  for (const Holder& holder : holders) {
    if (holder.is_stranger && !connections_[holder.peer].is_slow) fast += holder.held;
  }
  for (const Holder& holder : holders) {
    if (!holder.is_stranger || fast <= kMaxFastBytes) return;
    Connection& connection = connections_[holder.peer];
    if (connection.is_slow) continue;
    SetSlow(connection, true, now);
    fast -= holder.held;
  }
}

int ConnectionTable::CloseHolders(const std::vector<Holder>& holders, uint64_t target, size_t max,
                                  uint64_t& total) {
  size_t n_closed = 0;
  for (const Holder& holder : holders) {
    if (total <= target || n_closed == max) break;
    const auto found = connections_.find(holder.peer);
    if (found == connections_.end()) continue;  // closed already
    Close(found->second);
    closing_.push_back({found->second.socket, found->second.cookie, holder.held});
    Erase(found);
    total -= holder.held;
    ++n_closed;
  }
  return static_cast<int>(n_closed);
}

}  // namespace nerf
