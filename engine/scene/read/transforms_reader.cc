#include "engine/scene/read/transforms_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "engine/scene/read/listed_names.h"
#include "engine/scene/read/transforms_json.h"

namespace nerf {
namespace {

using Json = nlohmann::json;

constexpr const char* kTrainFile = "transforms_train.json";
constexpr const char* kValFile = "transforms_val.json";
constexpr const char* kTestFile = "transforms_test.json";
constexpr const char* kSingleFile = "transforms.json";
constexpr int kMaxAabbScale = 128;
// nerfstudio's, else instant-ngp's.
constexpr const char* kDepthKeys[] = {"depth_file_path", "depth_path"};
// A rotation scaled by more than this causes a warning.
constexpr double kMaxSilentScale = 1e-3;

// Reads one transforms file into a ListedViews.
class TransformsFile {
 public:
  TransformsFile(const SceneFolder& folder, const char* name, ViewSplit split, ListedViews* listed,
                 Problems* problems)
      : folder_(folder), split_(split), listed_(*listed), out_{name, problems} {}

  // is_first: this file determines flavor and placement.
  void Read(bool is_first) {
    absl::StatusOr<std::string> text = ReadRegularFile(folder_.PathOf(out_.file), kMaxJsonBytes);
    if (!text.ok()) {
      out_.Add("", std::string(text.status().message()));
      return;
    }
    const std::optional<Json> root = ParseJsonObject(*text, out_, &listed_.warnings);
    if (!root) return;
    const Json* frames = FindFrames(*root, out_);
    const SceneFlavor flavor = FlavorOf(*root, frames);
    if (is_first) {
      listed_.flavor = flavor;
      if (flavor == SceneFlavor::kInstantNgp) ReadPlacement(*root);
    } else if (flavor != listed_.flavor) {
      listed_.warnings.push_back(absl::StrCat(out_.file, " looks like ", SceneFlavorName(flavor),
                                              "; placed like the training views, as ",
                                              SceneFlavorName(listed_.flavor)));
    }
    const Intrinsics shared = ReadIntrinsics(*root, Intrinsics(), "", out_);
    ReadDepthUnit(*root);
    if (frames == nullptr) return;
    pictures_ = FindNamed(*frames, "file_path", NamedFiles::kPictures, "pictures");
    listed_.is_reduced = listed_.is_reduced || pictures_.found.is_reduced;
    masks_ = FindNamed(*frames, "mask_path", NamedFiles::kCompanions, "masks");
    for (const char* key : kDepthKeys)
      depths_[key] = FindNamed(*frames, key, NamedFiles::kCompanions, "depths");
    for (size_t i = 0; i < frames->size(); ++i) ReadFrame((*frames)[i], i, shared);
    ReadFilenameSplits(*root);
    WarnOfIgnored(*root);
  }

 private:
  static SceneFlavor FlavorOf(const Json& root, const Json* frames) {
    for (const char* key : {"aabb_scale", "scale", "offset", "aabb"}) {
      if (root.contains(key)) return SceneFlavor::kInstantNgp;
    }
    if (root.contains("camera_model") || HasFullIntrinsics(root)) return SceneFlavor::kNerfstudio;
    if (frames != nullptr) {
      for (const Json& frame : *frames) {
        if (frame.is_object() && HasFullIntrinsics(frame)) return SceneFlavor::kNerfstudio;
      }
    }
    return SceneFlavor::kBlender;
  }

  // Reads an array of 3 numbers; adds a problem of the field if it is not one.
  bool ReadVector(const Json& values, std::string_view field, Vec3d* vector) {
    bool is_good = values.is_array() && values.size() == 3;
    for (size_t i = 0; is_good && i < 3; ++i) {
      const std::optional<double> number = NumberOf(values[i]);
      is_good = number && std::abs(*number) <= 1e9;
      if (is_good) (*vector)[i] = *number;
    }
    if (!is_good) out_.Add(field, "must be 3 numbers");
    return is_good;
  }

