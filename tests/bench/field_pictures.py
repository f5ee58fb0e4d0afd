#!/usr/bin/env python3
"""Data sets as other tools leave them: pictures of many kinds, COLMAP's models in binary and text.

usage: field_pictures.py FOX_QUARTER [--keep DIR] [CASE...]     needs python3-numpy, python3-pil

As field_inputs.py, whose kinds it goes on with.
"""
import io
import struct

import numpy as np
from PIL import Image

import field_inputs
from draw_objects import png
from field_inputs import ALL, OK, REFUSED, base, case, gray

field_inputs.CASES.clear()  # those are its own


# ---- pictures
def encoded(picture, **options):
    to = io.BytesIO()
    picture.save(to, **options)
    return to.getvalue()


def alike(width, height, depth, color, row, interlaced=False):
    """A PNG whose rows all are `row`."""
    return png(width, height, depth, color, (b"\0" + row) * height, interlaced)


def adam7(picture):
    """An interlaced PNG of an RGB picture."""
    pixels, rows = np.asarray(picture.convert("RGB")), b""
    for x, y, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                         (1, 0, 2, 2), (0, 1, 1, 2)):
        for line in pixels[y::dy, x::dx]:
            rows += b"\0" + line.tobytes()
    return png(*picture.size, 8, 2, rows, interlaced=True)


def pictures(label, code, words, change, ending=".jpg"):
    def make(fox):
        (fox.out / "images").mkdir()
        for file in fox.files:
            picture = Image.open(fox.source / file)
            picture.load()
            out = change(picture)
            (fox.out / (file[:-4] + ending)).write_bytes(out)
        fox.name(lambda f: f[:-4] + ending)
        fox.write()
    make.__name__ = f"pictures_{label}"
    case(code, words)(make)


def as_png(mode=None, **options):
    return lambda p: encoded(p.convert(mode) if mode else p, format="PNG", **options)


def as_jpeg(mode=None, **options):
    return lambda p: encoded(p.convert(mode) if mode else p, format="JPEG", **options)


def adobe(p):
    exif = Image.Exif()
    exif[0x0131] = "Adobe Photoshop"
    return encoded(p.convert("CMYK"), format="JPEG", exif=exif.tobytes())


def oriented(orientation, format="JPEG"):
    def make(p):
        exif = Image.Exif()
        exif[0x0112] = orientation
        return encoded(p, format=format, exif=exif.tobytes())
    return make


GRAY16 = bytes(range(256)) * 3
pictures("png16_gray", OK, ALL, lambda p: alike(270, 480, 16, 0, GRAY16[:540]), ".png")
pictures("png16_rgb", OK, ALL, lambda p: alike(270, 480, 16, 2, (GRAY16 * 3)[:1620]), ".png")
pictures("png16_rgba", OK, ALL, lambda p: alike(270, 480, 16, 6,
                                              b"\x80\0\x40\0\x20\0\xff\xff" * 270), ".png")
pictures("gray", OK, ALL, as_png("L"), ".png")
pictures("gray_alpha", OK, ALL, as_png("LA"), ".png")
pictures("one_bit", OK, ALL, as_png("1"), ".png")
pictures("palette", OK, ALL, lambda p: encoded(p.quantize(64), format="PNG"), ".png")
pictures("palette_transparent", OK, ALL, lambda p: encoded(p.quantize(64), format="PNG",
                                                           transparency=3), ".png")
pictures("palette_of_4_bits", OK, ALL, lambda p: encoded(p.quantize(16), format="PNG", bits=4),
         ".png")
pictures("interlaced", OK, ALL, adam7, ".png")
pictures("color_key", OK, ALL, as_png("RGB", transparency=(255, 255, 255)), ".png")
pictures("animated_png", OK, ALL, lambda p: encoded(p, format="PNG", save_all=True,
                                                    append_images=[p]), ".png")
pictures("jpeg_gray", OK, ALL, as_jpeg("L"))
pictures("jpeg_cmyk", OK, ALL, as_jpeg("CMYK"))
pictures("jpeg_cmyk_of_adobe", OK, ALL, adobe)
pictures("jpeg_progressive", OK, ALL, as_jpeg(progressive=True))
pictures("jpeg_444", OK, ALL, as_jpeg(subsampling=0))
pictures("jpeg_trailing", OK, ALL, lambda p: as_jpeg()(p) + b"garbage" * 99)
pictures("jpeg_restart", OK, ALL, as_jpeg(restart_marker_rows=1))
pictures("jpeg_mpo", OK, ALL, lambda p: encoded(p, format="MPO", save_all=True, append_images=[p]))
pictures("jpeg_cut", REFUSED, r"images/0001\.jpg", lambda p: as_jpeg()(p)[:6000])
pictures("jpeg_named_png", OK, ALL, as_jpeg(), ".png")
pictures("png_named_jpg", OK, ALL, as_png())
pictures("webp_named_jpg", OK, ALL, lambda p: encoded(p, format="WEBP"))
pictures("webp_lossless", OK, ALL, lambda p: encoded(p, format="WEBP", lossless=True), ".webp")
pictures("webp_animated", REFUSED, "is a film",
         lambda p: encoded(p, format="WEBP", save_all=True,
                           append_images=[p.convert("L")]), ".webp")
