#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/messages/path_kind.h"
#include "server/queue/jobs/job_change.h"

namespace nerf {

// How the work of a render job is split and counted. Parts are ranges of kFramesPerPart frames and,
// if a movie is wanted, one part that makes it once all frames are stored. A job is QUEUED while
// nobody holds a part of it and none has been finished since it was queued; RUNNING otherwise.

// Stored jobs have such parts: another number is another schema version.
inline constexpr uint32_t kFramesPerPart = 16;

// What a worker announces that makes movies, and what it needs for those with a style.
inline constexpr std::string_view kMovieCapability = "ffmpeg";
inline constexpr std::string_view kStyledMovieCapability = "ffmpeg+style";
// What a worker announces that renders models (ModelCapability).
inline constexpr std::string_view kRenderFeature = "render";

uint32_t PartsOf(const v1::RenderSpec& spec);

// The work of a new job: every part free, every frame missing.
RenderWork NewRenderWork(const v1::RenderSpec& spec);

// Frames from `begin` to before `end`; none for the part that makes the movie.
struct FrameSpan {
  uint32_t begin = 0, end = 0;
};
FrameSpan FramesOfPart(const Job& job, uint32_t part);
bool IsMoviePart(const Job& job, uint32_t part);
// The first part that nobody holds and that may begin now; nullopt without one, and in a state in
// which nothing is granted.
std::optional<uint32_t> NextPart(const Job& job);
// Whether all that the part is to make is stored.
bool IsComplete(const Job& job, uint32_t part);
uint32_t CountFrames(const Job& job);  // stored ones

bool IsAnyPartHeld(const Job& job);
// Changes of a job. Each records an event.

// Gives the part to a worker, with the job's next lease epoch.
absl::Status GrantPart(JobChange& change, uint32_t part, const std::string& worker);
// Nobody holds the part any more. The job is queued for `reason` if that was the last one held, or
// CANCELLED where a client asked for that.
absl::Status FreePart(JobChange& change, uint32_t part, QueueReason reason);
// The part is complete. The job has SUCCEEDED if it was the last one.
absl::Status CompletePart(JobChange& change, uint32_t part);

}  // namespace nerf
