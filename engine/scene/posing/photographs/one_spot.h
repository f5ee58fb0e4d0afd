#pragma once

#include <array>
#include <string>
#include <vector>

namespace nerf {

// Two photographs whose matches agree on a homography, and on nothing more than that: the camera
// only turned between them, or what they show is flat.
struct TurnedPair {
  std::array<double, 9> homography{};  // row-major; pixels of the first to pixels of the second
  // Focal length, as far as it is known, and principal point of each, in pixels.
  std::array<double, 3> first{}, second{};
};

// The parallax that is left when the camera's turn is taken away, as the ratio of its path to the
// distance of what it shows: the median over pairs. 0 for a camera that only turned. By H = R + t
// n^T / d: the singular values of a rotation are all 1. Focal lengths that are no more than guesses
// may all be wrong by one factor: the one that leaves the least is taken. Requires: a pair.
double ParallaxLeft(const std::vector<TurnedPair>& pairs, bool focal_lengths_known);

// Whether the photographs of a database of COLMAP were all taken from one spot, so that no depth
// can be found: nearly all of its verified pairs are TurnedPairs, and leave no parallax. False
// where that is not known: few pairs, or a database that does not say.
bool IsOneSpot(const std::string& database);

}  // namespace nerf
