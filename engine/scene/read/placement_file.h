#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scene/files/problem_text.h"
#include "engine/scene/files/scene_files.h"
#include "engine/scene/listed_views.h"

// placement.json: where a scene lies that continues another one, so that the model of that one
// fits.
namespace nerf {

inline constexpr char kPlacementFile[] = "placement.json";

// The file's text, of a scene that is placed so.
std::string PlacementText(const SceneGeometry& geometry);

// Reads the text. Adds what is wrong to *problems; nullopt then.
std::optional<GivenPlacement> ParsePlacement(std::string_view text, Problems* problems);

// Sets listed->placement and adds to listed->files if the folder has the file.
void ReadPlacementFile(const SceneFolder& folder, ListedViews* listed, Problems* problems);

}  // namespace nerf
