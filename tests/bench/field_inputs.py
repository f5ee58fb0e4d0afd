#!/usr/bin/env python3
"""Data sets as other tools leave them: makes 88 and runs `nerf-engine check` on each.

usage: field_inputs.py FOX_QUARTER [--keep DIR] [CASE...]     needs python3-numpy, python3-pil

A case says the exit code and what the output must hold. Prints a line for each, exits 1 if one is
wrong. Run it with nerf-engine in PATH.
"""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata

import numpy as np
from PIL import Image

N = 12  # photographs of a case
CASES = []
OK, REFUSED = 0, 9


def case(code, words, *flags):
    """A data set that check ends with `code` on, saying `words` (a regular expression)."""
    def add(make):
        CASES.append((make.__name__, code, words, flags, make))
        return make
    return add


class Fox:
    """Photographs of fox_quarter from all sides, to be written in some other way."""

    def __init__(self, source, out):
        self.source, self.out = source, out
        self.scene = json.loads((source / "transforms.json").read_text())
        self.scene["frames"] = sorted(self.scene["frames"], key=lambda f: f["file_path"])[::4][:N]
        self.frames = self.scene["frames"]
        self.files = [f["file_path"] for f in self.frames]  # images/0001.jpg
        del self.scene["aabb_scale"]

    def copy(self, name=lambda file: file):
        for file in self.files:
            to = self.out / name(file)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.source / file, to)

    def name(self, name):
        for frame in self.frames:
            frame["file_path"] = name(frame["file_path"])

    def write(self, to="transforms.json", **options):
        (self.out / to).write_text(json.dumps(self.scene, ensure_ascii=False), **options)

    def set(self, **keys):
        self.scene.update(keys)

    def matrices(self, change):
        for frame in self.frames:
            frame["transform_matrix"] = change(np.array(frame["transform_matrix"], float)).tolist()

    def beside(self, folder, ending, save, key=None):
        """A mask or depth beside each photograph."""
        (self.out / folder).mkdir(parents=True)
        for frame, file in zip(self.frames, self.files):
            name = f"{folder}/{os.path.basename(file)[:-4]}{ending}"
            save(self.out / name)
            if key:
                frame[key] = name

    def model(self, folder, ids=range(N), camera=None, name=os.path.basename, points=()):
        """A COLMAP model of these photographs as text."""
        to = self.out / folder
        to.mkdir(parents=True, exist_ok=True)
        f = self.scene["fl_x"]
        (to / "cameras.txt").write_text(f"# c\n1 {camera or f'PINHOLE 270 480 {f} {f} 135 240'}\n")
        lines = ["# Image list"]
        for i in ids:
            m = np.array(self.frames[i]["transform_matrix"], float)
            m[:3, 1:3] *= -1
            w = np.linalg.inv(m)
            r = w[:3, :3]
            qw = math.sqrt(max(0, 1 + np.trace(r))) / 2
            q = [qw, (r[2, 1] - r[1, 2]) / 4 / qw, (r[0, 2] - r[2, 0]) / 4 / qw,
                 (r[1, 0] - r[0, 1]) / 4 / qw]
            numbers = " ".join(repr(float(x)) for x in (*q, *w[:3, 3]))
            lines.append(f"{i + 1} {numbers} 1 {name(self.files[i])}\n")
        (to / "images.txt").write_text("\n".join(lines) + "\n")
        (to / "points3D.txt").write_text("# none\n")


def gray(value, size=(270, 480), mode="L"):
    return lambda path: Image.new(mode, size, value).save(path)


def corner(value, rest, size):
    """A picture of `rest` with a square of `value` in its middle."""
    def save(path):
        picture = Image.new("L", (270, 480), rest)
        picture.paste(value, (135 - size, 240 - size, 135 + size, 240 + size))
        picture.save(path)
    return save


def array(kind, values=5):
    def save(path):
        with open(path, "wb") as file:
            np.save(file, np.full((480, 270), values, kind))
    return save


ALL = f"{N} of {N} images posed and present"
MOVED = f"{N} of {N} listed pictures were found under other names"


