#pragma once

namespace nerf {

// A kind of work. What the queue knows of each stands in server/queue/kinds (KindPolicy).
enum class JobKind { kTraining, kRender, kPose, kExport };

// That of records and calls that name none.
inline constexpr JobKind kDefaultJobKind = JobKind::kTraining;

}  // namespace nerf