pictures("bmp", REFUSED, "BMP", lambda p: encoded(p, format="BMP"), ".bmp")
pictures("bmp_named_jpg", REFUSED, "BMP", lambda p: encoded(p, format="BMP"))
pictures("gif", REFUSED, "GIF", lambda p: encoded(p.quantize(64), format="GIF"), ".gif")
pictures("tiff", REFUSED, "TIFF", lambda p: encoded(p, format="TIFF"), ".tif")
pictures("tiff_named_jpg", REFUSED, "TIFF", lambda p: encoded(p, format="TIFF"))
pictures("jpeg2000", REFUSED, "JPEG 2000", lambda p: encoded(p, format="JPEG2000"), ".jp2")
pictures("empty", REFUSED, r"images/0001\.jpg.*empty", lambda p: b"")
pictures("html", REFUSED, r"images/0001\.jpg", lambda p: b"<!DOCTYPE html><html>")
pictures("lfs", REFUSED, "Git LFS",
         lambda p: b"version https://git-lfs.github.com/spec/v1\noid sha256:" +
         b"0" * 64 + b"\nsize 9\n")
pictures("transparent", OK, ALL, lambda p: encoded(p.convert("RGBA"), format="PNG"), ".png")
for number in (0, 1, 2, 3, 4, 5, 7, 9):  # the pixels are as the file says
    pictures(f"exif_{number}", OK, rf"{ALL}.*OK\n$", oriented(number))
pictures("exif_in_png", OK, rf"{ALL}.*OK\n$", oriented(3, "PNG"), ".png")


# ---- COLMAP's models in binary, and text that people touched
MODELS = ["SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "OPENCV_FISHEYE",
          "FULL_OPENCV", "FOV", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "THIN_PRISM_FISHEYE",
          "RAD_TAN_THIN_PRISM_FISHEYE"]  # by id


def read_text_model(folder):
    cameras = [line.split() for line in (folder / "cameras.txt").read_text().splitlines()
               if line[:1] != "#"]
    lines = (folder / "images.txt").read_text().splitlines()[1::2]
    return cameras, [line.split(maxsplit=9) for line in lines]


def to_binary(folder, images=lambda i: i, model_id=None, cameras=1, tail=b"", camera_id=1):
    listed, views = read_text_model(folder)
    views = images(views)
    with open(folder / "cameras.bin", "wb") as file:
        file.write(struct.pack("<Q", cameras * len(listed)))
        for k in range(cameras):
            for _, name, w, h, *p in listed:
                id = MODELS.index(name) if model_id is None else model_id
                file.write(struct.pack("<iiQQ", camera_id + k, id, int(w), int(h)))
                file.write(struct.pack(f"<{len(p)}d", *map(float, p)))
        file.write(tail)
    with open(folder / "images.bin", "wb") as file:
        file.write(struct.pack("<Q", len(views)))
        for id, *numbers, camera, name in views:
            file.write(struct.pack("<i7di", int(id), *map(float, numbers), camera_id))
            file.write(name.encode() + b"\0" + struct.pack("<Q", 2) + struct.pack("<ddqddq", 1, 2,
                                                                                  -1, 3, 4, -1))
        file.write(tail)
    (folder / "points3D.bin").write_bytes(struct.pack("<Q", 0) + tail)
    for name in ("cameras.txt", "images.txt", "points3D.txt"):
        (folder / name).unlink()


def binary(label, code, words, change, camera=None, **options):
    def make(fox):
        fox.copy()
        fox.model("sparse/0", camera=camera)
        to_binary(fox.out / "sparse/0", **options)
        if change:
            change(fox.out / "sparse/0")
    make.__name__ = f"binary_{label}"
    case(code, words)(make)


def append(name, body):
    return lambda folder: (folder / name).write_bytes(body)


def cut(name, n):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-n])


def with_number(at, value):
    def change(views):
        views[2][at] = value
        return views
    return change


