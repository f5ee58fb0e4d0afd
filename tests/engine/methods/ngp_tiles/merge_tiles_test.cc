// Tiles that are trained apart, by way of the trainer, and the model that they are merged into.
#include "engine/methods/ngp_tiles/merge_tiles.h"

#include <gtest/gtest.h>

#include <functional>

#include "common/files/file_io.h"
#include "engine/base/method_list/method_descriptions.h"
#include "engine/methods/ngp/describe/ngp_settings.h"
#include "engine/methods/ngp_tiles/describe/tile_tensors.h"
#include "engine/methods/ngp_tiles/tile_files.h"
#include "engine/methods/registry.h"
#include "engine/program/session/merge_models.h"
#include "tests/engine/program/commands/ball_dataset.h"
#include "tests/engine/program/commands/trained_files.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tiny_training.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

constexpr int kTiles = 4;

TrainConfig Config(int n_tiles = kTiles, double steps = 42) {  // tiles 0 and 1 have a step more
  TrainConfig config = *DefaultConfig("ngp-tiles");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"tiles", std::to_string(n_tiles)},
                                                        {"log2_hashmap_size", "12"},
                                                        {"target_samples", "1024"},
                                                        {"grid_resolution", "32"},
                                                        {"warmup_steps", "10"}})
    EXPECT_THAT(SetConfigField(key, value, &config), IsOk());
  config.budget = {BudgetKind::kSteps, steps};
  return config;
}

class MergeTilesTest : public ::testing::Test {
 protected:
  MergeTilesTest() { WriteBallDataset(dataset_); }

  std::string Path(const std::string& name) const { return dir_ / (name + ".safetensors"); }
  // Writes the checkpoint c_NAME and the model NAME.
  void Train(const TrainConfig& config, const std::string& name,
             std::optional<uint32_t> stop_after = {}, const std::string& resume = "") {
    TrainFiles({dataset_, config, resume, ""}, &pool_, Path("c_" + name), Path(name), stop_after);
  }
  // Trains each tile apart; returns the models.
  std::vector<std::string> TrainTiles(const TrainConfig& config) {
    std::vector<std::string> paths;
    const std::vector<TrainConfig> parts = MethodDescriptionOf(config).Parts(config);
    for (size_t tile = 0; tile < parts.size(); ++tile) {
      const std::string name = "tile" + std::to_string(tile);
      Train(parts[tile], name);
      paths.push_back(Path(name));
    }
    return paths;
  }
  // Writes a copy of a model with a change.
  std::string Changed(const std::string& path, const std::function<void(TensorFile*)>& change) {
    TensorFile file = *ReadTensorFile(path);
    change(&file);
    const std::string changed = Path("changed");
    EXPECT_THAT(WriteTensorFile(file, changed), IsOk());
    return changed;
  }

  TempDir dir_;
  const std::string dataset_ = dir_ / "ball";
  ThreadPool pool_{2};
};

TEST_F(MergeTilesTest, TilesTrainedApartAreMergedToTheFileOfOneTraining) {
  const TrainConfig config = Config();
  Train(config, "whole");
  std::vector<std::string> paths = TrainTiles(config);
  ASSERT_EQ(paths.size(), size_t{kTiles});
  const TensorFile whole = *ReadTensorFile(Path("whole"));
  for (int tile = 0; tile < kTiles; ++tile) {
    const TensorFile alone = *ReadTensorFile(paths[tile]);
    EXPECT_TRUE(SameContents(TileOf(alone, tile), TileOf(whole, tile))) << tile;
    EXPECT_EQ(alone.tensors.at(kTileCutsName).bytes, whole.tensors.at(kTileCutsName).bytes);
    EXPECT_FALSE(alone.tensors.contains(TilePrefix((tile + 1) % kTiles) + "field.hash_table"));
    // The whole state, too: moments and the occupancy grid's values.
    EXPECT_TRUE(SameContents(TileOf(*ReadTensorFile(Path("c_tile" + std::to_string(tile))), tile),
                             TileOf(*ReadTensorFile(Path("c_whole")), tile)))
        << tile;
  }
  std::swap(paths[0], paths[3]);  // any order
  const auto merged = MergeModels(paths);
  ASSERT_THAT(merged, IsOk());
  EXPECT_EQ(SerializeTensorFile(*merged), SerializeTensorFile(whole));
}

