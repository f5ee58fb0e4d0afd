#include "engine/program/exports/splat_export.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/counted.h"
#include "common/status_macros.h"
#include "engine/base/messages/export_options.h"
#include "engine/export/files/glb_file.h"
#include "engine/export/files/ply_file.h"
#include "engine/export/splats/model_splats.h"
#include "engine/export/splats/sog_file.h"
#include "engine/export/splats/spz_file.h"
#include "engine/field/parameters/lens_scales.h"
#include "engine/program/written_views/compared_scene.h"
#include "engine/program/written_views/view_style.h"
#include "engine/scene/scene.h"
#include "fmt/format.h"

namespace nerf {
namespace {

// SPZ and GLB have y up by their definition, as ExportAxes has it for a GLB. Programs that read SOG
// turn it half around, as they turn the PLY of 3D Gaussian splatting: it has y down for them.
ExportAxes AxesOfSplats(AxesName name, SplatFile kind, const SceneGeometry& geometry) {
  const bool is_turned = kind == SplatFile::kSog && name != AxesName::kDataset;
  return {is_turned ? AxesName::kOpenCv : name, kind == SplatFile::kSpz || kind == SplatFile::kGlb,
          geometry};
}

// The photographs of a data set that the model was trained on.
struct ModelPhotographs {
  Scene scene;                           // owns the pictures
  std::vector<const ImageU8*> of_views;  // of TrainState::capture, null where there is none
  std::vector<View> test;                // with the model's cameras
};

// Those of the time that is exported. Errors: those of LoadComparedScene; InvalidArgument where it
// has none of them.
absl::StatusOr<ModelPhotographs> PhotographsIn(const ModelFile& model, const ExportRequest& request,
                                               ThreadPool* pool) {
  ModelPhotographs photographs;
  NERF_ASSIGN_OR_RETURN(
      photographs.scene,
      LoadComparedScene(request.dataset, ComparedOptions(model.state.config, pool), model.state,
                        "train"));
  const auto by_file = [&](std::vector<View>& views) {
    std::map<std::string_view, View*> found;
    for (View& view : views) {
      if (view.camera.time == request.time) found[view.file] = &view;
    }
    return found;
  };
  const auto train = by_file(photographs.scene.train);
  for (const CaptureView& view : model.state.capture) {
    const auto found = train.find(view.file);
    photographs.of_views.push_back(found == train.end() ? nullptr : &found->second->image);
  }
  if (std::ranges::all_of(photographs.of_views, [](const ImageU8* view) { return !view; })) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has none of the photographs that the model was trained on", request.dataset));
  }
  const auto test = by_file(photographs.scene.test);
  for (const CaptureView& view : model.state.test_capture) {
    const auto found = test.find(view.file);
    if (found == test.end()) continue;
    photographs.test.push_back(
        {view.file, WithFoundFocal(model.lenses, view.camera), std::move(found->second->image)});
  }
  return photographs;
}

// What splats were fitted to and how they look.
std::string SplatWords(const ModelSplats& made) {
  std::string words =
      fmt::format("{}, fitted to {} of the model", Counted(made.cloud.size(), "splat"),
                  Counted(made.n_views - made.n_photographs, "view"));
  if (made.n_photographs > 0)
    words += fmt::format(" and {}", Counted(made.n_photographs, "photograph"));
  if (made.psnr > 0) words += fmt::format("; {:.1f} dB against its views between those", made.psnr);
  if (made.n_test > 0) {
    words += fmt::format(", {:.1f} dB against {} (the model: {:.1f} dB)", made.test_psnr,
                         Counted(made.n_test, "test photograph"), made.model_test_psnr);
  }
  return words;
}

}  // namespace

absl::StatusOr<ExportedFile> MakeSplatFile(const ModelFile& model, const ExportRequest& request,
                                           ThreadPool* pool, const std::stop_token& stop,
                                           const ExportProgress& progress) {
  const SceneGeometry& geometry = model.state.geometry;
  ModelSplatsOptions options;
  options.max_splats = request.spec.max_splats();
  options.degree = kSplatDegree;
  options.near = geometry.near;
  // Photographs without alpha: what is black may have been left open.
  const bool is_opaque = (model.state.config.background == Background::kAuto ||
                          model.state.config.background == Background::kRandom) &&
                         model.state.evaluation_background == Background::kBlack;
  options.has_backdrop = is_opaque && !request.own_box.has_value();
  ModelPhotographs photographs;
  if (!request.dataset.empty()) {
    NERF_ASSIGN_OR_RETURN(photographs, PhotographsIn(model, request, pool));
    options.photographs = photographs.of_views;
    options.test = photographs.test;
    options.alpha_is_mask = photographs.scene.alpha_is_mask;
  }
  ViewStyle style;
  style.background = Vec3{};
  style.crop = request.own_box;
  options.render = [&](const Camera& camera) { return OptionsOf(model.state, style, {}, camera); };
  std::vector<Camera> cameras = CamerasOfViews(model, request.time);
  for (Camera& camera : cameras) camera = WithFoundFocal(model.lenses, camera);
  NERF_ASSIGN_OR_RETURN(const ModelSplats made,
                        MakeModelSplats(*model.model, cameras, options, pool, stop, progress));
  progress("file", 0);
  const SplatFile kind = SplatFileOf(request.spec.format());
  const ExportAxes axes = AxesOfSplats(request.axes, kind, geometry);
  ExportedFile file;
  std::string_view place;  // of the origin
  switch (kind) {
    case SplatFile::kPly:
      file.bytes = SplatsPly(made.cloud, axes);
      place = "as the header says";
      break;
    case SplatFile::kSpz: {
      NERF_ASSIGN_OR_RETURN(file.bytes, SplatsSpz(made.cloud, axes, pool));
      place = "as a record of the header says";
      break;
    }
    case SplatFile::kSog: {
      NERF_ASSIGN_OR_RETURN(file.bytes, SplatsSog(made.cloud, axes, pool));
      place = "as its meta.json says";
      break;
    }
    case SplatFile::kGlb:
      file.bytes = SplatsGlb(made.cloud, axes);
      place = "the node's translation";
      break;
  }
  file.n_vertices = made.cloud.size();
  file.axes = axes.words();
  file.words = SplatWords(made);
  file.words += OriginWords(axes, place);
  return file;
}

}  // namespace nerf
