#include "engine/protocol/scene_views.h"

#include "common/status_macros.h"
#include "engine/protocol/json.h"
#include "engine/protocol/key_reader.h"

namespace nerf::protocol {
namespace {

using nlohmann::json;

constexpr size_t kMatrixSize = 12;

JsonObject ToJson(const SceneView& view) {
  JsonObject object = {{"file", view.file},     {"test", view.is_test}, {"width", view.width},
                       {"height", view.height}, {"fl_x", view.fl_x},    {"fl_y", view.fl_y},
                       {"cx", view.cx},         {"cy", view.cy}};
  if (view.is_opencv) object["opencv"] = {view.k1, view.k2, view.k3, view.p1, view.p2};
  object["matrix"] = view.matrix;
  if (view.time != 0) object["time"] = view.time;
  return object;
}

// The numbers of the array at `key`, which has `size` of them; empty where there is none.
std::vector<double> Numbers(KeyReader& reader, const char* key, size_t size) {
  std::vector<double> numbers;
  const json* array = reader.Array(key);
  if (array == nullptr) return numbers;
  for (const json& number : *array) {
    if (number.is_number()) numbers.push_back(number.get<double>());
  }
  if (numbers.size() != size || array->size() != size) {
    reader.Fail(key, "has another number of numbers");
    numbers.clear();
  }
  return numbers;
}

SceneView ReadView(KeyReader& reader) {
  SceneView view;
  view.file = reader.Text("file", Need::kRequired);
  view.is_test = reader.Flag("test", Need::kRequired).value_or(false);
  view.width = reader.Count("width", Need::kRequired);
  view.height = reader.Count("height", Need::kRequired);
  const auto number = [&](const char* key) {
    return reader.Number(key, Need::kRequired).value_or(0);
  };
  view.fl_x = number("fl_x");
  view.fl_y = number("fl_y");
  view.cx = number("cx");
  view.cy = number("cy");
  if (const std::vector<double> lens = Numbers(reader, "opencv", 5); !lens.empty()) {
    view.is_opencv = true;
    view.k1 = lens[0];
    view.k2 = lens[1];
    view.k3 = lens[2];
    view.p1 = lens[3];
    view.p2 = lens[4];
  }
  view.matrix = Numbers(reader, "matrix", kMatrixSize);
  if (view.matrix.empty()) reader.Fail("matrix", "is missing");
  view.time = reader.Number("time", Need::kOptional, 0, 1).value_or(0);
  return view;
}

}  // namespace

std::string ToText(const std::vector<SceneView>& views) {
  JsonObject list = JsonObject::array();
  for (const SceneView& view : views) list.push_back(ToJson(view));
  return JsonLine({{"views", std::move(list)}});
}

absl::StatusOr<std::vector<SceneView>> ParseSceneViews(std::string_view text) {
  NERF_ASSIGN_OR_RETURN(const json object, ParseJsonObject(text));
  KeyReader reader(object);
  std::vector<SceneView> views;
  reader.Objects("views", [&](KeyReader& item) {
    if (reader.status().ok()) views.push_back(ReadView(item));
  });
  NERF_RETURN_IF_ERROR(reader.status());
  return views;
}

}  // namespace nerf::protocol
