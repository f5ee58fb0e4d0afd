#!/usr/bin/env python3
"""More data sets as other tools leave them: names, encodings, fields and numbers.

usage: field_inputs_more.py FOX_QUARTER [--keep DIR] [CASE...]     needs python3-numpy, python3-pil

As field_inputs.py, whose kinds it goes on with.
"""
import json
import math
import zlib

from PIL import Image

import field_inputs
from field_inputs import ALL, OK, REFUSED, base, case, fields, in_frames, names, same

field_inputs.CASES.clear()  # those are its own


# ---- names
def percent(file):
    return file.replace(" ", "%20").replace("(", "%28").replace("é", "%C3%A9")


def spaced(file):
    return "images/photo (é) " + base(file)


names("percent", spaced, lambda f: percent(spaced(f)))
names("file_url", same, lambda f: "file:///home/ann/fox/" + f)
names("file_url_percent", spaced, lambda f: "file:///home/ann/" + percent(spaced(f)))
names("http_url", same, lambda f: "https://example.org/fox/" + f)
names("unc", same, lambda f: "\\\\server\\share\\fox\\" + f.replace("/", "\\"))
names("windows_relative", same, lambda f: ".\\" + f.replace("/", "\\"), words=ALL)
names("drive_alone", same, lambda f: "D:" + f.replace("/", "\\"))
names("doubled_slash", same, lambda f: f.replace("/", "//"), words=ALL)
names("blank_behind", same, lambda f: f + " ")
names("blank_before", same, lambda f: " " + f)
names("line_end", same, lambda f: f + "\r")
names("home", same, lambda f: "~/fox/" + f)
names("dots_inside", same, lambda f: f.replace("/", "/../images/"), words=ALL)
names("png_for_jpg", same, lambda f: f.replace(".jpg", ".png"), REFUSED, "images/0001.png")
names("two_endings", lambda f: f + ".jpg", same, words=ALL)
names("ending_twice", same, lambda f: f + ".jpg", REFUSED, "images/0001.jpg.jpg")
names("zeros", lambda f: f"images/{int(base(f)[:-4])}.jpg", same, REFUSED, "images/0001.jpg")
names("prefix", lambda f: "images/frame_" + base(f)[1:], same, REFUSED, "images/0001.jpg")


# ---- encodings of the list
def texts(label, code, words, change):
    def make(fox):
        fox.copy()
        text = json.dumps(fox.scene, indent=1)
        out = change(text)
        (fox.out / "transforms.json").write_bytes(out if isinstance(out, bytes) else out.encode())
    make.__name__ = f"texts_{label}"
    case(code, words)(make)


texts("crlf", OK, ALL, lambda t: t.replace("\n", "\r\n"))
texts("utf16", OK, ALL, lambda t: t.encode("utf-16"))
texts("utf16_big", OK, ALL, lambda t: b"\xfe\xff" + t.encode("utf-16-be"))
texts("utf32", REFUSED, "transforms.json", lambda t: t.encode("utf-32"))
texts("trailing_commas", OK, ALL, lambda t: t.replace("\n }\n ]", "\n },\n ]").replace("]\n}",
                                                                                       "],\n}"))
texts("comments", OK, ALL, lambda t: "// made by hand\n" + t.replace('"frames"',
                                                                     '/* all */ "frames"'))
texts("comments_of_python", REFUSED, "transforms.json", lambda t: "# made by hand\n" + t)
texts("latin1_in_unused", OK, ALL, lambda t: t.replace("{", '{"author": "J\xfcrg",',
                                                       1).encode("latin-1"))
texts("zeros_behind", OK, ALL, lambda t: t.encode() + bytes(512))
texts("cut_off", REFUSED, "transforms.json", lambda t: t[:-300])
texts("empty", REFUSED, "transforms.json", lambda t: "")
texts("blank", REFUSED, "transforms.json", lambda t: " \n")
texts("html", REFUSED, "transforms.json", lambda t: "<!DOCTYPE html><html>404</html>")
texts("lfs", REFUSED, "Git LFS",
      lambda t: "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9\n")
texts("list_at_top", REFUSED, "transforms.json", lambda t: "[" + t + "]")
texts("twice", REFUSED, "transforms.json", lambda t: t + t)
texts("single_quotes", REFUSED, "transforms.json", lambda t: t.replace('"', "'"))
texts("key_twice", OK, ALL, lambda t: t.replace("{", '{"w": 270,', 1))
texts("exponents", OK, ALL, lambda t: t.replace('"w": 270.0', '"w": 2.70E+2'))
texts("gzip", REFUSED, "transforms.json", lambda t: zlib.compress(t.encode(), wbits=31))


# ---- fields and numbers
def top(**keys):
    return lambda fox: fox.set(**keys)


def without(*keys, **more):
    def change(fox):
        for key in keys:
            fox.scene.pop(key, None)
        fox.set(**more)
    return change


