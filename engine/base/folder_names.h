#pragma once

#include <array>
#include <string_view>

// Names by which programs tell the files of a folder apart. web/scripts/folder_names.mjs reads
// these tables for the web page, which chooses the files that it sends.
namespace nerf {

// Endings of pictures that are read, of films that ffmpeg may read, and of pictures that have to be
// saved as JPEG or PNG first. Lower case.
inline constexpr std::array<std::string_view, 7> kPhotographEndings = {
    ".jpg", ".jpeg", ".png", ".heic", ".heif", ".avif", ".webp"};
inline constexpr std::array<std::string_view, 8> kFilmEndings = {".mp4", ".mov",  ".m4v", ".avi",
                                                                 ".mkv", ".webm", ".mts", ".3gp"};
inline constexpr std::array<std::string_view, 12> kOtherPictureEndings = {
    ".tif", ".tiff", ".bmp", ".gif", ".dng", ".cr2",
    ".cr3", ".nef",  ".arw", ".orf", ".rw2", ".raf"};

// Endings that a list of pictures may leave off, in the order in which they are tried.
inline constexpr std::array<std::string_view, 6> kImpliedEndings = {".png", ".jpg", ".jpeg",
                                                                    ".PNG", ".JPG", ".JPEG"};

// How folders begin whose pictures are no photographs. Lower case.
inline constexpr std::array<std::string_view, 10> kCompanionFolders = {
    "mask",   "depth",     "normal",  "semantic", "segmentation",
    "stereo", "thumbnail", "preview", "alpha",    "confidence"};

// Where COLMAP leaves its models, and how the names of folders begin that programs make on the way
// to one. Lower case.
inline constexpr std::array<std::string_view, 3> kUsualModelFolders = {"sparse/0", "sparse",
                                                                       "colmap/sparse/0"};
inline constexpr std::array<std::string_view, 18> kModelFolderWords = {
    "sparse",         "dense",  "colmap", "distorted",   "undistorted", "model", "output",
    "reconstruction", "export", "result", "text",        "txt",         "bin",   "sfm",
    "hloc",           "manual", "align",  "triangulated"};

// Folders of the pictures that LLFF's poses_bounds.npy is for. The first that holds some counts.
inline constexpr std::array<std::string_view, 4> kLlffFolders = {"images", "images_2", "images_4",
                                                                 "images_8"};

}  // namespace nerf
