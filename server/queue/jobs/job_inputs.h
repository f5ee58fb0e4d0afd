#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/queue/resources/blob_ref.h"

namespace nerf {

struct Job;
struct SceneRecord;

// A file that a worker fetches before it can begin.
struct JobInput {
  BlobRef blob;
  std::string name;  // for people: "train/r_0.png", "its model"
};

// What the next placement of a job fetches, without the checkpoint that it goes on from: where that
// is damaged there is one before. `scene` is the job's; null for a render job.
std::vector<JobInput> InputsOf(const Job& job, const SceneRecord* scene);

// "train/r_0.png and 2 more of its files are damaged or missing on the server: ...", and what to
// do. Empty for none.
std::string LackText(std::span<const JobInput> lacking);

}  // namespace nerf
