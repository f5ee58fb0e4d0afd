#include "engine/base/method_list/method_descriptions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/methods/ngp/describe/ngp_settings.h"
#include "fmt/format.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

TEST(MethodDescriptionsTest, SettingsAreSortedAndTheirDefaultsInRange) {
  for (const MethodDescription* method : MethodDescriptions()) {
    const auto settings = method->settings();
    EXPECT_TRUE(std::is_sorted(settings.begin(), settings.end(),
                               [](const auto& a, const auto& b) { return a.key < b.key; }));
    const auto defaults = DefaultConfig(method->name());
    ASSERT_THAT(defaults, IsOk());
    EXPECT_EQ(defaults->method, method->name());
    TrainConfig config = *defaults;
    for (const auto& [key, value] : ConfigSettings(config)) {
      EXPECT_THAT(SetConfigField(key, value, &config), IsOk()) << key;
    }
    EXPECT_EQ(config, *defaults);
    EXPECT_THAT(ValidateConfig(config), IsOk());
    for (const char* device : {"cpu", "cuda:0"}) {
      const bool trains = (method->training_devices() & DeviceSetOf(device)) != 0;
      EXPECT_EQ(CheckDeviceHonors(config, device).ok(), trains) << method->name() << device;
    }
  }
}

// Each setting moved off its default is refused by name where a device does not honor it.
TEST(MethodDescriptionsTest, WhatADeviceDoesNotHonorIsRefusedByName) {
  struct Case {
    const char *method, *key, *value;
  };
  for (const Case& c : {Case{"mlp", "cuda_fp32", "1"},
                        {"voxels", "cuda_deterministic", "1"},
                        {"ngp", "cuda_fp32", "1"},
                        {"ngp", "cuda_deterministic", "1"}}) {
    TrainConfig config = *DefaultConfig(c.method);
    ASSERT_THAT(SetConfigField(c.key, c.value, &config), IsOk());
    EXPECT_THAT(ValidateConfig(config), IsOk());
    EXPECT_THAT(CheckDeviceHonors(config, "cpu"), StatusIs(StatusCode::kInvalidArgument, c.key));
    EXPECT_THAT(CheckDeviceHonors(config, "cuda:0"), IsOk());
  }
}

TEST(MethodDescriptionsTest, CudaDevicesHonorEverySettingOfEveryMethodOrNeedNot) {
  for (const MethodDescription* method : MethodDescriptions()) {
    EXPECT_THAT(CheckDeviceHonors(method->Defaults(), "cuda:0"), IsOk()) << method->name();
    for (const Setting& setting : method->settings()) {
      if (setting.devices == kNoDevice) continue;
      if (setting.is_ignored_elsewhere) continue;
      EXPECT_NE(setting.devices & kOnCuda, 0) << method->name() << ", " << setting.key;
    }
  }
}

TEST(MethodDescriptionsTest, GangsTrainWhereTheBytesAreThoseOfOneWorker) {
  TrainConfig config;
  EXPECT_EQ(GangDevices(config), kOnCpu);
  EXPECT_THAT(CheckGang(config, 32), IsOk());
  ASSERT_THAT(SetConfigField("cuda_deterministic", "1", &config), IsOk());
  EXPECT_EQ(GangDevices(config), kOnCuda);
  EXPECT_THAT(CheckGang(config, 8), IsOk());
  EXPECT_THAT(CheckGang(config, 9),
              StatusIs(StatusCode::kInvalidArgument, "settings.cuda_deterministic"));
  const MethodDescription& ngp = MethodDescriptionOf(config);
  EXPECT_THAT(ngp.CheckRanks(config, kOnCuda, 9),
              StatusIs(StatusCode::kInvalidArgument, "settings.cuda_deterministic"));
  ASSERT_THAT(SetConfigField("cuda_deterministic", "0", &config), IsOk());
  EXPECT_THAT(ngp.CheckRanks(config, kOnCuda, 9), IsOk());
  for (const MethodDescription* method : MethodDescriptions()) {
    const bool is_split = method->name() == "ngp" || method->name() == "ngp-autograd";
    EXPECT_EQ(CheckGang(method->Defaults(), 2).ok(), is_split) << method->name();
  }
}