LENS = ("camera_angle_x", "camera_angle_y", "fl_x", "fl_y", "cx", "cy", "k1", "k2", "p1", "p2",
        "w", "h",
        "camera_model")


def per_frame(*left_out, **more):
    def change(fox):
        lens = {key: fox.scene.pop(key) for key in LENS if key in fox.scene}
        for key in left_out:
            lens.pop(key, None)
        lens.update(more)
        for frame in fox.frames:
            frame.update(lens)
    return change


fields("lens_as_text", OK, ALL, top(fl_x="343.9", fl_y="343.6", w="270", h="480", k1="0.01"))
fields("lens_of_words", REFUSED, "fl_x", top(fl_x="wide"))
fields("size_as_float", OK, ALL, top(w=270.0, h=480.0))
fields("size_swapped", REFUSED, "270 x 480 but the file says 480 x 270", top(w=480, h=270))
fields("size_rescaled", OK, ALL, top(w=540, h=960, fl_x=687.0, fl_y=687.0, cx=270, cy=480))
fields("size_of_zero", REFUSED, r"\bw\b", top(w=0))
fields("size_negative", REFUSED, r"\bw\b", top(w=-270))
fields("size_huge", REFUSED, r"\bw\b", top(w=1e18))
fields("focal_zero", REFUSED, "fl_x", top(fl_x=0))
fields("focal_negative", REFUSED, "fl_x", top(fl_x=-343.0))
fields("focal_huge", REFUSED, "fl_x", top(fl_x=1e30))
fields("focal_alone", OK, ALL, without(*LENS, fl_x=343.0))
fields("focal_y_alone", OK, ALL, without(*LENS, fl_y=343.0))
fields("angle_alone", OK, ALL, without(*LENS, camera_angle_x=0.75))
fields("angle_in_degrees", REFUSED, "camera_angle_x", without(*LENS, camera_angle_x=42.9))
fields("angle_zero", REFUSED, "camera_angle_x", without(*LENS, camera_angle_x=0))
fields("no_lens", REFUSED, "fl_x", without(*LENS))
fields("null_distortion", OK, ALL, top(k1=None, k2=None, p1=None, p2=None, k4=None))
fields("distortion_huge", REFUSED, "k1|distortion", top(k1=1e10))
fields("per_frame", OK, ALL, per_frame())
fields("per_frame_without_model", OK, ALL, per_frame("camera_model"))
fields("per_frame_focal_only", OK, ALL, per_frame(*LENS, fl_x=343.0, fl_y=343.0))
fields("pinhole_named", OK, "PINHOLE 270x480", without("k1", "k2", "p1", "p2",
                                                       camera_model="PINHOLE"))
fields("simple_pinhole", OK, ALL, without("k1", "k2", "p1", "p2", camera_model="SIMPLE_PINHOLE"))
fields("simple_radial", OK, ALL, top(camera_model="SIMPLE_RADIAL"))
fields("perspective", OK, ALL, top(camera_model="perspective"))
fields("full_opencv", OK, ALL, top(camera_model="FULL_OPENCV", k3=0.001))
fields("model_unknown", REFUSED, "camera_model", top(camera_model="SPHERICAL_LENS"))
fields("model_of_number", REFUSED, "camera_model", top(camera_model=4))
fields("distortion_params", OK, ALL, without("k1", "k2", "p1", "p2", distortion_params=[0.01, 0,
                                                                                        0, 0]))
fields("aabb_scale_text", OK, ALL, top(aabb_scale="4"))
fields("aabb_scale_float", OK, ALL, top(aabb_scale=4.0))
fields("aabb_scale_odd", REFUSED, "aabb_scale", top(aabb_scale=3))
fields("aabb_scale_zero", REFUSED, "aabb_scale", top(aabb_scale=0))
fields("frames_missing", REFUSED, "frames", without("frames"))
fields("frames_none", REFUSED, "frames", top(frames=[]))
fields("frames_by_name", REFUSED, "frames", top(frames={"0": {}}))
fields("frame_null", REFUSED, r"frames\[12\]", lambda fox: fox.frames.append(None))
fields("frame_without_path", REFUSED, r"frames\[0\].file_path", in_frames(file_path=None))
fields("of_instant_ngp", OK, ALL, top(
    scale=0.33, offset=[0.5, 0.5, 0.5], aabb_scale=16, from_na=True, n_extra_learnable_dims=16,
    up=[0, 0, 1], render_aabb=[[0, 0, 0], [1, 1, 1]]))
fields("of_nerfstudio", OK, ALL, top(
    applied_transform=[[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, -1, 0]], applied_scale=1.0,
    orientation_override="none", ply_file_path=""))
fields("of_polycam", OK, ALL, lambda fox: (fox.set(camera_model="OPENCV"), in_frames(
    timestamp=12345, blur_score=1e308, center_depth=None, neighbors=[], colmap_im_id=1)(fox)))
fields("numbers_beyond_double", OK, "NaN or infinity|posed and present",
       in_frames(sharpness=10**400))


