#pragma once

#include <span>
#include <string>

#include "server/queue/resources/blob_ref.h"

namespace nerf {

// A file that a worker fetches before it can begin (KindPolicy::InputsOf).
struct JobInput {
  BlobRef blob;
  std::string name;  // for people: "train/r_0.png", "its model"
};

// "train/r_0.png and 2 more of its files are damaged or missing on the server: ...", and what to
// do. Empty for none.
std::string LackText(std::span<const JobInput> lacking);

}  // namespace nerf