TEST(MethodDescriptionsTest, WhatAMethodHonorsOnNoDeviceIsRefusedBeforeADeviceIsKnown) {
  TrainConfig config = *DefaultConfig("ngp-autograd");
  for (const char* key : {"coarse_share", "half_table", "cuda_fp32"}) {
    TrainConfig changed = config;
    ASSERT_THAT(SetConfigField(key, ConfigSettings(config).at(key), &changed), IsOk());
    EXPECT_THAT(ValidateConfig(changed), IsOk()) << "files name it with its default";
    ASSERT_THAT(SetConfigField(key, ConfigSettings(config).at(key) == "0" ? "1" : "0", &changed),
                IsOk());
    EXPECT_THAT(ValidateConfig(changed), StatusIs(StatusCode::kInvalidArgument, key));
  }
  ASSERT_THAT(SetConfigField("roulette_weight", "0.1", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config), StatusIs(StatusCode::kInvalidArgument, "roulette_weight"));
  TrainConfig fused;
  ASSERT_THAT(SetConfigField("roulette_weight", "0.1", &fused), IsOk());
  EXPECT_THAT(CheckDeviceHonors(fused, "cpu"), IsOk());
  EXPECT_THAT(CheckDeviceHonors(fused, "cuda:0"), IsOk()) << "so that a training may move there";
  for (const char* key : {"autocast", "checkpointing"}) {
    TrainConfig mlp = *DefaultConfig("mlp"), through_torch = *DefaultConfig("mlp-autograd");
    ASSERT_THAT(SetConfigField(key, "1", &mlp), IsOk());
    ASSERT_THAT(SetConfigField(key, "1", &through_torch), IsOk());
    EXPECT_THAT(ValidateConfig(mlp), StatusIs(StatusCode::kInvalidArgument, key));
    EXPECT_THAT(ValidateConfig(through_torch), IsOk());
    EXPECT_THAT(CheckDeviceHonors(through_torch, "cpu"), IsOk());
    for (const char* value : {"2", "-1", "0.5", "nan", "yes", ""}) {
      EXPECT_THAT(SetConfigField(key, value, &through_torch),
                  StatusIs(StatusCode::kInvalidArgument, key))
          << value;
    }
  }
}

TEST(MethodDescriptionsTest, CoarsePicturesTakeAShareAndEndBeforeTheBudget) {
  TrainConfig config;
  const MethodDescription& ngp = MethodDescriptionOf(config);
  for (const double fraction : {0.0, 0.5, 1.0}) EXPECT_EQ(ngp.PictureLevel(config, fraction), 0);
  ASSERT_THAT(SetConfigField("coarse_pictures", "0.5", &config), IsOk());
  EXPECT_EQ(ngp.PictureLevel(config, 0), 2);
  EXPECT_EQ(ngp.PictureLevel(config, 0.2499), 2);
  EXPECT_EQ(ngp.PictureLevel(config, 0.25), 1);
  EXPECT_EQ(ngp.PictureLevel(config, 0.4999), 1);
  EXPECT_EQ(ngp.PictureLevel(config, 0.5), 0);
  EXPECT_EQ(ngp.PictureLevel(config, 1), 0);
}

