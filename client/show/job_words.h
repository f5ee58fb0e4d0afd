#pragma once

#include <string>

#include "nerf/v1/training_service.pb.h"

namespace nerf {

// Texts for the codes of a job, with the code in parentheses. They may contain text from the
// server: apply PlainText before printing.

// Why a job is queued again: "its worker was lost (WORKER_LOST)"; "" if it is not.
std::string QueueReasonText(const v1::TrainingJob& job);
// Why it failed: "the loss is not finite (TRAINING_DIVERGED)"; "" if it did not. Without the
// problems of its scene, which callers list: the message of the error repeats them.
std::string FailureText(const v1::TrainingJob& job);
// Where an attempt starts: "from checkpoint at step 400" or "from the start".
std::string StartText(const v1::TrainingJob& job);
// "evaluating 3/25 test views" during the final evaluation; "" otherwise.
std::string EvaluationText(const v1::TrainingJob& job);
// The NOTE column of a list: why it waits or failed, or that it evaluates; "" otherwise.
std::string NoteText(const v1::TrainingJob& job);

}  // namespace nerf
