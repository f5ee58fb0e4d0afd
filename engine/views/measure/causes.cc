#include "engine/views/measure/causes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "common/counted.h"
#include "engine/base/median.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kMinGain = 0.5;  // dB: causes that cost less are left out
// dB. Gains above it are not told apart: then photographs at fault come first, as added, for they
// also cost the views beside them.
constexpr double kMaxGain = 6;
// Of the budget: a doubling of the rays gains so much, up to one ray a pixel.
constexpr double kDoublingGain = 0.6, kEnoughSeen = 1;
constexpr double kTableGain = 0.7;  // of a doubling of the entries, where detail is missing
constexpr double kUsualGap = 1.5;   // dB, between training and test views of a good capture
// dB of fine detail missing; sharp photographs lie within 1 dB, blur over 3 pixels takes 3. Its
// view loses about twice that.
constexpr double kMinBlur = 1.5, kBlurGain = 2;
constexpr double kOtherExposure = 1.15;
// Of a training view whose matches lie off, in its usual multiple and as a share of a side, or that
// gains so many dB: models learn single views by heart from where they are said to be.
constexpr double kStrayTimes = 5, kStrayShare = 0.004, kMinStrayGain = 3;
constexpr double kUsualAlignment = 0.4;  // dB that aligned cameras gain of good poses
constexpr double kUsualColor = 0.7;      // dB that aligned colors gain of an even exposure
constexpr double kFocalShare = 0.015;    // of 1: smaller errors are not told apart
constexpr double kMinFocalGain = 1.5;    // dB of the distance from epipolar lines
constexpr double kMoreHidden = 0.1;      // of a view, over what is usual
constexpr size_t kMaxNamed = 3;          // photographs in a sentence
constexpr double kManyShare = 0.3;       // of the photographs: no longer single ones
constexpr double kNearlyAll = 0.6;
// Of a place whose errors are more than those of details that are hard to show.
constexpr double kMinPlaceGain = 2, kMinPlaceShare = 0.1;

using Views = std::vector<const ViewMeasure*>;

double ColorGain(const ViewMeasure& view) { return view.small_color - view.small_psnr; }
double CameraGain(const ViewMeasure& view) { return view.psnr_camera - view.psnr; }
double SmallCameraGain(const ViewMeasure& view) { return view.small_camera - view.small_psnr; }
double BestPsnr(const ViewMeasure& view) { return std::fmax(view.psnr, view.psnr_camera); }

// figure: a member of ViewMeasure or a function of one.
template <typename Figure>
std::vector<double> All(const Views& views, const Figure& figure) {
  std::vector<double> values;
  for (const ViewMeasure* view : views) values.push_back(std::invoke(figure, *view));
  return values;
}
template <typename Figure>
double MedianOf(const Views& views, const Figure& figure) {
  return Median(All(views, figure));
}

class Finder {
 public:
  explicit Finder(const SceneMeasures& measures) : m_(measures) {
    for (const ViewMeasure& view : m_.views) (view.is_test ? test_ : train_).push_back(&view);
  }

  std::vector<Cause> Find() {
    Blur();
    Exposure();
    Poses();
    Focal();
    Place();
    Budget();
    Table();
    if (m_.held_out) Pictures();
    std::erase_if(causes_, [](const Cause& cause) { return !(cause.gain_db >= kMinGain); });
    std::stable_sort(causes_.begin(), causes_.end(),
                     [](const Cause& a, const Cause& b) { return a.gain_db > b.gain_db; });
    return std::move(causes_);
  }

 private:
  void Add(const char* cause, double gain, std::string place, std::string sentence) {
    causes_.push_back({cause, std::min(gain, kMaxGain), std::move(place), std::move(sentence)});
  }

  // "photographs 31 (0031.jpg) and 35 (0035.jpg) are", "photograph 31 (0031.jpg) is".
  std::string Are(const Views& views) const {
    const size_t n = views.size(), n_named = n > kMaxNamed ? kMaxNamed - 1 : n;
    std::string text = n == 1 ? "photograph" : "photographs";
    for (size_t i = 0; i < n_named; ++i) {
      const auto number = std::find(train_.begin(), train_.end(), views[i]) - train_.begin() + 1;
      const char* before = i == 0 ? "" : i + 1 == n ? " and" : ",";
      text += fmt::format("{} {} ({})", before, number, views[i]->file);
    }
    if (n_named < n) text += fmt::format(" and {} more", n - n_named);
    return text + (n == 1 ? " is" : " are");
  }
  static const char* Them(const Views& views) { return views.size() == 1 ? "it" : "them"; }
  static std::string Files(const Views& views) {
    std::string text;
    for (const ViewMeasure* view : views) text += (text.empty() ? "" : ", ") + view->file;
    return text;
  }
  template <typename Condition>
  static Views Those(const Views& views, const Condition& condition) {
    Views chosen;
    std::copy_if(views.begin(), views.end(), std::back_inserter(chosen),
                 [&](const ViewMeasure* view) { return condition(*view); });
    return chosen;
  }
  bool AreMany(const Views& views) const {
    return static_cast<double>(views.size()) > kManyShare * static_cast<double>(train_.size());
  }

