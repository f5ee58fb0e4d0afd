#!/usr/bin/env python3
"""Pictures, films and EXIF that lie: each must be refused within 1 s of processor and 512 MiB.

usage: hostile_pictures.py [--engine nerf-engine] [--keep DIR] [CASE...]

Makes 102 of them: HEIC, AVIF and WebP through `check`, films and EXIF through `pose`. Prints those
that fail and the largest figures; exits 1 if one fails. A crash, a report of a sanitizer and any
exit code but 9 are failures; --limits off is for builds with sanitizers. Needs heif-enc (x265,
aom), ffmpeg, python3-pil.
"""
import argparse
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from PIL import Image

MAX_SECONDS, MAX_MIB = 1.0, 512
SIDE = 4096  # of the stream that lies behind a small statement
CASES = {}  # name: (ending, bytes)


def gradient(w, h, mode="RGB"):
    picture = Image.radial_gradient("L").resize((w, h))
    turned = [picture, picture.rotate(90), picture.rotate(180), picture]
    return Image.merge(mode, turned[:len(mode)])


def encoded(picture, ending, scratch):
    source, out = scratch / "t.png", scratch / ("t." + ending)
    picture.save(source)
    fast = ["-A", "-p", "speed=9"] if ending == "avif" else ["-p", "preset=ultrafast"]
    subprocess.run(["heif-enc", "-q", "40", *fast, source, "-o", out], check=True,
                   capture_output=True)
    return out.read_bytes()


def webp(picture, **options):
    out = io.BytesIO()
    picture.save(out, "WEBP", **options)
    return out.getvalue()


def changed(data, mark, offset, value):
    """`value` at an offset behind the first mark."""
    at = data.index(mark) + offset
    return data[:at] + value + data[at + len(value):]