// Shares of the budget or of a batch that leave something over.
TEST(MethodDescriptionsTest, SharesBelowOneAreRefusedByNameWhereTheyAreNone) {
  for (const char* key : {"coarse_pictures", "error_share"}) {
    TrainConfig config;
    for (const char* value : {"1", "1.5", "-0.1", "-1", "nan", "inf", "-inf", "1e999", "half",
                              "auto", "0.5x", " ", ""}) {
      EXPECT_THAT(SetConfigField(key, value, &config), StatusIs(StatusCode::kInvalidArgument, key))
          << value;
    }
    EXPECT_EQ(config, TrainConfig());
    TrainConfig autograd = *DefaultConfig("ngp-autograd");
    ASSERT_THAT(SetConfigField(key, "0.5", &autograd), IsOk());
    EXPECT_THAT(ValidateConfig(autograd), StatusIs(StatusCode::kInvalidArgument, key));
    for (const char* method : {"mlp", "dynamic", "voxels", "ngp-tiles"}) {
      TrainConfig other = *DefaultConfig(method);
      EXPECT_THAT(SetConfigField(key, "0.5", &other), StatusIs(StatusCode::kInvalidArgument, key))
          << method;
    }
  }
}

TEST(MethodDescriptionsTest, UnknownMethodsAreAnsweredWithThoseThatThereAre) {
  EXPECT_THAT(DefaultConfig("magic"), StatusIs(StatusCode::kInvalidArgument, "ngp, ngp-autograd"));
}

TEST(MethodDescriptionsTest, AStartMustBeTrainedAlike) {
  const MethodDescription& ngp = *FindMethodDescription("ngp");
  const TrainConfig same;
  EXPECT_THAT(ngp.CheckStart({same, 1}, {same, 1}), IsOk());
  EXPECT_THAT(ngp.CheckStart({*DefaultConfig("ngp-autograd"), 1}, {same, 1}), IsOk());
  EXPECT_THAT(ngp.CheckStart({same, 2}, {same, 1}),
              StatusIs(StatusCode::kInvalidArgument, "occupancy levels"));
  TrainConfig finer;
  Ngp(finer).finest_resolution = 2048;
  EXPECT_THAT(ngp.CheckStart({finer, 1}, {same, 1}),
              StatusIs(StatusCode::kInvalidArgument, "finest_resolution 2048"));
  TrainConfig denser;
  Ngp(denser).initial_density = 5;
  EXPECT_THAT(ngp.CheckStart({denser, 1}, {same, 1}),
              StatusIs(StatusCode::kInvalidArgument, "initial_density 5"));
}

TEST(MethodDescriptionsTest, SettingsReadBackToTheSameBits) {
  TrainConfig config;
  config.learning_rate = 1.0f / 3;
  config.epsilon = 1.17549435e-30f;
  config.grid_decay = std::nextafter(0.9f, 1.0f);
  config.loss = Loss::kMse;
  config.max_rays = 12345;
  TrainConfig read;
  for (const auto& [key, value] : ConfigSettings(config)) {
    ASSERT_THAT(SetConfigField(key, value, &read), IsOk()) << key;
  }
  EXPECT_EQ(read, config);
}

// Both sides of the ends of every field.
TEST(MethodDescriptionsTest, RangesAreInclusive) {
  for (const Setting& field : MethodDescriptionOf(TrainConfig()).settings()) {
    if (field.key == "loss" || field.kind == SettingKind::kText) continue;
    TrainConfig config;
    EXPECT_THAT(SetConfigField(field.key, fmt::format("{}", field.min), &config), IsOk())
        << field.key;
    EXPECT_THAT(SetConfigField(field.key, fmt::format("{}", field.max), &config), IsOk())
        << field.key;
    const TrainConfig before = config;
    const double below = field.min - std::max(1e-3 * std::abs(field.min), 1e-30);
    const double above = field.max + std::max(1e-3 * std::abs(field.max), 1.0);
    for (const double number : {std::floor(below), std::ceil(above), below, above}) {
      EXPECT_THAT(SetConfigField(field.key, fmt::format("{}", number), &config),
                  StatusIs(StatusCode::kInvalidArgument, std::string(field.key)))
          << field.key << " " << number;
    }
    EXPECT_EQ(config, before) << field.key;
  }
}

