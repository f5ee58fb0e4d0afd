#pragma once

#include <string>

#include "nerf/v1/training_service.pb.h"

namespace nerf {

// What the API says of a job in codes, in words for people with the code behind them. Text of the
// server's may hold anything: make it plain before it goes to a terminal.

// Why a job is queued again: "its worker was lost (WORKER_LOST)"; "" where it is not.
std::string QueueReasonText(const v1::TrainingJob& job);
// Why it failed: "the loss is not finite (TRAINING_DIVERGED)"; "" where it did not.
std::string FailureText(const v1::TrainingJob& job);
// Where an attempt begins: "from checkpoint at step 400" or "from the start".
std::string StartText(const v1::TrainingJob& job);
// "evaluating 3/25 test views" while it does; "" otherwise.
std::string EvaluationText(const v1::TrainingJob& job);
// What there is to say of it in a list: why it waits or failed, or that it evaluates; "" otherwise.
std::string NoteText(const v1::TrainingJob& job);

}  // namespace nerf