// What a worker's engine does with the models of other jobs.
TEST_F(MergeTilesTest, ASessionOfTheTilesWritesTheSameModelAndTrainsNothing) {
  const TrainConfig config = Config();
  Train(config, "whole");
  TrainRequest request;
  request.dataset = dataset_;
  request.merge = TrainTiles(config);
  TrainFiles(request, &pool_, Path("c_merged"), Path("merged"));
  EXPECT_EQ(*ReadFile(Path("merged"), 1 << 30), *ReadFile(Path("whole"), 1 << 30));
  EXPECT_EQ(LoadTrainState(*ReadTensorFile(Path("c_merged")), "")->state.step, 42u);
  // Resumed, for a worker that was lost before it could say that it is done.
  TrainFiles({dataset_, config, Path("c_merged"), ""}, &pool_, Path("c_again"), Path("again"));
  EXPECT_EQ(*ReadFile(Path("again"), 1 << 30), *ReadFile(Path("whole"), 1 << 30));

  TempDir other;
  WriteBallDataset(other / "ball", 5);
  Problems problems;
  const auto open = [&](TrainRequest of) {
    return OpenTrainingSession(of, &pool_, &problems, {}).status();
  };
  TrainRequest elsewhere = request;
  elsewhere.dataset = other / "ball";
  EXPECT_THAT(open(elsewhere), StatusIs(StatusCode::kInvalidArgument, "is not the data set"));
  TrainRequest twice = request;
  twice.resume = Path("c_merged");
  EXPECT_THAT(open(twice), StatusIs(StatusCode::kInvalidArgument, "merge excludes resume"));
  TrainRequest missing = request;
  missing.merge.pop_back();
  EXPECT_THAT(open(missing), StatusIs(StatusCode::kInvalidArgument, "tile 3 of 4 is missing"));
}

TEST_F(MergeTilesTest, ASessionOfTilesWithABudgetOfTimeTrainsNothing) {
  TrainConfig config = Config(2);
  config.budget = {BudgetKind::kSeconds, 1e-3};
  TrainRequest request;
  request.dataset = dataset_;
  // A fake clock: the tiles are stopped.
  const std::vector<TrainConfig> parts = MethodDescriptionOf(config).Parts(config);
  for (int tile = 0; tile < 2; ++tile) {
    Train(parts[tile], "tile" + std::to_string(tile), 8);
    request.merge.push_back(Path("tile" + std::to_string(tile)));
  }
  Problems problems;
  const auto session = OpenTrainingSession(request, &pool_, &problems, {});
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ((*session)->state.seconds, 1e-3);
}

TEST_F(MergeTilesTest, ATileStoppedAndResumedHasTheSameBytes) {
  const std::vector<TrainConfig> parts = MethodDescriptionOf(Config()).Parts(Config());
  Train(parts[3], "whole");
  for (const uint32_t stop_after : {0u, 1u, 16u, 19u}) {
    Train(parts[3], "part", stop_after);
    EXPECT_EQ(LoadTrainState(*ReadTensorFile(Path("c_part")), "")->state.step, stop_after);
    Train(parts[3], "part", {}, Path("c_part"));
    EXPECT_EQ(*ReadFile(Path("part"), 1 << 30), *ReadFile(Path("whole"), 1 << 30)) << stop_after;
  }
  // A count of steps that are another tile's.
  const std::string foreign =
      Changed(Path("c_part"), [](TensorFile* file) { file->metadata["tiles.steps"] = "40"; });
  Problems problems;
  EXPECT_THAT(
      OpenTrainingSession({dataset_, parts[3], foreign, ""}, &pool_, &problems, {}).status(),
      StatusIs(StatusCode::kInvalidArgument, "tiles.steps: 40 is no step of tile 3"));
}