  void ReadPlacement(const Json& root) {
    bool is_broken = false;
    for (const char* key : {"scale", "offset", "aabb"})
      listed_.has_ngp_box = listed_.has_ngp_box || root.contains(key);
    if (const auto scale = ReadNumber(root, "scale", "", out_, &is_broken)) {
      listed_.ngp_scale = *scale;
      if (!(*scale > 1e-9 && *scale < 1e9)) {
        out_.Add("scale", absl::StrFormat("%g must be greater than 0 and below 1e9", *scale));
        listed_.ngp_scale = 1;
      }
    }
    if (const auto offset = root.find("offset"); offset != root.end()) {
      // One number stands for all three.
      ReadVector(offset->is_number() ? Json{*offset, *offset, *offset} : *offset, "offset",
                 &listed_.ngp_offset);
    }
    if (const auto aabb = root.find("aabb"); aabb != root.end()) ReadAabb(*aabb);
    if (const auto aabb_scale = ReadNumber(root, "aabb_scale", "", out_, &is_broken)) {
      const bool is_integer = *aabb_scale >= 1 && *aabb_scale <= kMaxAabbScale &&
                              *aabb_scale == std::floor(*aabb_scale);
      const int value = is_integer ? static_cast<int>(*aabb_scale) : 0;
      if (value == 0 || (value & (value - 1)) != 0) {
        out_.Add("aabb_scale", absl::StrFormat("%g must be a power of two from 1 to %d",
                                               *aabb_scale, kMaxAabbScale));
      } else {
        listed_.aabb_scale = value;
      }
    }
    const auto mitsuba = root.find("from_mitsuba");
    if (mitsuba != root.end() && *mitsuba != Json(false)) {
      out_.Add("from_mitsuba", "Mitsuba's camera frame is not supported");
    }
  }

  // Sets scale and offset so that the box's longest side fits the unit cube.
  void ReadAabb(const Json& aabb) {
    Vec3d low, high;
    if (!aabb.is_array() || aabb.size() != 2) {
      out_.Add("aabb", "must be 2 corners of 3 numbers");
      return;
    }
    if (!ReadVector(aabb[0], "aabb", &low) || !ReadVector(aabb[1], "aabb", &high)) return;
    double length = 0;
    for (int i = 0; i < 3; ++i) length = std::max(length, std::abs(high[i] - low[i]));
    if (length < 1e-6) {
      out_.Add("aabb", "the box is empty");
      return;
    }
    listed_.ngp_scale = 1 / length;
    for (int i = 0; i < 3; ++i) {
      listed_.ngp_offset[i] = 0.5 - 0.5 * (low[i] + high[i]) * listed_.ngp_scale;
    }
  }

  // The files that the frames name in one field.
  struct NamedColumn {
    std::map<size_t, size_t> of_frame;      // index in `found` of the name in a frame
    std::map<std::string, size_t> of_name;  // likewise of a name
    FoundFiles found;

    // Requires: the frame names a file.
    const absl::StatusOr<std::string>& FileOf(size_t frame) const {
      return found.files[of_frame.at(frame)];
    }
  };

  NamedColumn FindNamed(const Json& frames, const char* key, NamedFiles kind,
                        std::string_view what) {
    NamedColumn column;
    std::vector<size_t> frame_of;
    std::vector<std::string> names;
    for (size_t i = 0; i < frames.size(); ++i) {
      if (!frames[i].is_object()) continue;
      const auto name = frames[i].find(key);
      if (name == frames[i].end() || !name->is_string()) continue;
      column.of_frame[i] = names.size();
      column.of_name.emplace(name->get<std::string>(), names.size());
      frame_of.push_back(i);
      names.push_back(name->get<std::string>());
    }
    column.found = FindListedNames(folder_, names, kind);
    if (std::string warning = OtherNamesWarning(column.found, what); !warning.empty())
      listed_.warnings.push_back(absl::StrCat(out_.file, ": ", warning));
    if (!column.found.conflict.empty()) {
      const size_t frame = frame_of[column.found.first_conflict];
      out_.Add(absl::StrCat("frames[", frame, "].", key), column.found.conflict);
    }
    return column;
  }

  void ReadFrame(const Json& frame, size_t index, const Intrinsics& shared) {
    const std::string field = absl::StrCat("frames[", index, "]");
    ++listed_.n_listed;
    if (!frame.is_object()) {
      out_.Add(field, absl::StrCat("must be an object, is ", frame.type_name()));
      return;
    }
    const std::string prefix = field + ".";
    ListedView view;
    view.list_file = out_.file;
    view.field = field;
    view.split = split_;
    view.intrinsics = ReadIntrinsics(frame, shared, prefix, out_);
    double uniform_scale = 1;
    const std::optional<Pose> pose = ReadPose(frame, prefix, out_, &uniform_scale);
    if (pose && std::abs(uniform_scale - 1) > kMaxSilentScale) {
      if (n_scaled_++ == 0) first_scale_ = uniform_scale;
    }

    const auto path = frame.find("file_path");
    if (path == frame.end() || !path->is_string()) {
      out_.Add(prefix + "file_path", path == frame.end()
                                         ? "is missing: the image, relative to the folder"
                                         : absl::StrCat("must be a text, is ", path->type_name()));
      return;
    }
    const auto& name = path->get_ref<const std::string&>();
    const absl::StatusOr<std::string>& file = pictures_.FileOf(index);
    if (absl::IsFailedPrecondition(file.status())) return;  // said for all of them at once
    if (absl::IsNotFound(file.status())) {
      if (listed_.n_missing++ == 0) listed_.first_missing = name;
      return;
    }
    if (!file.ok()) {
      out_.Add(prefix + "file_path", std::string(file.status().message()));
      return;
    }
    const std::optional<float> time = ReadTime(frame, prefix, out_);
    ReadMask(frame, index, prefix, &view);
    ReadDepth(frame, index, prefix, &view);
    view.time = time.value_or(0);
    view.file = *file;
    if (pose) view.pose = *pose;
    AddOnce(std::move(view), field, pose && time);
  }