// Adam divides by sqrt(0) + epsilon wherever a gradient was zero.
TEST(MethodDescriptionsTest, EpsilonOfZeroIsRefused) {
  TrainConfig config;
  for (const char* zero : {"0", "0.0", "-0", "1e-31", "1e-400"}) {
    EXPECT_THAT(SetConfigField("epsilon", zero, &config),
                StatusIs(StatusCode::kInvalidArgument, "settings.epsilon"))
        << zero;
  }
  EXPECT_EQ(config, TrainConfig());
}

TEST(MethodDescriptionsTest, StepOfZeroIsRefusedAndNegativeOnesStandForTheScenes) {
  TrainConfig config;
  for (const char* zero : {"0", "-0", "0.0", "1e-60", "-1e-60"}) {
    EXPECT_THAT(SetConfigField("step", zero, &config),
                StatusIs(StatusCode::kInvalidArgument, "negative for the scene's own"))
        << zero;
  }
  EXPECT_EQ(config, TrainConfig());
  for (const char* key : {"near", "step", "cone"}) {
    EXPECT_THAT(SetConfigField(key, "-0.5", &config), IsOk()) << key;
  }
  for (const char* key : {"near", "cone"}) {
    EXPECT_THAT(SetConfigField(key, "0", &config), IsOk()) << key;
  }
  EXPECT_THAT(SetConfigField("step", "1e-6", &config), IsOk());
}

TEST(MethodDescriptionsTest, TextSettingsReadBackAndRefuseWhatTheyDoNotKnow) {
  struct Case {
    const char *key, *value;
    bool good;
  };
  for (const Case& c : {Case{"box", "1,-2.5,3e3,0.5", true},
                        {"box", "auto", true},
                        {"box", "1,2,3", false},
                        {"box", "1,2,3,0", false},
                        {"box", "1,2,3,nan", false},
                        {"box", "1,2,3,4,5", false},
                        {"boxes", "1", true},
                        {"boxes", "8", true},
                        {"boxes", "9", false},
                        {"boxes", "0", false},
                        {"boxes", "auto", true},
                        {"poses", "opencv", true},
                        {"poses", "w2c", true},
                        {"poses", "colmap", false},
                        {"poses", "", false},
                        {"apply_exif", "1", true},
                        {"apply_exif", "2", false},
                        {"up", "-y", true},
                        {"up", "w", false},
                        {"contraction", "linf", true},
                        {"contraction", "l2", true},
                        {"contraction", "none", true},
                        {"contraction", "l3", false},
                        {"learned_background", "1", true},
                        {"learned_background", "yes", false}}) {
    TrainConfig config = *DefaultConfig("ngp");
    const absl::Status set = SetConfigField(c.key, c.value, &config);
    EXPECT_EQ(set.ok(), c.good) << c.key << "=" << c.value << ": " << set;
    if (!c.good) {
      EXPECT_THAT(set, StatusIs(StatusCode::kInvalidArgument, c.key));
      continue;
    }
    TrainConfig again = *DefaultConfig("ngp");
    EXPECT_THAT(SetConfigField(c.key, ConfigSettings(config).at(c.key), &again), IsOk());
    EXPECT_EQ(again, config) << c.key;
  }
}

TEST(MethodDescriptionsTest, ABackgroundIsLearnedBehindOpaquePicturesAlone) {
  const MethodDescription& ngp = *FindMethodDescription("ngp");
  TrainConfig config = *DefaultConfig("ngp");
  EXPECT_THAT(ngp.CheckScene({.has_alpha = true}, config), IsOk());
  ASSERT_THAT(SetConfigField("learned_background", "1", &config), IsOk());
  EXPECT_THAT(ngp.CheckScene({.has_alpha = false}, config), IsOk());
  EXPECT_THAT(ngp.CheckScene({.has_alpha = true}, config),
              StatusIs(StatusCode::kInvalidArgument, "learned_background"));
}

