#include "engine/measure/causes.h"

#include <algorithm>
#include <cmath>

#include "common/counted.h"
#include "engine/measure/median.h"
#include "fmt/format.h"

namespace nerf {
namespace {

constexpr double kMinGain = 0.5;  // dB: causes that cost less are left out
// Of the budget: a doubling of the rays gains so much, up to one ray a pixel.
constexpr double kDoublingGain = 0.6, kEnoughSeen = 1;
constexpr double kTableGain = 0.7;  // of a doubling of the entries, where detail is missing
constexpr double kUsualGap = 1.5;   // dB, between training and test views of a good capture
// dB of fine detail missing; sharp photographs lie within 1 dB, blur over 3 pixels takes 3. Its
// view loses about twice that.
constexpr double kMinBlur = 1.5, kBlurGain = 2;
constexpr double kOtherExposure = 1.15;
constexpr double kMinStrayGain = 1.5;
constexpr double kUsualAlignment = 0.4;  // dB that aligned cameras gain of good poses
constexpr double kUsualColor = 0.7;      // dB that aligned colors gain of an even exposure
constexpr double kFocalShare = 0.015;    // of 1: smaller errors are not told apart
constexpr double kMinFocalGain = 1.5;    // dB of the distance from epipolar lines
constexpr double kMaxGeometryGain = 6;   // dB: colors differ by less than distances do
constexpr size_t kMaxNamed = 3;          // photographs in a sentence
constexpr double kManyShare = 0.3;       // of the photographs: no longer single ones

using Views = std::vector<const ViewMeasure*>;

// Of the values' distances from their median, as a standard deviation.
double Spread(const std::vector<double>& values) {
  const double median = Median(values);
  std::vector<double> distances;
  for (double value : values) distances.push_back(std::abs(value - median));
  return 1.48 * Median(std::move(distances));
}

class Finder {
 public:
  explicit Finder(const SceneMeasures& measures) : m_(measures) {
    for (const ViewMeasure& view : m_.views) (view.is_test ? test_ : train_).push_back(&view);
  }

  std::vector<Cause> Find() {
    Blur();
    Exposure();
    Stray();
    Focal();
    Place();
    Budget();
    Table();
    Pictures();
    std::erase_if(causes_, [](const Cause& cause) { return !(cause.gain_db >= kMinGain); });
    std::stable_sort(causes_.begin(), causes_.end(),
                     [](const Cause& a, const Cause& b) { return a.gain_db > b.gain_db; });
    return std::move(causes_);
  }

 private:
  template <typename Figure>
  static std::vector<double> All(const Views& views, const Figure& figure) {
    std::vector<double> values;
    for (const ViewMeasure* view : views) values.push_back(figure(*view));
    return values;
  }

  // "photograph 31 (0031.jpg)", "photographs 31 (0031.jpg) and 35 (0035.jpg)".
  std::string Names(const Views& views) const {
    std::string text = views.size() == 1 ? "photograph " : "photographs ";
    const size_t n = views.size() > kMaxNamed ? kMaxNamed - 1 : views.size();
    for (size_t i = 0; i < n; ++i) {
      const auto number = std::find(train_.begin(), train_.end(), views[i]) - train_.begin() + 1;
      const char* before = i == 0 ? "" : i + 1 == views.size() ? " and " : ", ";
      text += fmt::format("{}{} ({})", before, number, views[i]->file);
    }
    if (n < views.size()) text += fmt::format(" and {} more", views.size() - n);
    return text;
  }
  static const char* Are(const Views& views) { return views.size() == 1 ? "is" : "are"; }
  static const char* Them(const Views& views) { return views.size() == 1 ? "it" : "them"; }

  void Add(const char* cause, double gain, std::string place, std::string fact,
           std::string remedy) {
    causes_.push_back({cause, gain, std::move(place), std::move(fact), std::move(remedy)});
  }

  void Blur() {
    const double spread =
        Spread(All(train_, [](const ViewMeasure& view) { return view.sharpness; }));
    Views blurred;
    std::vector<double> missing;
    for (const ViewMeasure* view : train_) {
      if (!(view->sharpness < -std::max(kMinBlur, 5 * spread))) continue;
      blurred.push_back(view);
      missing.push_back(-view->sharpness);
    }
    if (blurred.empty()) return;
    const double deficit = Median(missing);
    const std::string names = Names(blurred);
    Add("blur", kBlurGain * deficit, names,
        fmt::format("{} {} blurred, {:.1f} dB of fine detail below the photographs beside {}",
                    names, Are(blurred), deficit, Them(blurred)),
        fmt::format("leave {} out or take {} again", Them(blurred), Them(blurred)));
  }

