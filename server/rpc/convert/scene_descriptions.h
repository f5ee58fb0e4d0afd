#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "common/mutex.h"
#include "nerf/v1/scene_service.pb.h"

namespace nerf {

// What workers have said of the scenes that were asked for last. A scene never changes, so what is
// kept stays true. Thread-safe.
class SceneDescriptions {
 public:
  struct Key {
    uint64_t scene = 0;  // SceneRecord::create_sequence
    std::optional<uint32_t> test_every;

    auto operator<=>(const Key&) const = default;
  };
  using Description = std::shared_ptr<const v1::DescribeSceneResponse>;  // with all views

  // Keeps at most that many bytes, as they came.
  explicit SceneDescriptions(size_t max_bytes = size_t{32} << 20) : max_bytes_(max_bytes) {}

  // nullptr if it is not kept.
  Description Find(const Key& key);
  void Add(const Key& key, Description description, size_t byte_size);

 private:
  struct Entry {
    Key key;
    Description description;
    size_t byte_size = 0;
  };

  const size_t max_bytes_;
  Mutex mu_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mu_);  // the one asked for last first
  std::map<Key, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mu_);
  size_t n_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nerf