# ---- names
def names(label, on_disk, in_file, code=OK, words=MOVED):
    def make(fox):
        fox.copy(on_disk)
        fox.name(in_file)
        fox.write()
    make.__name__ = f"names_{label}"
    case(code, words)(make)


def same(file):
    return file


def base(file):
    return os.path.basename(file)


names("jpeg", lambda f: f.replace(".jpg", ".jpeg"), same)
names("upper_jpeg", lambda f: f.upper().replace(".JPG", ".JPEG"), same)
names("folder_in_capitals", lambda f: f.replace("images", "Images"), same)
names("absolute", same, lambda f: "/home/ann/captures/fox/" + f)
names("windows", same, lambda f: "C:\\Users\\Ann\\fox\\" + f.replace("/", "\\"))
names("backslashes", same, lambda f: f.replace("/", "\\"), words=ALL)
names("above", same, lambda f: "../fox/" + f)
names("doubled_folder", lambda f: "images/" + f, same)
names("missing_folder", same, base)
names("no_folder_on_disk", base, same)
names("no_ending", lambda f: f.upper(), lambda f: f[:-4])
names("nfd_in_file", lambda f: unicodedata.normalize("NFC", "images/é" + base(f)),
      lambda f: unicodedata.normalize("NFD", "images/é" + base(f)))
names("flattened", lambda f: "images/left-" + base(f), lambda f: "left/" + base(f))
names("unflattened", lambda f: "images/left/" + base(f), lambda f: "images/left_" + base(f))
names("blanks", lambda f: "my photos (1)/" + base(f), lambda f: "./fox/my photos (1)/" + base(f))
names("deep", lambda f: "2024/site/a/" + base(f), lambda f: "a/" + base(f))


@case(REFUSED, r"2 files fit: a/0001\.jpg and b/0001\.jpg")
def names_two_that_fit(fox):
    fox.copy(lambda f: "a/" + base(f))
    fox.copy(lambda f: "b/" + base(f))
    fox.name(base)
    fox.write()


@case(OK, "intrinsics are scaled")
def names_largest_of_the_reduced(fox):
    fox.copy(lambda f: "images_2/" + base(f))
    fox.copy(lambda f: "images_8/" + base(f))
    fox.set(**{key: 2 * fox.scene[key] for key in ("fl_x", "fl_y", "cx", "cy", "w", "h")})
    fox.write()


@case(OK, f"{ALL}")
def names_reduced_beside_a_model(fox):
    fox.copy(lambda f: "images_4/" + base(f))
    fox.model("sparse/0", camera="PINHOLE 1080 1920 1376 1376 540 960")


@case(OK, "10 train, 2 test")
def names_of_a_split(fox):
    fox.copy()
    fox.name(lambda f: "/data/fox/" + f)
    listed = [frame["file_path"] for frame in fox.frames]
    fox.set(train_filenames=listed[2:], test_filenames=listed[:2])
    fox.write()


@case(OK, f"{N} listed masks were found under other names")
def names_of_masks(fox):
    fox.copy()
    fox.beside("masks", ".PNG", gray(255))
    for frame in fox.frames:
        frame["mask_path"] = "/data/fox/masks/" + base(frame["file_path"])[:-4] + ".png"
    fox.write()


# ---- models
def models(label, words, *folders, pictures="images", ids=None):
    def make(fox):
        fox.copy(lambda f: os.path.join(pictures, base(f)))
        for k, folder in enumerate(folders):
            fox.model(folder, range(N) if ids is None else ids[k])
    make.__name__ = f"models_{label}"
    case(OK, words)(make)


models("in_three_parts", rf"8 of 8 .*\n.*sparse/1 .* is used.*sparse/0 \(2\)", "sparse/0",
       "sparse/1", "sparse/2", ids=[range(2), range(2, 10), range(10, 12)])
models("of_splatting", f"distorted/sparse/0.*{ALL}", "distorted/sparse/0", pictures="input")
models("of_nerfstudio", f"colmap/sparse/0.*{ALL}", "colmap/sparse/0")
models("dense", f"dense/sparse.*{ALL}", "dense/sparse", pictures="dense/images")
models("of_instant_ngp", f"colmap_text.*{ALL}", "colmap_text")
models("of_hloc", f"hloc/sparse.*{ALL}", "hloc/sparse")
models("in_a_folder_alone", ALL, "fox/sparse/0", pictures="fox/images")
models("undistorted_first", r"sparse/0 \(text\).*" + ALL, "distorted/sparse/0", "sparse/0")


