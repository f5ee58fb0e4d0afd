#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace nerf {

// The TCP connections of a server, and how many bytes of unfinished messages each holds in memory:
// what was read from its socket, less the messages that reached handlers. When all hold too much,
// those that hold the most are closed. gRPC reads a message to its end before it asks who sends it,
// and its ResourceQuota closes the connections of others first. Thread-safe.
//
// A socket also receives what belongs to no message: headers, acknowledgements of what it was sent,
// pings. They are estimated from the number of calls, the sent bytes and the time, and excused.
// What a connection has not needed of this at a Shed lapses.
//
// A connection is a stranger until a call of it has shown a valid token. Strangers are few, hold
// little, and are the first to go.
class ConnectionTable {
 public:
  // clock outlives it.
  ConnectionTable(uint64_t max_held_bytes, const Clock* clock)
      : max_held_bytes_(max_held_bytes), clock_(*clock) {}

  // Address, IPv4 mapped to IPv6, and port of a client.
  using Peer = std::pair<std::array<uint8_t, 16>, uint16_t>;
  // Reads what grpc::ServerContext::peer returns: ipv4:127.0.0.1:4711 or ipv6:%5B::1%5D:4711.
  // nullopt for other kinds.
  static std::optional<Peer> ParsePeer(std::string_view text);

  // A socket was accepted. gRPC closes it; other kinds than TCP are ignored. Beyond kMaxStrangers
  // the oldest stranger of the address that has the most is closed.
  void Add(int socket);
  // A call of the connection has shown a valid token.
  void ShowedToken(const Peer& peer);
  static constexpr size_t kMaxStrangers = 128;
  // Whether the next Add would close a stranger that came less than kMinStay ago, which has hardly
  // had the time to show its token.
  bool NextStrangerMustWait();
  static constexpr absl::Duration kMinStay = absl::Milliseconds(100);
  // Bytes of unfinished messages of all strangers; beyond it the connections that hold the most of
  // them are closed, a few at a time, since the end of their calls takes the time of others'. From
  // a quarter of it on, those that hold the most are slowed until the others hold kMaxFastBytes,
  // and new ones are slow from the start, as are those of a crowd. A slow one sends 64 KiB, then
  // hardly anything. It is fast again once it has shown a token, and kSlowTime later while
  // strangers hold less than an eighth.
  static constexpr uint64_t kMaxStrangerBytes = 32 << 20;
  static constexpr uint64_t kMaxFastBytes = 2 << 20;
  static constexpr absl::Duration kSlowTime = absl::Seconds(5);
  static constexpr int kMaxClosedStrangers = 4;  // by a Shed
  // A call has reached its handler, has ended. A connection with more than kMaxCalls between the
  // two is closed: it has cancelled calls to get around HTTP/2's limit of calls at a time.
  void Began(const Peer& peer);
  void Ended(const Peer& peer);
  static constexpr int kMaxCalls = 300;  // three times what may be open
  // Closes a connection that has more than kMaxCalls, also of those that wait for a handler.
  void CloseFlooding(const Peer& peer);
  // Closes it if it is a stranger: it has made so many calls and has shown no token.
  void CloseStranger(const Peer& peer);

  // A connection has so many streams open. Those without a handler count with the memory that gRPC
  // takes for them, until the next call.
  void HasStreams(const Peer& peer, int64_t n_streams);
  static constexpr uint64_t kBytesPerStream = 12 << 10;

  // A message of this size has reached its handler.
  void Received(const Peer& peer, uint64_t byte_size);
  // Closes connections until the others hold at most half of the maximum, if they hold more than
  // that. Call a few times a second. Returns how many were closed.
  int Shed();
  // Whether they held so much at the last Shed that the next one should follow in kSoon.
  bool fills();
  // The same of a crowd of new ones, which may fill as soon as they have come.
  bool has_crowd();
  static constexpr absl::Duration kSoon = absl::Milliseconds(50);
  // Whether gRPC has yet to free much of what closed connections held, as after a flood: it reads
  // new ones faster than it frees.
  bool is_closing();
  // Whether connections hold more than half of the maximum, those included that were closed and
  // that gRPC has not freed yet. New ones should then come slowly: who fills connections comes back
  // as soon as they are closed.
  bool is_full();

 private:
  struct Connection {
    int socket = -1;
    uint64_t cookie = 0;   // of the socket: tells it from a later one with its number
    uint64_t excused = 0;  // received bytes of messages that handlers have, or of no message
    uint64_t acked = 0;    // sent bytes that the client had at the last Shed
    SteadyTime came;       // when it was added
    SteadyTime shed_time;  // of the last Shed
    int n_calls = 0;
    int64_t n_streams = 0;  // as HasStreams said
    int64_t n_waiting = 0;  // of them without a handler then
    uint64_t stranger = 0;  // its key in strangers_; 0: has shown a token
    bool is_slow = false;
    SteadyTime slow_time;  // since when
  };
  // A connection that was closed, until gRPC has closed its socket.
  struct Closing {
    int socket = -1;
    uint64_t cookie = 0;
    uint64_t held = 0;
  };
  // Bytes of those that gRPC has not freed yet.
  uint64_t HeldByClosing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Bytes of unfinished messages; nullopt if the connection is gone.
  static std::optional<uint64_t> HeldBy(Connection& connection, SteadyTime now);
  static void Close(const Connection& connection);
  static void SetSlow(Connection& connection, bool is_slow, SteadyTime now);
  // Closes one that has made too many calls.
  void CloseCaller(const Peer& peer, bool is_stranger, std::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  using Connections = std::map<Peer, Connection>;
  Connections::iterator Erase(Connections::iterator connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The stranger that makes place for the next one; connections_.end() if there is place, as where
  // some are gone already.
  Connections::iterator NextToLeave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  struct Holder {
    bool is_stranger = false;
    uint64_t held = 0;
    Peer peer;
  };
  // Slows the first strangers of `holders`, or lets others be fast again. They hold `all`.
  void SlowStrangers(const std::vector<Holder>& holders, uint64_t all, SteadyTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Closes the first of `holders`, `max` at most, until the rest of `total` is at most `target`.
  // Returns how many.
  int CloseHolders(const std::vector<Holder>& holders, uint64_t target, size_t max, uint64_t& total)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t max_held_bytes_;
  const Clock& clock_;
  Mutex mu_;
  bool fills_ ABSL_GUARDED_BY(mu_) = false;
  bool strangers_fill_ ABSL_GUARDED_BY(mu_) = false;
  size_t n_new_ ABSL_GUARDED_BY(mu_) = 0;              // since the last Shed
  static constexpr size_t kCrowd = kMaxStrangers / 8;  // of new ones
  uint64_t held_ ABSL_GUARDED_BY(mu_) = 0;             // by open connections after the last Shed
  std::vector<Closing> closing_ ABSL_GUARDED_BY(mu_);
  Connections connections_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Peer> strangers_ ABSL_GUARDED_BY(mu_);  // in the order in which they came
  uint64_t n_added_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nerf