def add_truncated(name, ending, data):
    for k in range(8):
        CASES[f"{name}_cut_{k}"] = (ending, data[:len(data) * (2 * k + 1) // 17])


def u32(value):
    return struct.pack(">I", value)


def box(data, kind):
    at = data.index(kind) - 4
    return data[at:at + int.from_bytes(data[at:at + 4], "big")]


def two_headers(small, large, lie):
    """The large file behind the small one's header, and last one that states the small size."""
    first, last, pixels = box(small, b"meta"), box(lie, b"meta"), box(small, b"mdat")
    place = len(large) + len(first) + len(last) + 8
    first = first.replace(u32(small.index(b"mdat") + 4), u32(place), 1)
    return large.replace(b"meta", b"free", 1) + first + last + pixels


def add_heif(name, small, large):
    def stated(data, w, h):
        parts = data.split(b"ispe")  # of the picture, and of it with its padding
        return b"ispe".join(parts[:1] + [p[:4] + u32(w) + u32(h) + p[12:] for p in parts[1:]])
    codec = b"hvcC" if name == "heic" else b"av1C"
    kind = b"hvc1" if name == "heic" else b"av01"
    lies = {
        "small_stated": stated(large, 64, 48),
        "one_pixel_stated": stated(large, 1, 1),
        "nothing_stated": stated(small, 0, 0),
        "larger_stated": stated(small, 8000, 8000),
        "beyond_limits": stated(small, 16384, 16384),
        "size_of_2_31": stated(small, 1 << 31, 1 << 31),
        "meta_of_7": changed(small, b"meta", -4, u32(7)),
        "meta_of_2_31": changed(small, b"meta", -4, u32(1 << 31)),
        "places_beyond": changed(small, b"iloc", 18, u32(0xfffffff0)),
        "sizes_beyond": changed(small, b"iloc", 22, u32(0xfffffff0)),
        "primary_absent": changed(small, b"pitm", 8, b"\xff\xff"),
        "identity": changed(small, b"infe", 12, b"iden"),
        "overlay": changed(small, b"infe", 12, b"iovl"),
        "grid_of_nothing": changed(small, b"infe", 12, b"grid"),
        "other_codec": changed(small, b"infe", 12, b"av01" if kind == b"hvc1" else b"hvc1"),
        "no_configuration": changed(large if name == "heic" else stated(large, 64, 48), codec, 0,
                                    b"free"),
        "many_items": changed(small, b"iloc", 10, b"\xff\xff"),
        "two_headers": two_headers(small, large, stated(large, 64, 48)),
    }
    assert small[small.index(b"infe") + 12:][:4] == kind
    for lie, data in lies.items():
        CASES[f"{name}_{lie}"] = (name, data)


def add_webp(lossy, lossless):
    alpha = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0"
    for lie, data in {
            "canvas_beyond": alpha + b"\xff\xff\xff" * 2 + lossy[12:],
            "canvas_of_one": alpha + b"\0\0\0" * 2 + lossy[12:],
            "frame_of_16383": lossy[:26] + b"\xff\x3f\xff\x3f" + lossy[30:],
            "lossless_of_16384": lossless[:21] + b"\xff\xff\xff\x0f" + lossless[25:],
            "chunk_of_4_gib": lossy[:16] + b"\xff\xff\xff\xff" + lossy[20:],
            "film": alpha[:20] + b"\x02" + alpha[21:] + b"\x3f\0\0\x2f\0\0" + lossy[12:],
            "no_chunk": lossy[:12]}.items():
        CASES[f"webp_{lie}"] = ("webp", data)


def add_films(scratch):
    gradient(64, 48).save(scratch / "f.png")
    made = scratch / "f.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-loop", "1", "-i", scratch / "f.png", "-t", "2",
                    "-pix_fmt", "yuv420p", made], check=True)
    film = made.read_bytes()
    sound = scratch / "s.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=d=1", sound], check=True)
    for k in range(3):
        CASES[f"film_cut_{k}"] = ("mp4", film[:len(film) * (k + 1) // 5])
    for lie, data in {
            "empty": b"", "text": b"no film\n" * 40, "sound_alone": sound.read_bytes(),
            "list_of_files": b"ffconcat version 1.0\nfile /etc/passwd\n",
            "playlist": b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n",
            "of_65535": changed(changed(film, b"tkhd", 78, b"\xff\xff\0\0" * 2), b"avc1", 28,
                                b"\xff" * 4),
            "of_ages": changed(film, b"mvhd", 16, b"\0\0\0\1\xff\xff\xff\xff"),
            "samples_of_2_32": changed(film, b"stsz", 12, b"\xff\xff\xff\xff"),
            "other_file": changed(film, b"url ", 4, b"\0\0\0\0")}.items():
        CASES[f"film_{lie}"] = ("mp4", data)


def add_exif():
    out = io.BytesIO()
    gradient(64, 48).save(out, "JPEG")
    jpeg = out.getvalue()

    def entry(tag, kind, count, value):
        return struct.pack("<HHII", tag, kind, count, value)

    def block(entries, n=None, after=0):
        return (b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", len(entries) if n is None else n) +
                b"".join(entries) + struct.pack("<I", after))
    orientation = entry(0x112, 3, 1, 6)
    for lie, exif in {
            "of_itself": block([entry(0x8769, 4, 1, 8)]),
            "after_itself": block([orientation], after=8),
            "65535_entries": block([orientation], n=65535),
            "count_of_2_32": block([entry(0x10f, 2, 0xffffffff, 40), orientation]),
            "places_beyond": block([entry(0x10f, 2, 90, 0xfffffff0),
                                    entry(0x920a, 5, 1, 0xffffffff)]),
            "orientation_9": block([entry(0x112, 3, 1, 9)]),
            "orientation_of_2_32": block([entry(0x112, 4, 0xffffffff, 0xffffffff)]),
            "by_zero": block([entry(0x920a, 5, 1, 26)]) + bytes(16),
            "folder_beyond": b"Exif\0\0II*\0\xff\xff\xff\xff",
            "folder_inside": b"Exif\0\0MM\0*\0\0\0\0",
            "zeros": b"Exif\0\0" + bytes(60000), "signature_alone": b"Exif\0\0"}.items():
        segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
        CASES[f"exif_{lie}"] = ("jpg", jpeg[:2] + segment + jpeg[2:])
    CASES["exif_length_0"] = ("jpg", jpeg[:2] + b"\xff\xe1\0\0Exif" + jpeg[2:])
    CASES["exif_length_beyond"] = ("jpg", jpeg[:2] + b"\xff\xe1\xff\xffExif\0\0II*\0" + jpeg[2:400])


def make_cases(scratch):
    large = Image.new("RGB", (SIDE, SIDE), (90, 120, 60))
    for ending in ("heic", "avif"):
        small = encoded(gradient(64, 48), ending, scratch)
        add_truncated(ending, ending, small)
        add_heif(ending, small, encoded(large, ending, scratch))
    lossy, lossless = webp(gradient(64, 48)), webp(gradient(64, 48), lossless=True)
    add_truncated("webp", "webp", lossy)
    add_truncated("webp_lossless", "webp", lossless)
    add_truncated("webp_alpha", "webp", webp(gradient(64, 48, "RGBA")))
    add_webp(lossy, lossless)
    add_films(scratch)
    add_exif()


def run_case(engine, name, folder):
    ending, data = CASES[name]
    (folder / "images").mkdir(parents=True)
    (folder / f"images/a.{ending}").write_bytes(data)
    if ending in ("mp4", "jpg"):
        command = [engine, "pose", folder / "images", "--out", folder / "posed", "--threads", "2"]
    else:
        (folder / "transforms.json").write_text(json.dumps(dict(fl_x=60, frames=[dict(
            file_path=f"images/a.{ending}", transform_matrix=[[1, 0, 0, 0], [0, 1, 0, 0],
                                                              [0, 0, 1, 4]])])))
        command = [engine, "check", folder, "--test-every", "0", "--threads", "2"]
    begin = time.monotonic()
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace")
    said = run.stdout.read()
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = 0  # it is reaped
    code = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    return code, said, used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--engine", default="nerf-engine")
    parser.add_argument("--keep")
    parser.add_argument("--limits", choices=["on", "off"], default="on")
    parser.add_argument("cases", nargs="*")
    flags = parser.parse_args()
    most, n_wrong, n_run = {"s": 0.0, "wall s": 0.0, "MiB": 0.0}, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        make_cases(pathlib.Path(scratch))
        for name in flags.cases or CASES:
            folder = pathlib.Path(flags.keep or scratch) / name
            shutil.rmtree(folder, ignore_errors=True)
            code, said, seconds, wall, mib = run_case(flags.engine, name, folder)
            n_run += 1
            most = {"s": max(most["s"], seconds), "wall s": max(most["wall s"], wall),
                    "MiB": max(most["MiB"], mib)}
            fits = flags.limits == "off" or (seconds <= MAX_SECONDS and mib <= MAX_MIB)
            if code == 9 and fits and "runtime error" not in said and "Sanitizer" not in said:
                continue
            n_wrong += 1
            print(f"WRONG {name}: exit {code}, {seconds:.2f} s, {mib:.0f} MiB: {said[-300:]}")
    print(f"{n_run} cases, {n_wrong} wrong; at most " +
          ", ".join(f"{value:.2f} {unit}" for unit, value in most.items()))
    sys.exit(1 if n_wrong or not n_run else 0)


if __name__ == "__main__":
    main()