@case(OK, ALL)
def models_with_rigs_beside(fox):
    fox.copy()
    fox.model("sparse/0")
    for name in ("rigs.txt", "frames.txt", "project.ini"):
        (fox.out / "sparse/0" / name).write_text("# of COLMAP 3.12\n")


@case(OK, ALL)
def models_of_several_folders(fox):
    fox.copy(lambda f: f"images/cam{int(base(f)[:4]) % 2}/{base(f)}")
    fox.model("sparse/0", name=lambda f: f"cam{int(base(f)[:4]) % 2}/{base(f)}")


@case(REFUSED, "in its folder fox")
def models_one_folder_deeper(fox):
    fox.out /= "fox"
    fox.copy()
    fox.write()


# ---- hidden files, unused fields, null
@case(OK, ALL)
def hidden_of_a_mac(fox):
    fox.copy()
    fox.model("sparse/0")
    for name in ("._0001.jpg", ".DS_Store", "Thumbs.db", "desktop.ini"):
        (fox.out / "images" / name).write_bytes(b"\0\5\x16\7")
    (fox.out / "__MACOSX/images").mkdir(parents=True)
    (fox.out / "__MACOSX/images/._0001.jpg").write_bytes(b"\0\5\x16\7")
    (fox.out / "sparse/0/._cameras.txt").write_bytes(b"\0\5\x16\7")


def fields(label, code, words, change, **options):
    def make(fox):
        fox.copy()
        change(fox)
        fox.write(**options)
    make.__name__ = f"fields_{label}"
    case(code, words)(make)


def in_frames(**keys):
    return lambda fox: [frame.update(keys) for frame in fox.frames]


fields("infinite", OK, "NaN or infinity.*ignored", in_frames(sharpness=float("inf")))
fields("text", OK, ALL, in_frames(sharpness="high", colmap_im_id="7"))
fields("null_lens", OK, ALL, lambda fox: fox.set(k3=None, camera_angle_x=None, camera_model=None))
fields("null_mask", OK, ALL, in_frames(mask_path=None, depth_file_path=None, time=None, w=None))
fields("null_split", OK, ALL, lambda fox: fox.set(train_filenames=None, aabb_scale=None))
fields("nan_that_is_read", REFUSED, r"fl_x", lambda fox: fox.set(fl_x=float("nan")))
fields("bom", OK, ALL, lambda fox: None, encoding="utf-8-sig")
fields("applied_transform", OK, ALL, lambda fox: fox.set(
    applied_transform=[[1, 0, 0, float("nan")]], ply_file_path="sparse_pc.ply"))


# ---- masks
def masks(label, code, words, save, ending=".png"):
    def make(fox):
        fox.copy()
        fox.beside("masks", ending, save, "mask_path")
        fox.write()
    make.__name__ = f"masks_{label}"
    case(code, words)(make)


masks("of_0_and_1", OK, "hold 0 and 1", corner(1, 0, 100))
masks("inverted", REFUSED, "likely inverted", corner(255, 0, 8))
masks("rgb", OK, "leave 100%", gray((255, 255, 255), mode="RGB"))
masks("of_one_bit", OK, "leave 100%", gray(1, mode="1"))
masks("of_another_shape", REFUSED, r"is 480x270, its picture 270x480", gray(255, (480, 270)))
masks("rgba_black", REFUSED, "leave 0%", gray((0, 0, 0, 255), mode="RGBA"))


@case(REFUSED, "leave 0%")
def masks_black_beside_a_model(fox):
    fox.copy()
    fox.model("sparse/0")
    fox.beside("masks", ".jpg.png", gray(0))


@case(REFUSED, "nothing to learn")
def masks_as_alpha_of_0(fox):
    fox.name(lambda f: f.replace(".jpg", ".png"))
    fox.write()
    (fox.out / "images").mkdir()
    for file in fox.files:
        Image.new("RGBA", (270, 480), (90, 80, 70, 0)).save(fox.out / file.replace(".jpg", ".png"))