  // Adds a view that is_good, unless its picture is listed already.
  void AddOnce(ListedView view, const std::string& field, bool is_good) {
    const auto [first, is_new] =
        seen_.emplace(view.file, Listed{field, is_good ? listed_.views.size() : SIZE_MAX});
    if (!is_new) {
      const size_t at = first->second.view;
      if (at != SIZE_MAX && is_good && IsSameView(view, listed_.views[at])) {
        --listed_.n_listed;
        if (n_repeated_++ == 0) first_repeated_ = field;
        return;
      }
      out_.Add(field + ".file_path",
               absl::StrCat(Printable(view.file), " is listed twice, first in ",
                            first->second.field, ", with another pose or camera"));
      return;
    }
    if (is_good) listed_.views.push_back(std::move(view));
  }

  // The file that a frame names in a field of the column; empty after adding a problem.
  std::string Companion(const Json& name, size_t index, const NamedColumn& column,
                        const std::string& field) {
    if (!name.is_string()) {
      out_.Add(field, absl::StrCat("must be a text, is ", name.type_name()));
      return "";
    }
    const absl::StatusOr<std::string>& file = column.FileOf(index);
    if (!file.ok() && !absl::IsFailedPrecondition(file.status()))
      out_.Add(field, std::string(file.status().message()));
    return file.value_or("");
  }

  void ReadMask(const Json& frame, size_t index, const std::string& prefix, ListedView* view) {
    const auto mask = frame.find("mask_path");
    if (mask != frame.end())
      view->mask_file = Companion(*mask, index, masks_, prefix + "mask_path");
  }

  void ReadDepth(const Json& frame, size_t index, const std::string& prefix, ListedView* view) {
    for (const char* key : kDepthKeys) {
      const auto path = frame.find(key);
      if (path == frame.end()) continue;
      std::string file = Companion(*path, index, depths_[key], prefix + key);
      if (!file.empty()) view->depth = {std::move(file), depth_unit_, out_.file, prefix + key};
      return;
    }
  }

  // Own units of a depth of 1: nerfstudio's depth_unit_scale_factor, else instant-ngp's
  // integer_depth_scale, else a millimeter where the unit is a meter.
  void ReadDepthUnit(const Json& root) {
    constexpr double kMinUnit = 1e-9, kMaxUnit = 1e6;
    bool is_broken = false;
    for (const char* key : {"depth_unit_scale_factor", "integer_depth_scale"}) {
      const std::optional<double> unit = ReadNumber(root, key, "", out_, &is_broken);
      if (is_broken) return;
      if (!unit) continue;
      if (!(*unit >= kMinUnit && *unit <= kMaxUnit)) {
        out_.Add(key, absl::StrFormat("%g must be between 1e-9 and 1e6", *unit));
        return;
      }
      depth_unit_ = *unit;
      return;
    }
  }

  // nerfstudio's train_filenames, val_filenames, test_filenames.
  void ReadFilenameSplits(const Json& root) {
    std::set<std::string> train, val, test;
    const bool has_train = ReadNames(root, "train_filenames", &train);
    const bool has_val = ReadNames(root, "val_filenames", &val);
    const bool has_test = ReadNames(root, "test_filenames", &test);
    if (split_ != ViewSplit::kUndecided || !(has_train || has_val || has_test)) return;
    const std::set<std::string>& held_out = has_test ? test : val;
    const bool has_held_out = has_test || has_val;
    for (ListedView& view : listed_.views) {
      if (held_out.contains(view.file)) {
        view.split = ViewSplit::kTest;
      } else if (train.contains(view.file)) {
        view.split = ViewSplit::kTrain;
      } else if (!has_train && !val.contains(view.file)) {
        view.split = ViewSplit::kTrain;
      } else {
        view.split = has_held_out ? ViewSplit::kUnused : ViewSplit::kTest;
      }
    }
    for (const char* key : {"train_filenames", "val_filenames", "test_filenames"}) {
      if (!root.contains(key)) continue;
      absl::StrAppend(&listed_.given_split, listed_.given_split.empty() ? "" : ", ", key);
    }
  }