  void Blur() {
    const double spread = 1.48 * MedianOf(train_, [](const ViewMeasure& view) {  // as a deviation
                            return std::abs(view.sharpness);
                          });
    const Views blurred = Those(train_, [&](const ViewMeasure& view) {
      return view.sharpness < -std::max(kMinBlur, 5 * spread);
    });
    if (blurred.empty()) return;
    const double missing = -MedianOf(blurred, &ViewMeasure::sharpness);
    Add("blur", kBlurGain * missing, Files(blurred),
        fmt::format("{} blurred, {:.1f} dB of fine detail below the photographs beside {}: leave "
                    "{} out or take {} again.",
                    Are(blurred), missing, Them(blurred), Them(blurred), Them(blurred)));
  }

  void Exposure() {
    if (m_.learned_exposures) return;
    const double exposure = MedianOf(train_, &ViewMeasure::exposure);
    const auto off = [&](const ViewMeasure& view) { return std::log(view.exposure / exposure); };
    Views other = Those(train_, [&](const ViewMeasure& view) {
      return std::abs(off(view)) > std::log(kOtherExposure);
    });
    if (other.empty()) return;
    if (AreMany(other)) {
      Add("exposures", MedianOf(train_, ColorGain) - kUsualColor, "",
          fmt::format("The photographs' exposures differ, in {} of {} by more than {:.0f}%: let "
                      "the training find them (--set exposure_rate=0.3).",
                      other.size(), train_.size(), 100 * (kOtherExposure - 1)));
    } else {
      // Those that are too bright, or those that are too dark: one figure is said of them.
      const auto* farthest = *std::max_element(
          other.begin(), other.end(),
          [&](const auto* a, const auto* b) { return std::abs(off(*a)) < std::abs(off(*b)); });
      std::erase_if(other, [&](const auto* view) { return off(*view) * off(*farthest) < 0; });
      const double theirs = MedianOf(other, &ViewMeasure::exposure) / exposure;
      // What a gray of a half differs by, beside what views differ by anyway.
      const double psnr = -20 * std::log10(0.5 * std::abs(1 - theirs));
      const double usual = MedianOf(train_, &ViewMeasure::small_psnr);
      Add("exposure", usual - psnr, Files(other),
          fmt::format("{} {:.2f} times as bright as the others: leave {} out or let the training "
                      "find exposures (--set exposure_rate=0.3).",
                      Are(other), theirs, Them(other)));
    }
  }

  void Poses() {
    const double gain = MedianOf(test_, CameraGain);
    Add("poses", gain - kUsualAlignment, "",
        fmt::format("The cameras are off, test views gain {:.1f} dB where they agree best: let the "
                    "training correct the poses (--set pose_rate=0.03,coarse_share=0.6).",
                    gain));
    const double usual_error = MedianOf(train_, &ViewMeasure::match_error);
    // A wrong focal length moves the matches of some views more than of others.
    const bool matches_tell = FocalGain() == 0;
    const Views stray = Those(train_, [&](const ViewMeasure& view) {
      return SmallCameraGain(view) > kMinStrayGain ||
             (matches_tell && view.match_error > std::max(kStrayShare, kStrayTimes * usual_error));
    });
    if (stray.empty() || AreMany(stray)) return;
    const double error = matches_tell ? MedianOf(stray, &ViewMeasure::match_error) : std::nan("");
    const double line_gain = 20 * std::log10(error / usual_error);
    Add("stray pose", std::fmax(MedianOf(stray, SmallCameraGain), line_gain), Files(stray),
        fmt::format(
            "{} not where the data set says{}: leave {} out or find the poses again.", Are(stray),
            std::isnan(error)
                ? ""
                : fmt::format(", {:.1f}% of a side off what other photographs show", 100 * error),
            Them(stray)));
  }

  // dB that matches gain by another focal length; 0 where that of the data set is right.
  double FocalGain() const {
    const double gain = 20 * std::log10(m_.match_error / m_.match_error_at_scale);
    return std::abs(m_.focal_scale - 1) > kFocalShare && gain > kMinFocalGain ? gain : 0;
  }

  void Focal() {
    if (FocalGain() == 0) return;
    const double times = m_.match_error / m_.match_error_at_scale;
    Add("focal length", FocalGain(), "",
        fmt::format("The focal length is wrong, with {:.2f} times of it the photographs agree with "
                    "the cameras {:.1f} times as closely: correct it, or find poses and lens again "
                    "(nerf-engine pose).",
                    m_.focal_scale, times));
  }