# ---- poses
def to_opencv(m):
    return m @ np.diag([1, -1, -1, 1])


def poses(label, words, change, *flags, code=OK):
    def make(fox):
        fox.copy()
        fox.matrices(change)
        fox.write()
    make.__name__ = f"poses_{label}"
    case(code, words, *flags)(make)


poses("opencv", "--poses opencv", to_opencv)
poses("opencv_read", rf"{ALL}.*OK\n$", to_opencv, "--poses", "opencv")
poses("w2c", "--poses w2c", lambda m: np.linalg.inv(to_opencv(m)))
poses("w2c_opengl", "--poses w2c", np.linalg.inv)
poses("w2c_read", rf"{ALL}.*OK\n$", np.linalg.inv, "--poses", "w2c")
poses("transposed", "transposed", lambda m: m.T, code=REFUSED)
poses("rotation_transposed", "transposed", lambda m: np.block(
    [[m[:3, :3].T, m[:3, 3:]], [m[3:]]]))


# ---- lenses
def lenses(label, words, camera, code=OK):
    def make(fox):
        fox.copy()
        fox.model("sparse/0", camera=camera)
    make.__name__ = f"lenses_{label}"
    case(code, words)(make)


lenses("radial_fisheye", "RADIAL_FISHEYE 270x480", "RADIAL_FISHEYE 270 480 200 135 240 0.02 0.001")
lenses("thin_prism", "THIN_PRISM_FISHEYE 270x480",
       "THIN_PRISM_FISHEYE 270 480 200 200 135 240 0.02 0 0 0 0 0 0.001 0.001")
lenses("fov", "FOV 270x480", "FOV 270 480 300 300 135 240 0.9")
lenses("unknown", "MEI", "MEI 270 480 200 135 240", code=REFUSED)
fields("fisheye_in_small_letters", OK, "OPENCV_FISHEYE 270x480", lambda fox: fox.set(
    camera_model="opencv_fisheye", p1=0, p2=0))
fields("fisheye_of_nerfstudio", OK, "OPENCV_FISHEYE 270x480", lambda fox: fox.set(
    camera_model="OPENCV_FISHEYE", k1=0.02, k2=0, k3=0, k4=0, p1=0, p2=0))


# ---- depths
def depths(label, code, words, save, ending=".png", key="depth_file_path"):
    def make(fox):
        fox.copy()
        fox.beside("depths", ending, save, key)
        fox.write()
    make.__name__ = f"depths_{label}"
    case(code, words)(make)


def write(head):
    return lambda path: path.write_bytes(head + bytes(200))


def wide(path):
    Image.fromarray(np.full((480, 270), 900, np.uint16)).save(path)


depths("png16", OK, ALL, wide)
depths("palette", REFUSED, "palette", gray(3, mode="P"))
depths("jpeg", REFUSED, "is no PNG but a JPEG", gray(90), ".jpg")
depths("exr", REFUSED, "OpenEXR", write(b"\x76\x2f\x31\x01"), ".exr")
depths("npz", REFUSED, "ZIP", write(b"PK\3\4"), ".npz")
depths("npy_double", OK, ALL, array(np.float64), ".npy", "depth_path")
depths("npy_half", OK, ALL, array(np.float16), ".npy")
depths("npy_integers", OK, ALL, array(np.uint16), ".npy")
depths("npy_nan", REFUSED, "knows no depth", array(np.float32, np.nan), ".npy")


