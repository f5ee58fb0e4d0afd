#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nerf {

// What a worker reports about itself when it connects.
struct WorkerDescription {
  std::string id;       // stable, IsResourceId
  std::string session;  // random id of its process
  std::string device;   // cpu or cuda:N
  std::string device_description;
  std::string version;
  std::string host;
  std::vector<std::string> methods;        // training methods it offers; empty: unknown, so all
  std::vector<std::string> features = {};  // what else it can do, as in nerf.v1.WorkerHello
  std::string problem = {};                // why it can do nothing at all, for people; else empty
  // Of what finds poses, and of what reads films for that; empty without.
  std::string colmap_version = {}, ffmpeg_version = {};

  bool Has(std::string_view feature) const;
  // What it may be granted (CapabilityOf). Empty: not reported, so every training.
  std::vector<std::string> Capabilities() const;
};

// Whether only a worker that announces the capability may be given such work.
bool NeedsAnnouncement(std::string_view capability);

}  // namespace nerf
