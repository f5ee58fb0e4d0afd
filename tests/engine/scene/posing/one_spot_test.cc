#include "engine/scene/posing/photographs/one_spot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

// The homography of a camera of this focal length that turns by (about y, about x) radians and
// moves by `path` times the distance of a wall.
TurnedPair Pair(double focal, double y, double x, double path, double known_focal) {
  const double cy = std::cos(y), sy = std::sin(y), cx = std::cos(x), sx = std::sin(x);
  double r[3][3] = {{cy, 0, sy}, {sx * sy, cx, -sx * cy}, {-cx * sy, sx, cx * cy}};
  for (int i = 0; i < 3; ++i) r[i][2] += i == 0 ? path : 0;  // t n^T / d, with n along z
  const double k[3][3] = {{focal, 0, 500}, {0, focal, 400}, {0, 0, 1}};
  const double inverse[3][3] = {
      {1 / focal, 0, -500 / focal}, {0, 1 / focal, -400 / focal}, {0, 0, 1}};
  TurnedPair pair;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      double sum = 0;
      for (int a = 0; a < 3; ++a) {
        for (int b = 0; b < 3; ++b) sum += k[i][a] * r[a][b] * inverse[b][j];
      }
      pair.homography[3 * i + j] = -7 * sum;  // of any scale and sign
    }
  }
  pair.first = pair.second = {known_focal, 500, 400};
  return pair;
}

TEST(ParallaxLeftTest, TurnsLeaveNoneWhateverFocalLengthWasGuessed) {
  for (const double guess : {900.0, 1000.0, 1600.0}) {
    std::vector<TurnedPair> pairs;
    for (int i = 1; i < 9; ++i) pairs.push_back(Pair(1000, 0.05 * i, 0.03 * (i % 3), 0, guess));
    EXPECT_LT(ParallaxLeft(pairs, /*focal_lengths_known=*/false), 0.01) << guess;
  }
}

TEST(ParallaxLeftTest, StepsBeforeAWallLeaveTheirLength) {
  std::vector<TurnedPair> pairs;
  for (int i = 1; i < 9; ++i) pairs.push_back(Pair(1000, 0.05 * i, 0.02, 0.1 * i, 1000));
  EXPECT_GT(ParallaxLeft(pairs, /*focal_lengths_known=*/true), 0.3);
  EXPECT_GT(ParallaxLeft(pairs, /*focal_lengths_known=*/false), 0.05);
  pairs.assign(3, Pair(1000, 0, 0, 0.1, 1000));
  EXPECT_NEAR(ParallaxLeft(pairs, /*focal_lengths_known=*/true), 0.1, 0.01);
}

TEST(IsOneSpotTest, FilesThatAreNoDatabaseSayNothing) {
  TempDir dir;
  EXPECT_FALSE(IsOneSpot(dir / "none"));
  dir.Write("text", "no database, but a text");
  EXPECT_FALSE(IsOneSpot(dir / "text"));
}

}  // namespace
}  // namespace nerf
