#include "server/rpc/convert/scene_descriptions.h"

#include <iterator>

namespace nerf {

SceneDescriptions::Description SceneDescriptions::Find(const Key& key) {
  MutexLock lock(mu_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->description;
}

void SceneDescriptions::Add(const Key& key, Description description, size_t byte_size) {
  MutexLock lock(mu_);
  if (byte_size > max_bytes_ || by_key_.contains(key)) return;
  entries_.push_front({key, std::move(description), byte_size});
  by_key_[key] = entries_.begin();
  n_bytes_ += byte_size;
  while (n_bytes_ > max_bytes_) {
    n_bytes_ -= entries_.back().byte_size;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace nerf
