#pragma once

#include <string>
#include <vector>

#include "server/queue/jobs/job.h"

namespace nerf {

// The blob of a content.
BlobRef SampleBlob(const std::string& content);

// A job of each kind, with something of everything that is stored of it.
std::vector<Job> SampleJobs();

}  // namespace nerf