  void Exposure() {
    const auto color_gain = [](const ViewMeasure& view) {
      return view.small_color - view.small_psnr;
    };
    const double usual = Median(All(train_, color_gain));
    const double exposure =
        Median(All(train_, [](const ViewMeasure& view) { return view.exposure(); }));
    Views other;
    for (const ViewMeasure* view : train_) {
      const double ratio = view->exposure() / exposure;
      if (std::max(ratio, 1 / ratio) > kOtherExposure) other.push_back(view);
    }
    const double share = static_cast<double>(other.size()) / static_cast<double>(train_.size());
    if (share > kManyShare) {
      std::vector<double> values = All(train_, [](const ViewMeasure& v) { return v.exposure(); });
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      Add("exposures", usual - kUsualColor, "",
          fmt::format("The photographs' exposures differ, from {:.2f} to {:.2f} of the model's",
                      *least, *most),
          "let the training find them (--set exposure_rate=0.3)");
      return;
    }
    if (other.empty()) return;
    std::vector<double> gains;
    for (const ViewMeasure* view : other) gains.push_back(color_gain(*view) - usual);
    const std::string names = Names(other);
    Add("exposure", Median(gains), names,
        fmt::format(
            "{} {} {:.2f} times as bright as the others", names, Are(other),
            Median(All(other, [](const ViewMeasure& v) { return v.exposure(); })) / exposure),
        fmt::format("leave {} out or let the training find exposures (--set exposure_rate=0.3)",
                    Them(other)));
  }

  void Stray() {
    const double usual_error =
        Median(All(train_, [](const ViewMeasure& view) { return view.match_error; }));
    Views stray;
    std::vector<double> gains;
    for (const ViewMeasure* view : train_) {
      const double gain = view->small_camera - view->small_psnr;
      const bool is_off = !(view->match_error <= 2 * usual_error);  // or not known
      if (!(gain > (is_off ? 1 : 2) * kMinStrayGain)) continue;
      stray.push_back(view);
      gains.push_back(gain);
    }
    const double test_gain =
        Median(All(test_, [](const ViewMeasure& v) { return v.psnr_camera - v.psnr; }));
    if (test_gain > kUsualAlignment) {
      Add("poses", test_gain - kUsualAlignment, "",
          fmt::format("The test cameras are off: moved to where they agree best, their views gain "
                      "{:.1f} dB",
                      test_gain),
          "let the training correct the poses (--set pose_rate=0.03,coarse_share=0.6)");
    }
    if (stray.empty() || stray.size() > kManyShare * static_cast<double>(train_.size())) return;
    const std::string names = Names(stray);
    Add("stray pose", Median(gains), names,
        fmt::format("{} {} not where the data set says: moved to where {} best, {} {:.1f} dB",
                    names, Are(stray), stray.size() == 1 ? "it agrees" : "they agree",
                    stray.size() == 1 ? "it gains" : "they gain", Median(gains)),
        fmt::format("leave {} out or find {} pose{} again", Them(stray),
                    stray.size() == 1 ? "its" : "their", stray.size() == 1 ? "" : "s"));
  }

  void Focal() {
    if (!(std::abs(m_.focal_scale - 1) > kFocalShare)) return;
    const double gain = 20 * std::log10(m_.match_error / m_.match_error_at_scale);
    if (!(gain > kMinFocalGain)) return;
    Add("focal length", std::min(gain, kMaxGeometryGain), "",
        fmt::format("The focal length is wrong: with {:.2f} times of it the photographs' matches "
                    "agree with the cameras {:.1f} times as closely",
                    m_.focal_scale, m_.match_error / m_.match_error_at_scale),
        "find the poses and the lens again (nerf-engine pose) or --set focal_rate=0.1");
  }

