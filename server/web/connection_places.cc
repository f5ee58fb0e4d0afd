#include "server/web/connection_places.h"

#include <algorithm>
#include <utility>

namespace nerf {

void ConnectionPlaces::Add(std::shared_ptr<HttpConnection> connection,
                           const boost::asio::ip::address& address) {
  if (CountStrangers() >= limits_.max_strangers) CloseStranger();
  HttpConnection* const key = connection.get();
  places_[key] = {std::move(connection), address, ++n_added_};
}

bool ConnectionPlaces::MakePlace() {
  if (places_.size() - CountStrangers() < limits_.max_connections) return true;
  std::shared_ptr<HttpConnection> oldest;
  for (const auto& [key, place] : places_) {
    if (key->is_stranger() || !key->is_idle()) continue;
    if (oldest == nullptr || key->idle_number() < oldest->idle_number()) oldest = place.connection;
  }
  if (oldest == nullptr) return false;
  oldest->Close();
  return true;
}

std::vector<std::shared_ptr<HttpConnection>> ConnectionPlaces::All() const {
  std::vector<std::shared_ptr<HttpConnection>> all;
  all.reserve(places_.size());
  for (const auto& [key, place] : places_) all.push_back(place.connection);
  return all;
}

size_t ConnectionPlaces::CountStrangers() const {
  return static_cast<size_t>(std::count_if(places_.begin(), places_.end(), [](const auto& entry) {
    return entry.first->is_stranger();
  }));
}

void ConnectionPlaces::CloseStranger() {
  std::map<boost::asio::ip::address, size_t> n_of;
  for (const auto& [key, place] : places_) {
    if (key->is_stranger()) ++n_of[place.address];
  }
  const Place* leaves = nullptr;
  for (const auto& [key, place] : places_) {
    if (!key->is_stranger()) continue;
    const size_t n = n_of[place.address];
    const size_t most = leaves == nullptr ? 0 : n_of[leaves->address];
    if (n > most || (n == most && place.number < leaves->number)) leaves = &place;
  }
  // A copy: the place goes with its connection.
  if (leaves != nullptr) std::shared_ptr<HttpConnection>(leaves->connection)->Close();
}

}  // namespace nerf
