#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "server/web/http_connection.h"
#include "server/web/web_limits.h"

namespace nerf {

// The open connections of a server, and who has to go where there are too many (WebLimits).
// Strangers never take the place of a connection that has shown a token. Not thread-safe.
class ConnectionPlaces {
 public:
  // `limits` outlives it.
  explicit ConnectionPlaces(const WebLimits* limits) : limits_(*limits) {}

  // Takes in a stranger. If all their places are taken, closes the oldest of the address that has
  // the most, so that one address cannot drive out the others.
  void Add(std::shared_ptr<HttpConnection> connection, const boost::asio::ip::address& address);
  // Makes a place for a stranger that has shown a token; closes the longest idle connection that
  // has, if need be. False if there is none.
  bool MakePlace();
  void Remove(HttpConnection* connection) { places_.erase(connection); }

  bool empty() const { return places_.empty(); }
  // A copy, because connections that end leave.
  std::vector<std::shared_ptr<HttpConnection>> All() const;

 private:
  struct Place {
    std::shared_ptr<HttpConnection> connection;
    boost::asio::ip::address address;
    uint64_t number = 0;  // in the order in which they came
  };
  size_t CountStrangers() const;
  void CloseStranger();

  const WebLimits& limits_;
  std::map<HttpConnection*, Place> places_;
  uint64_t n_added_ = 0;
};

}  // namespace nerf
