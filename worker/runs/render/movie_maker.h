#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "nerf/v1/worker_service.pb.h"
#include "worker/files/blob_cache.h"

namespace nerf {

// Whether this machine has an ffmpeg that encodes H.264: tried on two small frames.
// max_data_bytes, here and below: memory that ffmpeg may allocate; 0: any.
bool CanMakeMovies(const std::string& folder, uint64_t max_data_bytes = 0);

// Writes the frames as an MP4 file (H.264, yuv420p, index in front, so that it plays while it
// loads), with alpha as WebM (VP9). An MP4 of panoramas says so. Frames go to ffmpeg through a
// pipe, one by one; odd sides get a row or column of black. Errors: those of the cache; Internal
// with ffmpeg's words; Cancelled.
absl::Status MakeMovie(const v1::MovieTask& task, const std::string& path, uint64_t max_data_bytes,
                       BlobCache& cache, const std::stop_token& stop);

}  // namespace nerf