TEST_F(MergeTilesTest, StartsAreShared) {
  Train(Config(2, 8), "start");
  const TrainConfig config = Config(2, 20);
  const auto train = [&](const TrainConfig& of, const std::string& name) {
    TrainFiles({dataset_, of, "", Path("start")}, &pool_, Path("c"), Path(name));
  };
  train(config, "whole");
  const std::vector<TrainConfig> parts = MethodDescriptionOf(config).Parts(config);
  train(parts[0], "tile0");
  train(parts[1], "tile1");
  const auto merged = MergeModels({Path("tile0"), Path("tile1")});
  ASSERT_THAT(merged, IsOk());
  EXPECT_EQ(SerializeTensorFile(*merged), *ReadFile(Path("whole"), 1 << 30));
  // A start with one tile alone starts that tile, and no other.
  Problems problems;
  const auto open = [&](const TrainConfig& of) {
    return OpenTrainingSession({dataset_, of, "", Path("tile1")}, &pool_, &problems, {}).status();
  };
  EXPECT_THAT(open(parts[1]), IsOk());
  EXPECT_THAT(open(parts[0]), StatusIs(StatusCode::kInvalidArgument, "tile0"));
  EXPECT_THAT(open(config), StatusIs(StatusCode::kInvalidArgument, "tile0"));
}