  bool ReadNames(const Json& root, const char* key, std::set<std::string>* names) {
    const auto list = root.find(key);
    if (list == root.end()) return false;
    bool is_good = list->is_array();
    for (size_t i = 0; is_good && i < list->size(); ++i) {
      is_good = (*list)[i].is_string();
      if (!is_good) break;
      const auto& name = (*list)[i].get_ref<const std::string&>();
      const auto listed = pictures_.of_name.find(name);
      const absl::StatusOr<std::string> file = listed == pictures_.of_name.end()
                                                   ? folder_.FindImage(name)
                                                   : pictures_.found.files[listed->second];
      if (file.ok()) names->insert(*file);
    }
    if (!is_good) out_.Add(key, "must be a list of file names");
    return is_good;
  }

  void WarnOfIgnored(const Json& root) {
    if (n_repeated_ > 0) {
      listed_.warnings.push_back(absl::StrCat(
          out_.file, ": left out ", Counted(static_cast<size_t>(n_repeated_), "repetition"),
          " of frames that are listed already, e.g. ", first_repeated_));
    }
    if (n_scaled_ > 0) {
      listed_.warnings.push_back(
          absl::StrFormat("%s: %d matrices have a scale in their rotation (the first %g); it was "
                          "removed",
                          out_.file, n_scaled_, first_scale_));
    }
    const Json& frames = root["frames"];
    const auto has_time = [](const Json& frame) {
      return frame.is_object() && frame.contains("time");
    };
    if (std::any_of(frames.begin(), frames.end(), has_time)) {
      listed_.warnings.push_back(absl::StrCat(
          out_.file,
          ": frames have a time, which only the methods dynamic, t-nerf and d-nerf use; to "
          "the others nothing moves"));
    }
    const auto shutter = root.find("rolling_shutter");
    if (shutter != root.end()) {
      listed_.warnings.push_back(absl::StrCat(out_.file, ": rolling_shutter is ignored"));
    }
    const auto orientation = root.find("orientation_override");
    if (orientation != root.end() && *orientation != Json("up")) {
      listed_.warnings.push_back(
          absl::StrCat(out_.file,
                       ": orientation_override is ignored; the mean up vector of the "
                       "cameras is used"));
    }
  }

  const SceneFolder& folder_;
  const ViewSplit split_;
  ListedViews& listed_;
  const JsonProblems out_;
  // Where a picture was listed first: the frame, and the index of its view (SIZE_MAX: none).
  struct Listed {
    std::string field;
    size_t view;
  };
  std::map<std::string, Listed> seen_;  // by picture
  NamedColumn pictures_, masks_;
  std::map<std::string_view, NamedColumn> depths_;  // by key
  int n_repeated_ = 0;
  std::string first_repeated_;
  double depth_unit_ = 1e-3;
  int n_scaled_ = 0;
  double first_scale_ = 1;
};

}  // namespace

bool HasTransforms(const SceneFolder& folder) {
  // A link that leaves the folder counts too, so that it is reported instead of ignored.
  for (const char* name : {kTrainFile, kValFile, kTestFile, kSingleFile}) {
    if (!absl::IsNotFound(folder.FindFile(name).status())) return true;
  }
  return false;
}

ListedViews ReadTransforms(const SceneFolder& folder, Problems* problems) {
  ListedViews listed;
  const auto check = [&](const char* name) {
    const absl::Status status = folder.FindFile(name).status();
    if (!status.ok() && !absl::IsNotFound(status)) {
      problems->Add(name, "", std::string(status.message()));
    }
    return status.ok();
  };
  const bool has_train = check(kTrainFile), has_val = check(kValFile), has_test = check(kTestFile);
  if (has_train) {
    const char* held_out = has_test ? kTestFile : has_val ? kValFile : nullptr;
    TransformsFile(folder, kTrainFile, ViewSplit::kTrain, &listed, problems).Read(true);
    listed.files = {kTrainFile};
    if (held_out != nullptr) {
      TransformsFile(folder, held_out, ViewSplit::kTest, &listed, problems).Read(false);
      listed.files.push_back(held_out);
    }
    listed.source = held_out ? absl::StrCat(kTrainFile, " + ", held_out) : kTrainFile;
    listed.given_split = held_out ? held_out : "no test views are listed";
  } else if (check(kSingleFile)) {
    TransformsFile(folder, kSingleFile, ViewSplit::kUndecided, &listed, problems).Read(true);
    listed.source = kSingleFile;
    listed.files = {kSingleFile};
  } else if (has_val || has_test) {
    listed.source = has_test ? kTestFile : kValFile;
    problems->Add(kTrainFile, "", "is missing: there is nothing to train on");
  }
  return listed;
}

}  // namespace nerf
