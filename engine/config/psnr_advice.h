#pragma once

namespace nerf {

// A trained scene below this PSNR of its test views, in dB, has most likely gone wrong.
inline constexpr double kLowPsnr = 18;
// Its usual reasons, for people.
inline constexpr char kLowPsnrAdvice[] =
    "a test PSNR below 18 dB has most often one of these reasons: wrong poses (see pose.txt, and "
    "the warnings of scene check), exposure or focus that changes between pictures, things that "
    "moved, or a small budget (--samples 100M)";

}  // namespace nerf
