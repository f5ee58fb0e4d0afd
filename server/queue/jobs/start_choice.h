#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/queue/jobs/job.h"
#include "server/queue/jobs/model_record.h"
#include "server/queue/resources/scene_record.h"

namespace nerf {

// A model that a new job may start from, and what is known of its training.
struct StartCandidate {
  const ModelRecord* model = nullptr;
  const Job* job = nullptr;            // that trained it; null when it was deleted
  const SceneRecord* scene = nullptr;  // of that job; null when it is not known any more
};

// What a job asks that leaves its start to the server. Pointers hold during the call.
struct StartQuestion {
  const SceneRecord* scene = nullptr;  // of the new job; null when it is still to be made
  // Only a model of a scene that the job's continues, with more photographs, will do.
  bool must_continue = false;
  // The new job's scene will be `scene` with more photographs.
  bool scene_grows = false;
  std::vector<StartCandidate> candidates;  // models of the job's project, newest first
};

struct StartAnswer {
  const ModelRecord* model = nullptr;  // one of the candidates; null: from scratch
  std::string reason;                  // one line, for people
};

using StartChooser = std::function<StartAnswer(const StartQuestion& question)>;

// At most so many candidates, the newest: a choice holds the queue's lock.
inline constexpr size_t kMaxStartCandidates = 1000;

}  // namespace nerf
