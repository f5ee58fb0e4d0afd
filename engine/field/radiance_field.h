#pragma once

#include <memory>

#include "engine/base/vec3.h"

namespace nerf {

// A learned scene: density and color of points in the training frame. Implementations are
// immutable while they are read; each thread brings its own Workspace, so calls from several
// threads are safe.
class RadianceField {
 public:
  // Scratch memory of one thread for batches of up to max_samples.
  class Workspace {
   public:
    virtual ~Workspace() = default;
  };

  virtual ~RadianceField() = default;
  virtual std::unique_ptr<Workspace> NewWorkspace(int max_samples) const = 0;

  // The time of the view that the following calls belong to, 0 to 1.
  virtual void SetTime(float /*time*/, Workspace* /*workspace*/) const {}

  // sigmas[i] = density at positions[i], in 1 / training unit. Outside of the field's box it is 0.
  virtual void Density(int n, const Vec3* positions, float* sigmas, Workspace* workspace) const = 0;

  // sRGB color in [0, 1] of n of the points of the workspace's last call of Density: samples[i] is
  // an index into its positions, seen along directions[i] (unit length).
  virtual void Color(int n, const int* samples, const Vec3* directions, Vec3* colors,
                     Workspace* workspace) const = 0;

  // Whether the field knows what lies behind everything, by direction; else views are composited on
  // a background of their own. Background: sRGB colors seen along n directions of unit length, at
  // most max_samples; the workspace's last call of Density is forgotten.
  virtual bool HasBackground() const { return false; }
  virtual void Background(int n, const Vec3* directions, Vec3* colors, Workspace* workspace) const {
  }
};

}  // namespace nerf
