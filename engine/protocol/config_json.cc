#include "engine/protocol/config_json.h"

namespace nerf::protocol {
namespace {

constexpr double kMaxBudget = 1e15;
constexpr int64_t kMaxTestEvery = 1'000'000;

}  // namespace

void SetConfig(const Config& config, JsonObject* object) {
  JsonObject& o = *object;
  if (!config.method.empty()) o["method"] = config.method;
  if (config.seed.has_value()) o["seed"] = *config.seed;
  if (config.budget.has_value()) {
    o["budget"] =
        JsonObject{{"kind", config.budget->kind}, {"amount", JsonNumber(config.budget->amount)}};
  }
  if (!config.background.empty()) o["background"] = config.background;
  if (config.test_every.has_value()) o["test_every"] = *config.test_every;
  o["settings"] = config.settings;
}

Config ReadConfig(KeyReader* reader) {
  Config config;
  config.method = reader->Text("method", Need::kOptional);
  if (const auto seed = reader->Whole("seed", Need::kOptional, 0, UINT32_MAX)) {
    config.seed = static_cast<uint32_t>(*seed);
  }
  if (const nlohmann::json* object = reader->Object("budget", Need::kOptional)) {
    KeyReader inner(*object, "budget.");
    Budget& budget = config.budget.emplace();
    budget.kind = inner.Text("kind", Need::kRequired);
    budget.amount = inner.Number("amount", Need::kRequired, 0, kMaxBudget).value_or(0);
    reader->Merge(inner);
  }
  config.background = reader->Text("background", Need::kOptional);
  if (const auto every = reader->Whole("test_every", Need::kOptional, 0, kMaxTestEvery)) {
    config.test_every = static_cast<uint32_t>(*every);
  }
  config.settings = reader->TextMap("settings", Need::kOptional);
  return config;
}

}  // namespace nerf::protocol