# ---- matrices
def matrices(label, code, words, change, *flags):
    def make(fox):
        fox.copy()
        for k, frame in enumerate(fox.frames):
            frame["transform_matrix"] = change(frame["transform_matrix"], k)
        fox.write()
    make.__name__ = f"matrices_{label}"
    case(code, words, *flags)(make)


def moved(m, by):
    return [[*row[:3], row[3] + d] for row, d in zip(m, (*by, 0))]


def turned(m, factor):
    return [[*(factor * x for x in row[:3]), row[3]] for row in m[:3]] + [m[3]]


matrices("3x4", OK, ALL, lambda m, k: m[:3])
matrices("flat_16", OK, ALL, lambda m, k: sum(m, []))
matrices("flat_12", OK, ALL, lambda m, k: sum(m[:3], []))
matrices("as_text", OK, ALL, lambda m, k: [[str(x) for x in row] for row in m])
matrices("3x3", REFUSED, r"frames\[0\].transform_matrix", lambda m, k: [row[:3] for row in m[:3]])
FOURTH = r"frames\[3\].transform_matrix"
matrices("nan", REFUSED, FOURTH, lambda m, k: moved(m, (math.nan if k == 3 else 0, 0, 0)))
matrices("infinite", REFUSED, FOURTH, lambda m, k: moved(m, (math.inf if k == 3 else 0, 0, 0)))
matrices("zeros", REFUSED, r"frames\[0\].transform_matrix", lambda m, k: [[0] * 4] * 4)
matrices("null", REFUSED, r"frames\[2\].transform_matrix", lambda m, k: None if k == 2 else m)
matrices("mirrored", REFUSED, "mirror|left-handed|determinant",
         lambda m, k: [[-row[0], *row[1:]] for row in m[:3]] + [m[3]])
matrices("utm", OK, ALL, lambda m, k: moved(m, (412345.5, 5678901.25, 120)))
matrices("earth", OK, ALL, lambda m, k: moved(m, (4001234.5, 567890.25, 4912345.0)))
matrices("tiny", OK, ALL, lambda m, k: [[*row[:3], row[3] * 1e-5] for row in m[:3]] + [m[3]])
matrices("large", OK, ALL, lambda m, k: [[*row[:3], row[3] * 1e5] for row in m[:3]] + [m[3]])
matrices("beyond_float", REFUSED, "transform_matrix", lambda m, k: moved(m, (1e300 * (k + 1), 0,
                                                                             0)))
matrices("scaled", OK, "scale", lambda m, k: turned(m, 2.5))
matrices("rounded", OK, ALL, lambda m, k: [[round(x, 3) for x in row] for row in m])
matrices("last_row_of_4", OK, ALL, lambda m, k: m[:3] + [[0, 0, 0, 1.0]])
matrices("one_position", OK, "position", lambda m, k: [[*row[:3], 0] for row in m[:3]] + [m[3]])
matrices("sheared", REFUSED, r"frames\[0\].transform_matrix|rotation",
         lambda m, k: [[row[0] + row[1], *row[1:]] for row in m[:3]] + [m[3]])


@case(OK, "0001.*270x480|sizes|" + ALL)
def mixed_sizes(fox):
    fox.copy()
    for k, frame in enumerate(fox.frames):
        lens = dict(w=270, h=480, fl_x=343.0, fl_y=343.0, cx=135, cy=240)
        if k % 2:
            lens = {key: value / 2 for key, value in lens.items()}
            path = fox.out / frame["file_path"]
            Image.open(path).resize((135, 240)).save(path)
        frame.update({key: int(v) if key in "wh" else v for key, v in lens.items()})
    for key in LENS:
        fox.scene.pop(key, None)
    fox.write()


@case(OK, ALL)
def mixed_cameras(fox):
    fox.copy()
    for k, frame in enumerate(fox.frames):
        frame.update(dict(camera_model="OPENCV_FISHEYE", k1=0.01, k2=0, k3=0, k4=0) if k % 2 else
                     dict(camera_model="OPENCV"))
    fox.write()


@case(OK, ALL)
def blender_of_jpegs_without_ending(fox):
    fox.copy(lambda f: "train/" + base(f))
    fox.name(lambda f: "./train/" + base(f)[:-4])
    for key in LENS:
        fox.scene.pop(key, None)
    fox.set(camera_angle_x=0.75)
    fox.write("transforms_train.json")


@case(OK, ALL)
def blender_with_train_alone(fox):
    fox.name(lambda f: "train/" + base(f)[:-4])
    for key in LENS:
        fox.scene.pop(key, None)
    fox.set(camera_angle_x=0.75)
    fox.write("transforms_train.json")
    (fox.out / "train").mkdir()
    for file in fox.files:
        Image.open(fox.source / file).save(fox.out / ("train/" + base(file)[:-4] + ".png"))


if __name__ == "__main__":
    field_inputs.main()