F = "270 480 343"
for model, tail in (
        ("SIMPLE_PINHOLE", "135 240"), ("SIMPLE_RADIAL", "135 240 0.01"),
        ("RADIAL", "135 240 0.01 0"), ("OPENCV", "343 135 240 0.01 0 0 0"),
        ("OPENCV_FISHEYE", "343 135 240 0.01 0 0 0"),
        ("FULL_OPENCV", "343 135 240 0.01 0 0 0 0 0 0 0"), ("FOV", "343 135 240 0.5"),
        ("SIMPLE_RADIAL_FISHEYE", "135 240 0.01"), ("RADIAL_FISHEYE", "135 240 0.01 0"),
        ("THIN_PRISM_FISHEYE", "343 135 240 0.01 0 0 0 0 0 0 0")):
    binary(model.lower(), OK, ALL, None, f"{model} {F} {tail}")
binary("rad_tan", REFUSED, "RAD_TAN_THIN_PRISM_FISHEYE", None,
       f"RAD_TAN_THIN_PRISM_FISHEYE {F} 343 135 240" + " 0" * 12)
binary("model_99", REFUSED, "cameras.bin.*99", None, model_id=99)
binary("spare_cameras", OK, ALL, None, cameras=5)
binary("camera_id_of_2_to_the_31", OK, ALL, None, camera_id=2**31 - 1)
binary("bytes_behind", OK, ALL, None, tail=bytes(16))
binary("cut_images", REFUSED, "images.bin", cut("images.bin", 9))
binary("cut_cameras", REFUSED, "cameras.bin", cut("cameras.bin", 9))
binary("no_points", OK, ALL, lambda folder: (folder / "points3D.bin").unlink())
binary("no_images", REFUSED, "no images|no image|registered", None, images=lambda v: [])
binary("count_that_lies", REFUSED, "images.bin",
       lambda folder: (folder / "images.bin").write_bytes(struct.pack("<Q", 2**60)))
binary("rigs_and_frames", OK, ALL, lambda folder: [append(n, struct.pack("<Q", 0))(folder)
                                                   for n in ("rigs.bin", "frames.bin")])
binary("quaternion_of_length_2", OK, ALL, None, images=lambda v: [
    [i, *(str(2 * float(x)) for x in q),
     *rest] for i, *q, a, b, c, cam, name in v for rest in [[a, b, c, cam, name]]])
binary("quaternion_zero", REFUSED, r"0009|images.bin", None, images=lambda v: [
    [i, "0", "0", "0", "0", *rest] for i, _, _, _, _, *rest in v])
binary("nan", REFUSED, r"images\.bin", None, images=with_number(5, "nan"))
binary("same_name_twice", REFUSED, "twice", None, images=lambda v: v + [[str(99), *v[1][1:-1],
                                                                         v[0][-1]]])


def model_text(label, code, words, change, files=("cameras.txt", "images.txt", "points3D.txt")):
    def make(fox):
        fox.copy()
        fox.model("sparse/0")
        for name in files:
            path = fox.out / "sparse/0" / name
            out = change(path.read_text())
            path.write_bytes(out if isinstance(out, bytes) else out.encode())
    make.__name__ = f"model_text_{label}"
    case(code, words)(make)


model_text("crlf", OK, ALL, lambda t: t.replace("\n", "\r\n"))
model_text("bom", OK, ALL, lambda t: t.encode("utf-8-sig"))
model_text("tabs", OK, ALL, lambda t: t.replace(" ", "\t"))
model_text("blanks_behind", OK, ALL, lambda t: t.replace("\n", "  \n"))
model_text("no_comments", OK, ALL, lambda t: "\n".join(t.split("\n")[1:]))
model_text("no_line_of_points", OK, ALL, lambda t: t.replace("\n\n", "\n"), ["images.txt"])
model_text("many_comments", OK, ALL, lambda t: "# a\n#b\n\n" + t, ["cameras.txt", "points3D.txt"])
model_text("comma_for_point", REFUSED, "images.txt|cameras.txt", lambda t: t.replace(".", ","))
model_text("no_newline_at_the_end", OK, ALL, lambda t: t.rstrip("\n"))
model_text("utf16", OK, ALL, lambda t: t.encode("utf-16"))
model_text("infinite", REFUSED, "cameras.txt", lambda t: t.replace("135", "inf"), ["cameras.txt"])
model_text("focal_zero", REFUSED, "cameras.txt", lambda t: "1 PINHOLE 270 480 0 0 135 240\n",
           ["cameras.txt"])
model_text("parameter_missing", REFUSED, "cameras.txt", lambda t: t.replace(" 240", ""),
           ["cameras.txt"])