TEST(MethodDescriptionsTest, WhatIsNoNumberIsRefused) {
  TrainConfig config;
  for (const char* key : {"learning_rate", "target_samples"}) {
    for (const char* value : {"", " ", "x", "1x", "nan", "inf", "-inf", "1e999", "0x10", "1,5"}) {
      EXPECT_THAT(SetConfigField(key, value, &config), StatusIs(StatusCode::kInvalidArgument, key))
          << key << " " << value;
    }
  }
  EXPECT_THAT(SetConfigField("target_samples", "512.5", &config),
              StatusIs(StatusCode::kInvalidArgument, "whole number"));
  EXPECT_THAT(SetConfigField("grid_resolution", "96", &config),
              StatusIs(StatusCode::kInvalidArgument, "power of two"));
  EXPECT_THAT(SetConfigField("loss", "l1", &config),
              StatusIs(StatusCode::kInvalidArgument, "huber, mse"));
  EXPECT_EQ(config, TrainConfig());
}

TEST(MethodDescriptionsTest, WholeNumbersMayBeWrittenShort) {
  TrainConfig config;
  for (const auto& [text, number] : {std::pair{"1e6", 1'000'000},
                                     {"1M", 1'000'000},
                                     {"0.5M", 500'000},
                                     {"1.5k", 1500},
                                     {"1.001k", 1001},
                                     {"65536.0", 65536},
                                     {"+64", 64}}) {
    EXPECT_THAT(SetConfigField("max_rays", text, &config), IsOk()) << text;
    EXPECT_EQ(config.max_rays, number) << text;
  }
  EXPECT_THAT(SetConfigField("target_samples", "4.1M", &config), IsOk());
  EXPECT_EQ(config.target_samples, 4'100'000);
  config = TrainConfig();
  for (const char* text : {"1.5", "0.0000005M", "1e-3", "M", "1m", "1MM", "1e6k", "kM", "99G"}) {
    EXPECT_THAT(SetConfigField("max_rays", text, &config), StatusIs(StatusCode::kInvalidArgument))
        << text;
  }
  EXPECT_EQ(config, TrainConfig());
}

TEST(MethodDescriptionsTest, UnknownKeyNamesTheNearestWhereOneIsNear) {
  TrainConfig config;
  EXPECT_THAT(SetConfigField("learning_rat", "1", &config),
              StatusIs(StatusCode::kInvalidArgument, "did you mean learning_rate?"));
  const absl::Status far = SetConfigField("color_of_sky", "1", &config);
  EXPECT_EQ(far.message(), "settings.color_of_sky: no such setting");
}

TEST(MethodDescriptionsTest, BudgetsAndSplitsThatMeanNothingAreRefused) {
  const auto with_budget = [](BudgetKind kind, double amount) {
    TrainConfig config;
    config.budget = {kind, amount};
    return ValidateConfig(config);
  };
  for (const double amount : {0.0, -1.0, 1.5, 5e9, std::nan(""), double{INFINITY}}) {
    EXPECT_THAT(with_budget(BudgetKind::kSteps, amount),
                StatusIs(StatusCode::kInvalidArgument, "steps"))
        << amount;
  }
  EXPECT_THAT(with_budget(BudgetKind::kSeconds, 1.5), IsOk());
  EXPECT_THAT(with_budget(BudgetKind::kSamples, 1e16), StatusIs(StatusCode::kInvalidArgument));
  for (const int every : {-1, 1, 1'000'001}) {
    TrainConfig config;
    config.test_every = every;
    EXPECT_THAT(ValidateConfig(config), StatusIs(StatusCode::kInvalidArgument, "test_every"));
  }
  TrainConfig config;
  config.method = "magic";
  EXPECT_THAT(ValidateConfig(config), StatusIs(StatusCode::kInvalidArgument, "ngp-autograd"));
}

TEST(MethodDescriptionsTest, SettingsOfTheOtherSamplerAreRefused) {
  struct Case {
    const char *method, *coarse_samples, *key, *value, *reason;
  };
  for (const Case& wrong : {Case{"ngp", "", "field_samples", "16", "sampler=grid"},
                            {"ngp", "", "spacing", "uniform", "sampler=grid"},
                            {"mlp", "0", "far", "6", "coarse_samples=0"},
                            {"mlp", "0", "fine_samples", "64", "coarse_samples=0"},
                            {"mlp", "64", "grid_resolution", "64", "training with coarse_samples"},
                            {"mlp", "64", "step", "0.01", "training with coarse_samples"}}) {
    TrainConfig config = *DefaultConfig(wrong.method);
    if (*wrong.coarse_samples != 0) {
      ASSERT_THAT(SetConfigField("coarse_samples", wrong.coarse_samples, &config), IsOk());
    }
    EXPECT_THAT(ValidateConfig(config), IsOk());
    ASSERT_THAT(SetConfigField(wrong.key, wrong.value, &config), IsOk()) << wrong.key;
    EXPECT_THAT(ValidateConfig(config), StatusIs(StatusCode::kInvalidArgument, wrong.reason));
    EXPECT_THAT(ValidateConfig(config), StatusIs(StatusCode::kInvalidArgument, wrong.key));
  }
}

TEST(MethodDescriptionsTest, ProposalsRefuseWhatOnlyTheMarchHas) {
  const MethodDescription& ngp = MethodDescriptionOf(TrainConfig());
  TrainConfig config;
  ASSERT_THAT(SetConfigField("sampler", "proposals", &config), IsOk());
  EXPECT_THAT(ValidateConfig(config), IsOk());
  EXPECT_THAT(ngp.CheckRanks(config, kOnCpu, 2),
              StatusIs(StatusCode::kInvalidArgument, "settings.sampler"));
  EXPECT_THAT(CheckDeviceHonors(config, "cuda:0"), IsOk());
  TrainConfig of_file = config;  // which names what "auto" is
  of_file.grid_resolution = kGridResolution;
  Ngp(of_file).exposure_rate = Ngp(of_file).roulette_weight = 0;
  EXPECT_THAT(ValidateConfig(of_file), IsOk());
  for (const auto& [key, value] : {std::pair{"exposure_rate", "0.1"},
                                   {"appearance_rate", "0.1"},
                                   {"pose_rate", "0.1"},
                                   {"focal_rate", "0.1"},
                                   {"depth_weight", "1"},
                                   {"error_share", "0.5"},
                                   {"near_gradients", "1"},
                                   {"rays_per_pixel", "4"},
                                   {"frozen", "mlp"},
                                   {"grid_resolution", "64"},
                                   {"alpha_threshold", "0.1"}}) {
    TrainConfig with = config;
    ASSERT_THAT(SetConfigField(key, value, &with), IsOk()) << key;
    EXPECT_THAT(ValidateConfig(with),
                StatusIs(StatusCode::kInvalidArgument, "sampler=proposals does not honor it"))
        << key;
  }
  EXPECT_THAT(SetConfigField("sampler", "nonsense", &config),
              StatusIs(StatusCode::kInvalidArgument, "grid and proposals"));
  EXPECT_THAT(SetConfigField("spacing", "log", &config),
              StatusIs(StatusCode::kInvalidArgument, "disparity"));
}

TEST(MethodDescriptionsTest, ProposalTensorsFollowTheField) {
  TrainConfig config;
  const size_t n_of_grid = FieldTensorShapes(config).size();
  ASSERT_THAT(SetConfigField("sampler", "proposals", &config), IsOk());
  const std::vector<TensorShape> tensors = FieldTensorShapes(config);
  ASSERT_EQ(tensors.size(), 2 * n_of_grid);
  EXPECT_EQ(tensors[n_of_grid].name, "proposal.field.hash_table");
  EXPECT_EQ(tensors[n_of_grid].shape, (std::vector<uint32_t>{8, 1 << 15, 4}));
}

}  // namespace
}  // namespace nerf