  void Place() {
    if (m_.place_views.empty()) return;
    Views views;
    std::vector<double> gains;
    for (int i : m_.place_views) {
      views.push_back(&m_.views[i]);
      gains.push_back(m_.views[i].region.gain_db);
    }
    const ErrorRegion& region = views[0]->region;
    const std::string where =
        fmt::format("{} of {}, {:.0f}% from the left and {:.0f}% from the top",
                    views.size() == train_.size() ? "in all" : "in some", views[0]->file,
                    100 * region.x, 100 * region.y);
    const bool is_everywhere = 10 * views.size() >= 6 * static_cast<size_t>(m_.n_showing_place);
    const std::string place = fmt::format("{}, {:.0f}% from the left and {:.0f}% from the top",
                                          views[0]->file, 100 * region.x, 100 * region.y);
    const std::string in =
        fmt::format("{} of {} photographs that show it", views.size(), m_.n_showing_place);
    if (is_everywhere) {
      Add("mirror", Median(gains), place,
          fmt::format("Something mirrors or changes at {}: {} differ there", place, in),
          "mask it, or dull or cover it and take the photographs again");
    } else {
      Add("moved", Median(gains), place,
          fmt::format("Something has moved at {}: {} differ there, the others agree", place, in),
          "mask it or leave these photographs out");
    }
  }

  void Budget() {
    if (!(m_.seen > 0 && m_.seen < kEnoughSeen)) return;
    const double times = kEnoughSeen / m_.seen;
    const double samples = m_.n_trained * times / 1e6;
    const double rounding = samples >= 100 ? 10 : samples >= 10 ? 5 : 1;
    Add("budget", kDoublingGain * std::log2(times), "",
        fmt::format("The training has seen each pixel {:.2g} times", m_.seen),
        fmt::format("give it {:.2g} times the budget (--samples {:.0f}M)", times,
                    rounding * std::ceil(samples / rounding)));
  }

  void Table() {
    const int missing = m_.chosen_log2_entries - m_.log2_entries;
    if (m_.log2_entries == 0 || missing <= 0) return;
    const double half = MeanOf(m_.views, false, &ViewMeasure::psnr_half) -
                        MeanOf(m_.views, false, &ViewMeasure::psnr);
    Add("table", kTableGain * missing * std::clamp(half, 0.0, 1.0), "",
        fmt::format("The table is too coarse, 2^{} entries a level: training views lose detail, "
                    "{:.1f} dB better at half size",
                    m_.log2_entries, half),
        fmt::format("leave log2_hashmap_size out or set it to {}", m_.chosen_log2_entries));
  }

  void Pictures() {
    if (!m_.held_out) return;
    const auto best = [](const ViewMeasure& v) {
      return v.psnr + std::max(0.0, std::isnan(v.psnr_camera) ? 0 : v.psnr_camera - v.psnr);
    };
    const double train = Median(All(train_, [](const ViewMeasure& v) { return v.psnr; }));
    const double gap = train - Median(All(test_, best));
    Add("few pictures", gap - kUsualGap, "",
        fmt::format("Too few pictures: {} show training views at {:.1f} dB and views between them "
                    "{:.1f} dB worse",
                    Counted(m_.n_train_views, "training photograph"), train, gap),
        "take more from places between them");
    // A side that few see: some test views lose far more than the others.
    const double usual = Median(All(test_, [](const ViewMeasure& v) { return v.few_seen; }));
    const double usual_psnr = Median(All(test_, [](const ViewMeasure& v) { return v.psnr; }));
    Views hidden;
    std::vector<double> gains, shares;
    for (const ViewMeasure* view : test_) {
      if (!(view->few_seen > usual + 0.1)) continue;
      const double gain =
          std::max(view->psnr_seen - view->psnr, std::max(0.0, usual_psnr - view->psnr));
      hidden.push_back(view);
      gains.push_back(gain);
      shares.push_back(view->few_seen);
    }
    if (hidden.empty()) return;
    const auto worst = std::max_element(shares.begin(), shares.end()) - shares.begin();
    Add("occluded", Median(gains), hidden[worst]->file,
        fmt::format("A side is on fewer than three photographs: {:.0f}% of what {} shows, and "
                    "more than elsewhere in {}",
                    100 * shares[worst], hidden[worst]->file, Counted(hidden.size(), "test view")),
        "take photographs from there");
  }

  const SceneMeasures& m_;
  Views train_, test_;
  std::vector<Cause> causes_;
};

}  // namespace

double MeanOf(const std::vector<ViewMeasure>& views, bool of_test, double ViewMeasure::*figure) {
  double sum = 0;
  int n = 0;
  for (const ViewMeasure& view : views) {
    if (view.is_test != of_test || std::isnan(view.*figure)) continue;
    sum += view.*figure;
    ++n;
  }
  return n > 0 ? sum / n : kNotMeasured;
}

std::vector<Cause> FindCauses(const SceneMeasures& measures) { return Finder(measures).Find(); }

}  // namespace nerf