# ---- EXIF, repetitions, exports
def sideways(fox, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    (fox.out / "images").mkdir()
    turn = Image.ROTATE_90 if orientation == 6 else Image.ROTATE_270
    for file in fox.files:
        Image.open(fox.source / file).transpose(turn).save(fox.out / file, exif=exif.tobytes())


@case(REFUSED, f"{N} pictures lie on their side.*--apply-exif")
def exif_8(fox):
    sideways(fox, 8)
    fox.write()


@case(OK, ALL, "--apply-exif")
def exif_6_applied(fox):
    sideways(fox, 6)
    fox.write()


@case(REFUSED, "--apply-exif")
def exif_of_a_model(fox):
    sideways(fox, 6)
    fox.model("sparse/0")


@case(OK, "left out 2 repetitions")
def twice_by_another_path(fox):
    fox.copy()
    fox.frames += [dict(frame, file_path="./" + frame["file_path"]) for frame in fox.frames[:2]]
    fox.write()


@case(REFUSED, "listed twice.*another pose")
def twice_with_another_pose(fox):
    fox.copy()
    fox.frames.append(dict(fox.frames[0], transform_matrix=fox.frames[1]["transform_matrix"]))
    fox.write()


def exports(label, words, **files):
    def make(fox):
        fox.copy()
        for name, text in files.items():
            path = fox.out / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    make.__name__ = f"exports_{label}"
    case(REFUSED, words)(make)


exports("metashape", "Agisoft Metashape.*COLMAP", cameras_dot_xml=
        '<?xml version="1.0"?>\n<document version="1.5.0">\n <chunk label="1">\n')
exports("realitycapture", "RealityCapture.*COLMAP", registration_dot_csv=
        "#name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2\n")
exports("record3d", "Record3D", metadata_dot_json='{"w":192}', rgb__0_dot_txt="")
exports("odm", "OpenDroneMap", opensfm__reconstruction_dot_json="[]")
exports("odm_cameras", "OpenDroneMap", cameras_dot_json="{}", odm_report__shots_dot_geojson="{}")
exports("splatting", "Gaussian splatting.*source_path", cfg_args="Namespace()",
        point_cloud__iteration_7000__point_cloud_dot_ply="ply")
exports("bundler", "Bundler.*COLMAP", bundle_dot_out="# Bundle file v0.3\n12 0\n")
exports("visualsfm", "VisualSFM.*COLMAP", sfm__model_dot_nvm="NVM_V3\n\n12\n")
exports("blocks_exchange", "BlocksExchange.*COLMAP", block_dot_xml=
        '<?xml version="1.0" encoding="utf-8"?>\n<BlocksExchange version="2.1">\n')
exports("meshroom", "Meshroom.*COLMAP",
        cameras_dot_sfm='{\n "version": ["1", "2", "4"],\n "views": []}')
exports("xmp", "RealityCapture.*COLMAP", images__0001_dot_xmp=
        '<x:xmpmeta xmlns:x="adobe:ns:meta/">\n<rdf:Description xcr:Version="3">')


@case(OK, f"corrected_cameras.*{ALL}")
def exports_polycam_corrected(fox):
    fox.copy(lambda f: "keyframes/corrected_images/" + base(f))
    for folder in ("cameras", "corrected_cameras"):
        (fox.out / "keyframes" / folder).mkdir()
        for frame, file in zip(fox.frames, fox.files):
            camera = dict(fx=343, fy=343, cx=135, cy=240, width=270, height=480)
            camera |= {f"t_{r}{c}": frame["transform_matrix"][r][c] for r in range(3)
                       for c in range(4)}
            (fox.out / "keyframes" / folder / (base(file)[:-4] + ".json")).write_text(
                json.dumps(camera))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("fox", type=pathlib.Path)
    parser.add_argument("--keep")
    parser.add_argument("cases", nargs="*")
    flags = parser.parse_args()
    n_wrong = n_run = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, code, words, options, make in CASES:
            if flags.cases and name not in flags.cases:
                continue
            out = pathlib.Path(flags.keep or scratch) / name
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            make(Fox(flags.fox, out))
            run = subprocess.run(["nerf-engine", "check", *options, "--threads", "1", out],
                                 capture_output=True, text=True, errors="replace")
            said = run.stdout + run.stderr
            is_right = run.returncode == code and re.search(words, said, re.DOTALL)
            n_run, n_wrong = n_run + 1, n_wrong + (not is_right)
            print("ok   " if is_right else "WRONG", name, f"(exit {run.returncode})")
            if not is_right:
                print("      wanted:", code, words, "\n      " + said[:600])
    print(f"{n_run} cases, {n_wrong} wrong")
    sys.exit(1 if n_wrong or not n_run else 0)


if __name__ == "__main__":
    main()
