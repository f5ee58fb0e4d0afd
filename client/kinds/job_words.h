#pragma once

#include <string>

#include "nerf/v1/job_service.pb.h"

namespace nerf {

// Texts about jobs of every kind, codes in parentheses. They may contain text from the server:
// apply PlainText before printing.

bool IsFinal(v1::Job::State state);
// The API's name of the state, such as "RUNNING"; a number for an unknown one.
std::string StateText(v1::Job::State state);
// Why a job is queued again: "its worker was lost (WORKER_LOST)"; "" if it is not.
std::string QueueReasonText(const v1::Job& job);
// Why it failed: "the loss is not finite (TRAINING_DIVERGED)"; "" if it did not. Without the
// problems of its scene, which callers list: the message of the error repeats them.
std::string FailureText(const v1::Job& job);
// The NOTE column of a list: why it waits or failed, or what it does; "" otherwise.
std::string NoteText(const v1::Job& job);

// The model or the checkpoint of a render or an export.
template <typename Spec>
std::string SourceOfJob(const Spec& spec) {
  return spec.has_model() ? spec.model() : spec.checkpoint();
}

}  // namespace nerf
