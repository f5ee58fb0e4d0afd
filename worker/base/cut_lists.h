#pragma once

#include <string>

#include "common/messages/worker_limits.h"
#include "nerf/v1/common.pb.h"

namespace nerf {

// Drops the items of a repeated field beyond `n`.
template <typename Repeated>
void CutTo(int n, Repeated* items) {
  if (items->size() > n) items->DeleteSubrange(n, items->size() - n);
}

// The same of problems, of which the last then says how many were left out.
template <typename Problems>
void CutProblems(Problems* problems) {
  const int n_more = problems->size() - kMaxProblems + 1;
  if (n_more <= 1) return;
  CutTo(kMaxProblems, problems);
  v1::SceneProblem& last = (*problems)[kMaxProblems - 1];
  last.Clear();
  last.set_message("and " + std::to_string(n_more) + " more problems");
}

}  // namespace nerf