TEST_F(MergeTilesTest, OtherBudgetsAreSharedOutEvenly) {
  TrainConfig config = Config(2);
  config.budget = {BudgetKind::kSamples, 400'000};
  const std::vector<std::string> paths = TrainTiles(config);
  for (const std::string& path : paths) {
    const int64_t n_trained = LoadTrainState(*ReadTensorFile(path), path)->state.n_trained;
    EXPECT_GE(n_trained, 200'000) << path;
    EXPECT_LT(n_trained, 260'000) << path;  // the last step may be a large one
  }
  const auto merged = MergeModels(paths);
  ASSERT_THAT(merged, IsOk());
  EXPECT_GE(LoadTrainState(*merged, "")->state.n_trained, 400'000);
}

TEST_F(MergeTilesTest, ViewsOfATileShowIt) {
  const std::vector<std::string> paths = TrainTiles(Config(2));
  const auto device = NewCpuRenderDevice(&pool_);
  const ViewPicture model = RenderFile(paths[1], device.get());
  EXPECT_EQ(model.rgba.pixels, RenderFile(Path("c_tile1"), device.get()).rgba.pixels);
  EXPECT_NE(model.rgba.pixels, RenderFile(paths[0], device.get()).rgba.pixels);
}

TEST_F(MergeTilesTest, WhatIsNoTileOfTheModelIsRefusedByName) {
  const TrainConfig config = Config(2, 8);
  Train(config, "whole");
  const std::vector<std::string> tiles = TrainTiles(config);
  const auto refused = [&](const std::vector<std::string>& paths, const std::string& why) {
    EXPECT_THAT(MergeModels(paths).status(), StatusIs(StatusCode::kInvalidArgument, why));
  };
  refused({}, "no models");
  refused({tiles[0]}, "tile 1 of 2 is missing");
  refused({tiles[1], tiles[1]}, "tile1.safetensors: tile 1 is in ");
  refused({tiles[0], tiles[1], tiles[0]}, "tile0.safetensors: tile 0 is in ");
  refused({tiles[0], Path("whole")}, "whole.safetensors: has all tiles");
  refused({Path("whole")}, "whole.safetensors: has all tiles");
  refused({tiles[0], Path("c_tile1")}, "c_tile1.safetensors is a checkpoint");
  EXPECT_THAT(MergeModels({tiles[0], Path("none")}).status(), StatusIs(StatusCode::kNotFound));

  const auto with = [&](const std::string& key, const std::string& value) {
    return Changed(tiles[1], [&](TensorFile* file) { file->metadata[key] = value; });
  };
  refused({tiles[0], with("setting.tile_margin", "0.1")}, "changed.safetensors: setting.tile_mar");
  refused({tiles[0], with("setting.tiles", "4")}, "setting.tiles is '4', in ");
  refused({tiles[0], with("seed", "9")}, "seed is '9', in ");
  refused({tiles[0], with("budget", "steps 9")}, "budget is 'steps 9', in ");
  refused({tiles[0], with("step", "7")}, "step is '7', in ");
  refused({tiles[0], with("scene.n_levels", "2")}, "scene.n_levels is '2', in ");
  refused({tiles[0], with("scene.box_min", "-2 -2 -2")}, "changed.safetensors");
  refused({tiles[0], with("scene.origin", "5 0 0")}, "scene.origin is '5 0 0', in ");
  refused({tiles[0], with("views", "7 2")}, "views is '7 2', in ");
  refused({tiles[0], with("made_from", "a model")}, "made_from is 'a model', in ");
  // No such tile, and text that is no number.
  for (const char* tile : {"2", "15", "16", "-1", "one", "1 ", ""})
    refused({tiles[0], with("setting.tile", tile)}, "setting");
  refused({tiles[0], with("setting.tile", "0")}, "changed.safetensors: tile 0 is in ");
  // The other tile's tensors are not in it.
  refused({tiles[1], with("setting.tile", "0")}, "changed.safetensors: tensor field.");

  refused({tiles[0], Changed(tiles[1],
                             [](TensorFile* file) {
                               Tensor& cuts = file->tensors.at(kTileCutsName);
                               const float moved[] = {ToFloats(cuts)[0], ToFloats(cuts)[1] + 0.01f};
                               cuts = TensorFromFloats(moved, {1, 2}, DType::kF32);
                             })},
          "changed.safetensors: tiles.cuts are others");
  for (const char* name : {"tiles.cuts", "tile1.field.hash_table", "tile1.occupancy.bits"}) {
    refused({tiles[0], Changed(tiles[1], [&](TensorFile* file) { file->tensors.erase(name); })},
            "changed.safetensors: tensor ");
  }
  refused({tiles[0], Changed(tiles[1],
                             [](TensorFile* file) {
                               Tensor& table = file->tensors.at("tile1.field.hash_table");
                               table.shape[0] /= 2;
                               table.bytes.resize(table.bytes.size() / 2);
                             })},
          "changed.safetensors: tensor field.hash_table");
  // Counts as large as files may have do not overflow.
  const auto merged = MergeModels({tiles[0], with("samples", "1000000000000000000")});
  ASSERT_THAT(merged, IsOk());
  EXPECT_EQ(LoadTrainState(*merged, "")->state.n_trained, 1'000'000'000'000'000'000);
}

TEST(TileSettingTest, ATileIsOneOfThoseThatTheConfigHas) {
  TrainConfig config = *DefaultConfig("ngp-tiles");
  EXPECT_EQ(ConfigSettings(config).at("tile"), "all");
  for (const char* tile : {"16", "-1", "a", "1x", "", "1e0"})
    EXPECT_THAT(SetConfigField("tile", tile, &config),
                StatusIs(StatusCode::kInvalidArgument, "all, or a tile's number from 0 to 15"));
  ASSERT_THAT(SetConfigField("tile", "2", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config),
              StatusIs(StatusCode::kInvalidArgument, "settings.tile: 2 is none of 2 tiles"));
  ASSERT_THAT(SetConfigField("tiles", "4", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config), IsOk());
  EXPECT_TRUE(MethodDescriptionOf(config).Parts(config).empty()) << "it is a part";
  ASSERT_THAT(SetConfigField("tile_training", "joint", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config), StatusIs(StatusCode::kInvalidArgument, "settings.tile: "));
  ASSERT_THAT(SetConfigField("tile", "all", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config), IsOk());
  EXPECT_TRUE(MethodDescriptionOf(config).Parts(config).empty()) << "joint";
  EXPECT_TRUE(MethodDescriptionOf(TrainConfig()).Parts(TrainConfig()).empty()) << "ngp";
}

TEST(TileSettingTest, MemoryAndTensorsAreThoseOfTheTile) {
  const TrainConfig config = Config();
  const MethodDescription& method = MethodDescriptionOf(config);
  const TrainConfig part = method.Parts(config)[1];
  EXPECT_EQ(4 * method.StepBytes(part, 1, 2), method.StepBytes(config, 1, 2));
  EXPECT_EQ(4 * method.StateBytes(part, 1), method.StateBytes(config, 1));
  const size_t n = method.FieldTensors(part).size();
  EXPECT_EQ(4 * (n - 1), method.FieldTensors(config).size() - 1);
}

}  // namespace
}  // namespace nerf