model_text("parameter_too_many", REFUSED, "cameras.txt", lambda t: t.replace(" 240", " 240 0"),
           ["cameras.txt"])


# ---- masks, depths and models without a list
def masks(label, code, words, save, name=lambda f: base(f)[:-4] + ".png", folder="masks"):
    """Masks beside a model of COLMAP."""
    def make(fox):
        fox.copy()
        fox.model("sparse/0")
        (fox.out / folder).mkdir()
        for file in fox.files:
            save(fox.out / folder / name(file))
    make.__name__ = f"more_masks_{label}"
    case(code, words)(make)


def half(value, mode="L", **options):
    return lambda path: Image.new(mode, (135, 240), value).save(path, **options)


LEAVE = "leave 100%"
masks("by_stem", OK, LEAVE, gray(255))
masks("by_name", OK, LEAVE, gray(255), lambda f: base(f) + ".png")
masks("in_capitals", OK, LEAVE, gray(255), lambda f: base(f)[:-4].upper() + ".PNG")
masks("jpeg", OK, LEAVE, gray(255), base)
masks("half_the_size", OK, LEAVE, half(255))
masks("of_16_bits", OK, LEAVE, lambda path: Image.fromarray(
    np.full((480, 270), 65535, np.uint16)).save(path))
masks("palette", OK, LEAVE, lambda path: Image.new("L", (270, 480), 255).quantize(2).save(path))
masks("gray_alpha", OK, LEAVE, gray((255, 255), mode="LA"))
masks("folder_mask", OK, ALL, gray(255), folder="mask")
masks("one_missing", OK, LEAVE, lambda path: path.name == "0001.png" or gray(255)(path))
masks("damaged", REFUSED, r"masks/0001\.png", lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n"))


def depth(label, code, words, values, ending=".npy", **keys):
    def make(fox):
        fox.copy()
        def save(path):
            with open(path, "wb") as file:
                np.save(file, values)
        fox.beside("depth", ending, save, "depth_file_path")
        fox.set(**keys)
        fox.write()
    make.__name__ = f"more_depths_{label}"
    case(code, words)(make)


FULL = np.full((480, 270), 5, np.float32)
depth("last_axis_of_1", OK, ALL, FULL[..., None])
depth("first_axis_of_1", OK, ALL, FULL[None])
depth("big_endian", OK, ALL, FULL.astype(">f4"))
depth("fortran", OK, ALL, np.asfortranarray(FULL))
depth("bytes", OK, ALL, FULL.astype(np.uint8))
depth("int32", OK, ALL, FULL.astype(np.int32))
depth("int64", OK, ALL, FULL.astype(np.int64))
depth("half_the_size", OK, ALL, FULL[::2, ::2])
depth("three_channels", REFUSED, "axes", np.repeat(FULL[..., None], 3, 2))
depth("zeros", REFUSED, "knows no depth", 0 * FULL)
depth("infinite_sky", OK, ALL, np.where(np.arange(480)[:, None] < 200, np.inf, FULL))
depth("negative", REFUSED, "knows no depth", -FULL)
depth("objects", REFUSED, "npy", np.array([[None]]))
depth("complex", REFUSED, "npy", FULL.astype(np.complex64))
depth("unit_as_text", OK, ALL, FULL, depth_unit_scale_factor="0.001")


def llff(label, code, words, change):
    def make(fox):
        fox.copy()
        rows = []
        for frame in fox.frames:
            m = np.array(frame["transform_matrix"], float)
            pose = np.concatenate([-m[:3, 1:2], m[:3, 0:1], m[:3, 2:4],
                                   np.array([[480.0], [270], [343]])], 1)
            rows.append([*pose.flatten(), 1.0, 10.0])
        with open(fox.out / "poses_bounds.npy", "wb") as file:
            np.save(file, change(np.array(rows)))
    make.__name__ = f"llff_{label}"
    case(code, words)(make)


llff("double", OK, ALL, lambda rows: rows)
llff("float", OK, ALL, lambda rows: rows.astype(np.float32))
llff("big_endian", OK, ALL, lambda rows: rows.astype(">f8"))
llff("without_bounds", REFUSED, "17", lambda rows: rows[:, :15])
llff("transposed", REFUSED, "17", lambda rows: rows.T)
llff("too_few", REFUSED, "11.*12|12.*11", lambda rows: rows[1:])
llff("nan", REFUSED, r"poses_bounds\.npy", lambda rows: rows * np.nan)
llff("bounds_swapped", OK, ALL, lambda rows: np.concatenate(
    [rows[:, :15], rows[:, :14:-1]], 1))


if __name__ == "__main__":
    field_inputs.main()