  void Place() {
    Views views;
    for (int i : m_.place_views) views.push_back(&m_.views[i]);
    const double gain =
        MedianOf(views, [](const ViewMeasure& view) { return view.region.gain_db; });
    const double share = static_cast<double>(views.size()) / std::max(1, m_.n_showing_place);
    if (!(gain > kMinPlaceGain && share > kMinPlaceShare)) return;
    const ErrorRegion& region = views[0]->region;
    const std::string place = fmt::format("{}, {:.0f}% from the left and {:.0f}% from the top",
                                          views[0]->file, 100 * region.x, 100 * region.y);
    const bool in_nearly_all = share >= kNearlyAll;
    Add(in_nearly_all ? "mirror" : "moved", gain, place,
        fmt::format("Something {} at {}, where {} of {} photographs differ from the model: {}.",
                    in_nearly_all ? "mirrors or never holds still" : "has moved", place,
                    views.size(), m_.n_showing_place,
                    in_nearly_all ? "mask it, or cover it and take them again"
                                  : "mask it, or leave these photographs out"));
  }

  void Budget() {
    if (!(m_.seen > 0 && m_.seen < kEnoughSeen)) return;
    const double times = kEnoughSeen / m_.seen, samples = m_.n_trained * times / 1e6;
    const double rounding = samples >= 100 ? 10 : samples >= 10 ? 5 : 1;
    Add("budget", kDoublingGain * std::log2(times), "",
        fmt::format("The training has seen each pixel {:.2g} times: give it {} times the budget "
                    "(--samples {:.0f}M).",
                    m_.seen,
                    times < 10 ? fmt::format("{:.2g}", times) : fmt::format("{:.0f}", times),
                    rounding * std::ceil(samples / rounding - 1e-6)));
  }

  void Table() {
    const int missing = m_.chosen_log2_entries - m_.log2_entries;
    if (m_.log2_entries == 0 || missing <= 0) return;
    const double detail = MeanOf(m_.views, false, &ViewMeasure::psnr_half) -
                          MeanOf(m_.views, false, &ViewMeasure::psnr);
    Add("table", kTableGain * missing * std::clamp(detail, 0.0, 1.0), "",
        fmt::format("The table is too coarse, 2^{} entries a level, training views are {:.1f} dB "
                    "better at half size: leave log2_hashmap_size out or set it to {}.",
                    m_.log2_entries, detail, m_.chosen_log2_entries));
  }

  void Pictures() {
    const double train = MedianOf(train_, &ViewMeasure::psnr);
    const double gap = train - MedianOf(test_, [&](const ViewMeasure& view) {
                         return BestPsnr(view) + (m_.place_views.empty() ? 0 : view.region.gain_db);
                       });
    Add("few pictures", gap - kUsualGap, "",
        fmt::format("Too few pictures, {} show themselves at {:.1f} dB and views between them "
                    "{:.1f} dB worse: take more from places between them.",
                    Counted(m_.n_train_views, "photograph"), train, gap));
    // A side that few see: some test views lose far more than the others.
    const double usual = MedianOf(test_, &ViewMeasure::few_seen);
    const double usual_psnr = MedianOf(test_, &ViewMeasure::psnr);
    Views hidden =
        Those(test_, [&](const ViewMeasure& view) { return view.few_seen > usual + kMoreHidden; });
    if (hidden.empty()) return;
    std::sort(hidden.begin(), hidden.end(),
              [](const ViewMeasure* a, const ViewMeasure* b) { return a->few_seen > b->few_seen; });
    const double gain = MedianOf(hidden, [&](const ViewMeasure& view) {
      return std::fmin(view.psnr_seen, usual_psnr) - view.psnr;
    });
    Add("occluded", gain, Files(hidden),
        fmt::format("A side is on fewer than three photographs, {:.0f}% of what {} shows, and more "
                    "than elsewhere in {}: take photographs from there.",
                    100 * hidden[0]->few_seen, hidden[0]->file,
                    Counted(hidden.size(), "test view")));
  }

  const SceneMeasures& m_;
  Views train_, test_;
  std::vector<Cause> causes_;
};

}  // namespace

double MeanOf(const std::vector<ViewMeasure>& views, bool of_test, double ViewMeasure::*figure) {
  double sum = 0, n = 0;
  for (const ViewMeasure& view : views) {
    if (view.is_test != of_test || std::isnan(view.*figure)) continue;
    sum += view.*figure;
    ++n;
  }
  return n > 0 ? sum / n : kNotMeasured;
}

std::vector<Cause> FindCauses(const SceneMeasures& measures) { return Finder(measures).Find(); }

}  // namespace nerf
