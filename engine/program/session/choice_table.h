#pragma once

#include <string>
#include <vector>

#include "engine/base/config/method_description.h"
#include "engine/base/protocol/json.h"
#include "engine/program/session/training_session.h"

namespace nerf {

// What nerfd chooses for which scenes: of every method, then of ngp.
std::vector<ChoiceRule> AllChoiceRules();

// The rules as a table of at most 100 columns, then the defaults. With the session of a new
// training of ngp whose settings are left open, its facts come first, and the rows that hold for it
// are marked and show the values chosen.
std::string ChoiceTable(const TrainingSession* session);
// The same as {"rules":[...],"defaults":{}}, with a session also "facts" and "chosen".
JsonObject ChoiceReport(const TrainingSession* session);

}  // namespace nerf
