#include "common/files/places.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace nerf {
namespace {

// Variables are put back, so that no other test sees them.
class PlacesTest : public testing::Test {
 protected:
  void Set(const char* name, const char* value) {
    if (value == nullptr) {
      unsetenv(name);
    } else {
      setenv(name, value, 1);
    }
  }
  ~PlacesTest() override {
    Set("HOME", home_.empty() ? nullptr : home_.c_str());
    Set("XDG_DATA_HOME", data_.empty() ? nullptr : data_.c_str());
    Set("XDG_CACHE_HOME", cache_.empty() ? nullptr : cache_.c_str());
  }
  static std::string Get(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  }
  const std::string home_ = Get("HOME"), data_ = Get("XDG_DATA_HOME"),
                    cache_ = Get("XDG_CACHE_HOME");
};

TEST_F(PlacesTest, XdgVariablesComeBeforeTheHomeFolder) {
  Set("HOME", "/home/ada");
  Set("XDG_DATA_HOME", "/data");
  Set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(DefaultDataDir(), "/data/nerfd");
  EXPECT_EQ(DefaultCacheDir(), "/cache/nerf-worker");
  Set("XDG_DATA_HOME", "relative");
  Set("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(DefaultDataDir(), "/home/ada/.local/share/nerfd");
  EXPECT_EQ(DefaultCacheDir(), "/home/ada/.cache/nerf-worker");
  Set("HOME", "");
  EXPECT_EQ(DefaultDataDir(), "/var/tmp/.local/share/nerfd");
  EXPECT_EQ(DefaultCacheDir(), "/var/tmp/.cache/nerf-worker");
}

TEST_F(PlacesTest, ProgramsLieBesideTheRunningOne) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(ProgramBesideThis(std::filesystem::path(self).filename().string()), self);
}

}  // namespace
}  // namespace nerf
