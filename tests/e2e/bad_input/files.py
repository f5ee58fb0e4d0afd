"""Files with one mistake each, and the commands of nerf-engine that have to refuse them.

cases() gives (name, files, command, exit code, words): `files` are bytes by their names below a folder, `command` names
them by {}. `model` is the content of a good model file, `picture` that of a good picture in PNG.
"""
import json
import math
import pathlib
import struct
import zlib

EYE = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]
BAD_DATA, USAGE, NOT_FOUND = 9, 2, 5
FAKE_COLMAP = pathlib.Path(__file__).parents[2] / "testing/fake_colmap.py"


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, depth=8, color=2, rows=None, before=b""):
    if rows is None:
        rows = (b"\0" + bytes(3 * width)) * height
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def segment(marker, content, length=None):
    """Of a JPEG; `length` is what it says of itself."""
    return struct.pack(">BBH", 0xff, marker, len(content) + 2 if length is None else length) + content


def jpeg(width, height, *segments):
    """Gray all over: one bit for each block's color, which is as the one before, and one for its end."""
    n_blocks = -(-width // 8) * -(-height // 8)
    bits = "0" * 2 * n_blocks
    bits += "1" * (-len(bits) % 8)
    one_code = bytes([1]) + bytes(15) + b"\0"  # of length 1, for 0
    return (b"\xff\xd8" + b"".join(segments) + segment(0xdb, b"\0" + b"\1" * 64) +
            segment(0xc0, struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0)) +
            segment(0xc4, b"\x00" + one_code) + segment(0xc4, b"\x10" + one_code) +
            segment(0xda, b"\x01\x01\x00\x00\x3f\x00") +
            bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)) + b"\xff\xd9")


def tiff_folder(entries, n=None, after=0):
    """`entries`: (tag, type, count, value or offset); `n`: the number that it says."""
    return (struct.pack("<H", len(entries) if n is None else n) +
            b"".join(struct.pack("<HHII", *entry) for entry in entries) + struct.pack("<I", after))


def exif(*folders, first=8, head=b"II*\0", behind=b""):
    return segment(0xe1, b"Exif\0\0" + head + struct.pack("<I", first) + b"".join(folders) + behind)


def frame(path="a.png", matrix=None, **more):
    return {"file_path": path, "transform_matrix": matrix or EYE, **more}


def scene(*frames, **keys):
    return json.dumps({"fl_x": 20, "frames": list(frames) or [frame()], **keys}).encode()


def with_cell(row, column, value):
    matrix = [list(line) for line in EYE]
    matrix[row][column] = value
    return matrix


def transforms_cases():
    text = scene().decode()
    yield "empty", b"", "line 1: not valid JSON"
    yield "cut", text[:60].encode(), "not valid JSON"
    yield "not UTF-8", b'{"frames":"\xff\xfe"}', "frames: must be a list, is string"
    yield "deep nesting", b"[" * 100000, "not valid JSON"
    yield "a list", b"[1,2]", "must be a JSON object, is array"
    yield "NaN", text.replace("20", "NaN", 1).encode(), "fl_x: must be a number, is NaN"
    yield "a number too large", text.replace("20", "1e999", 1).encode(), "a number, is 1e999"
    yield "no frames", b'{"fl_x":20}', "frames: is missing"
    yield "frames an object", b'{"fl_x":20,"frames":{}}', "frames: must be a list, is object"
    yield "frames empty", b'{"fl_x":20,"frames":[]}', "frames: is empty"
    yield "too many frames", scene(*[0] * 100001), "at most 100000"
    yield "a frame that is none", scene(frame(), None), "frames[1]: must be an object"
    yield "no matrix", scene({"file_path": "a.png"}), "transform_matrix: is missing"
    yield "matrix of 2 rows", scene(frame(matrix=EYE[:2])), "must have 4 rows"
    yield "row of 3", scene(frame(matrix=[EYE[0], [0, 1, 0], *EYE[2:]])), "row 1 must have 4 numbers"
    yield "text in a matrix", scene(frame(matrix=with_cell(1, 3, "x"))), "row 1, column 3 must be a number"
    yield "far away", scene(frame(matrix=with_cell(0, 3, 1e30))), "row 0, column 3 is 1e+30"
    yield "mirrored", scene(frame(matrix=with_cell(0, 0, -1))), "not a rotation"
    yield "sheared", scene(frame(matrix=with_cell(0, 1, 0.2))), "not a rotation"
    yield "last row", scene(frame(matrix=with_cell(3, 2, 1))), "last row"
    yield "focal length 0", scene(fl_x=0), "fl_x: 0 must be greater than 0"
    yield "focal length absurd", scene(fl_x=0.001), "is absurd"
    yield "focal length a text", scene(fl_x="20 mm"), "fl_x: must be a number, is string"
    yield "angle in degrees", scene(fl_x=None, camera_angle_x=45), "camera_angle_x"
    yield "no intrinsics", json.dumps({"frames": [frame()]}).encode(), "intrinsics are missing"
    yield "another size", scene(w=40, h=20), "a.png is 20 x 20 but the file says 40 x 20"
    yield "principal point", scene(cx=500), "cx: principal point 500"
    yield "distortion", scene(k1=1e6), "k1: 1e+06 is absurd"
    yield "unknown lens", scene(camera_model="ORTHOPHOTO"), "is not supported"
    yield "aabb_scale", scene(aabb_scale=3), "aabb_scale: 3 must be a power of two"
    yield "offset", scene(offset=[1, 2]), "offset: must be 3 numbers"
    yield "empty box", scene(aabb=[[1, 1, 1], [1, 1, 1]]), "aabb: the box is empty"
    yield "time", scene(frame(time=2)), "time: 2 must be 0 to 1"
    yield "no path", scene({"transform_matrix": EYE}), "file_path: is missing"
    yield "path a number", scene(frame(7)), "file_path: must be a text"
    yield "path absolute", scene(frame("/etc/passwd")), "is absolute"
    yield "path leaves", scene(frame("../../outside.png")), "leaves the data set's folder"
    yield "path with a zero", scene(frame("a.png\0.jpg")), "holds a zero byte"
    yield "path twice", scene(frame(), frame("./a.png", with_cell(0, 3, 1))), "is listed twice"
    yield "picture missing", scene(frame("nowhere.png")), "none of the 1 listed images exists"


def picture_cases(good):
    jpeg = b"\xff\xd8\xff"
    yield "empty", b"", "file is empty"
    yield "text", b"hello, I am no image", "neither PNG nor JPEG"
    yield "GIF", b"GIF89a\1\0\1\0", "neither PNG nor JPEG"
    yield "PNG cut in its header", good[:25], "ends before its pixels"
    yield "PNG cut in its pixels", good[:-20], "cut off"
    yield "PNG without end", good[:-12], "cut off"
    yield "PNG checksum", good[:29] + bytes([good[29] ^ 1]) + good[30:], "damaged"
    yield "PNG of width 0", png(0, 5, rows=b"\0"), "PNG of 0x5"
    yield "PNG of 2^32 pixels a side", png(0xffffffff, 5, rows=b"\0"), "2^31"
    yield "PNG of 20,000 pixels a side", png(20000, 5, rows=b"\0"), "at most 16384 a side"
    yield "PNG of 268 megapixels", png(16384, 16384, rows=b"\0"), "268435456 pixels; at most"
    yield "PNG of 400 rows that has one", png(400, 400, rows=bytes(1201)), "damaged"
    yield "PNG color type", png(20, 20, color=5), "color type 5"
    yield "PNG filter", png(1, 1, rows=b"\x09\x50\x60\x70"), "damaged"
    yield "PNG of 5,000 chunks", png(1, 1, before=chunk(b"tEXt", b"a") * 5000), "too many chunks"
    yield "PNG with a profile of 1 GB", png(20, 20, before=chunk(
        b"iCCP", b"p\0\0" + zlib.compress(bytes(1 << 24)) * 2))[:-12], "cut off"
    yield "JPEG start alone", jpeg, "ends before its frame header"
    yield "JPEG without frame", jpeg + b"\xda\0\x04\0\0", "no frame header"
    yield "JPEG garbage", jpeg + b"\xe0\0\x04\0\0garbage", "no marker"
    yield "JPEG segment of 0 bytes", jpeg + b"\xe0\0\0\0\0", "segment of 0 bytes"


def exif_cases():
    """(name, photograph, words): how many photographs can be read of one with such a block."""
    one, none = "1 different photographs", "0 different photographs"
    short, text, number, rational = 3, 2, 4, 5
    orientation, make, exif_folder, gps_folder, focal_length = 0x112, 0x10f, 0x8769, 0x8825, 0x920a
    most = 2**32 - 1

    def photo(*segments):
        return jpeg(40, 24, *segments)

    def tagged(*entries, **keys):
        return photo(exif(tiff_folder(list(entries), **keys)))
    for turn in range(1, 9):
        yield f"turned, {turn}", tagged((orientation, short, 1, turn)), one
    for turn in (0, 9, 65535):
        yield f"turn {turn}", tagged((orientation, short, 1, turn)), one
    yield "turn of 2^32 - 1 numbers", tagged((orientation, short, most, 6)), one
    yield "turn of no numbers", tagged((orientation, short, 0, 6)), one
    yield "turn as a text", tagged((orientation, text, most, most)), one
    yield "turn of an unknown type", tagged((orientation, 65535, 1, 6)), one
    yield "turns that contradict", tagged(*[(orientation, short, 1, turn) for turn in range(9)]), one
    yield "maker of 2^32 - 1 bytes", tagged((make, text, most, 8)), one
    yield "maker behind the end", tagged((make, text, 30, most)), one
    yield "maker in the last byte", photo(exif(tiff_folder([(make, text, 64, 26)]), behind=b"x")), one
    yield "maker of control bytes", photo(exif(tiff_folder([(make, text, 8, 26)]), behind=b"\x1b[2J\0\n\r%")), one
    yield "length 1/0", photo(exif(tiff_folder([(focal_length, rational, 1, 26)]), behind=b"\1\0\0\0\0\0\0\0")), one
    yield "length behind the end", tagged((focal_length, rational, 1, most - 3)), one
    yield "65,535 entries that are not there", tagged((orientation, short, 1, 6), n=65535), one
    yield "5,000 entries", tagged(*[(make, text, 4, i) for i in range(5000)]), one
    yield "folder that holds itself", tagged((exif_folder, number, 1, 8), (orientation, short, 1, 6)), one
    yield "folders that hold each other", photo(exif(tiff_folder([(exif_folder, number, 1, 26)]),
                                                     tiff_folder([(exif_folder, number, 1, 8)]))), one
    yield "folder that follows itself", tagged((orientation, short, 1, 8), after=8), one
    yield "folders in a circle", photo(exif(tiff_folder([(gps_folder, number, 1, 26)], after=26),
                                            tiff_folder([(gps_folder, number, 1, 8)], after=8))), one
    yield "folder behind the end", photo(exif(first=most)), one
    yield "folder in the header", photo(exif(first=0)), one
    yield "folder cut", photo(exif(tiff_folder([(orientation, short, 1, 6)])[:9])), one
    yield "thumbnail of 4 GB", photo(exif(tiff_folder([(orientation, short, 1, 3)], after=26),
                                          tiff_folder([(0x201, number, 1, 0), (0x202, number, 1, most)]))), one
    yield "no TIFF", photo(segment(0xe1, b"Exif\0\0")), one
    yield "byte order XX", photo(exif(head=b"XX*\0")), one
    yield "magic 43", photo(exif(head=b"II+\0")), one
    yield "largest block", photo(exif(tiff_folder([(orientation, short, 1, 6)]), behind=bytes(65500))), one
    yield "1,000 blocks", photo(*[exif(tiff_folder([(orientation, short, 1, 5)]))] * 1000), one
    yield "second block lies", photo(exif(tiff_folder([])), segment(0xe1, b"Exif\0\0" + b"\xff" * 99)), one
    yield "block behind its size", photo(segment(0xe1, b"Exif\0\0II*\0", length=65535)), none
    yield "block of 0 bytes", photo(segment(0xe1, b"Exif\0\0", length=0)), none
    yield "block of 1 byte", photo(segment(0xe1, b"", length=1)), none
    yield "file cut in its block", photo(exif(tiff_folder([(orientation, short, 1, 6)])))[:24], none


def header_of(model):
    length = struct.unpack("<Q", model[:8])[0]
    return json.loads(model[8:8 + length]), model[8 + length:]


def model_file(header, payload):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


def model_cases(good):
    header, payload = header_of(good)
    name = sorted(key for key in header if key != "__metadata__")[0]

    def spoiled(change):
        copy = json.loads(json.dumps(header))
        change(copy)
        return model_file(copy, payload)

    def of_tensor(key, value):
        return spoiled(lambda copy: copy[name].__setitem__(key, value))

    def of_metadata(key, value):
        return spoiled(lambda copy: copy["__metadata__"].__setitem__(key, value))

    yield "empty", b"", "no tensor file"
    yield "header of no length", struct.pack("<Q", 0), "no JSON object"
    yield "header of a terabyte", struct.pack("<Q", 1 << 40) + b"{}", "at most"
    yield "header longer than the file", struct.pack("<Q", 1000) + b"{}", "cut off"
    yield "no JSON", model_file(b"hello", b""), "no JSON object"
    yield "JSON cut", model_file(b'{"w": {"dtype"', b""), "no valid JSON"
    yield "deep nesting", model_file(b'{"w":' + b"[" * (1 << 20) + b"}", b""), "'w'"
    yield "a name twice", model_file(b'{"__metadata__":{},"__metadata__":{}}', b""), "twice"
    yield "pickle", b"\x80\x02}q\0.", "no tensor file"
    yield "zip of torch.save", b"PK\x03\x04" + bytes(60), ""
    yield "unknown dtype", of_tensor("dtype", "F64"), "F64"
    yield "shape negative", of_tensor("shape", [-2]), "negative"
    yield "shape overflows", of_tensor("shape", [65536] * 4), ""
    yield "shape and size", of_tensor("shape", [3]), ""
    yield "offsets behind the end", of_tensor("data_offsets", [0, 1 << 60]), ""
    yield "offsets reversed", of_tensor("data_offsets", [8, 0]), ""
    yield "unknown field", of_tensor("strides", [1]), "strides"
    yield "tensor missing", model_file({"__metadata__": header["__metadata__"]}, b""), ""
    yield "digest missing", spoiled(lambda copy: copy["__metadata__"].pop(f"sha256.{name}")), "sha256"
    yield "digest of other bytes", of_metadata(f"sha256.{name}", "0" * 64), "sha256 differs"
    yield "a bit of the weights", good[:-100] + bytes([good[-100] ^ 1]) + good[-99:], ""
    yield "weights cut", good[:-1], ""
    yield "bytes behind", good + b"x", ""
    yield "a figure changed", of_metadata("step", "3"), "the header's sha256 differs"
    # As another program may write it, without the header's digest.
    header["__metadata__"].pop("sha256.__header__")
    for key, value in [("format", "pt"), ("format_version", "99"), ("kind", "pet"), ("method", "gan"), ("step", "-1"),
                       ("seed", "x"), ("budget", "steps"), ("views", "many"), ("scene.box_max", "nan 1 1"),
                       ("scene.box_min", "2 2 2"), ("scene.flavor", "salty"), ("scene.n_levels", "99"),
                       ("scene.march", "0 -1 0"), ("scene.origin", "1 nan 3"),
                       ("camera.camera_to_world", "1 2 3"), ("camera.size", "0 0"),
                       ("camera.lens", "glass"), ("setting.beta1", "2"), ("setting.loss", "hinge"),
                       ("setting.log2_hashmap_size", "62"), ("setting.grid_resolution", "33")]:
        yield f"{key} of {value}", of_metadata(key, value), key.split(".")[-1]


def camera_cases():
    def path(**keys):
        return json.dumps({"render_width": 8, "render_height": 8, **keys}).encode()
    flat = [cell for row in EYE for cell in row]
    yield "empty", b"", "not valid JSON"
    yield "no size", json.dumps({"fl_x": 10, "frames": [frame()]}).encode(), "w: is missing"
    yield "width 8.5", scene(w=8.5, h=8), "must be a whole number"
    yield "width 60,000", scene(fl_x=10000, w=60000, h=8), "up to 16384"
    yield "no frames", b'{"w":8,"h":8,"fl_x":9,"frames":[]}', "no image is listed"
    yield "path empty", path(camera_path=[]), "camera_path"
    yield "path of numbers", path(camera_path=[7]), "must be an object"
    yield "path of 3 numbers", path(camera_path=[{"fov": 50, "camera_to_world": [1, 2, 3]}]), "16 numbers"
    yield "path with fov 200", path(camera_path=[{"fov": 200, "camera_to_world": flat}]), "fov"
    yield "path of zeros", path(camera_path=[{"fov": 50, "camera_to_world": [0] * 15 + [1]}]), "no rotation"
    yield "fisheye", path(camera_type="fisheye", camera_path=[{}]), "camera_type"


def binary_camera(identity=1, kind=1, width=20, height=20, parameters=(50, 51, 10, 10)):
    return struct.pack(f"<iiQQ{len(parameters)}d", identity, kind, width, height, *parameters)


def binary_image(camera=1, name=b"a.png", w=1.0, n_points=0):
    return struct.pack("<I7dI", 1, w, 0, 0, 0, 0, 0, 4, camera) + name + b"\0" + struct.pack("<Q", n_points)


def counted(content, n=1):
    return struct.pack("<Q", n) + content


def colmap_cases():
    """(name, ending, cameras, images, words)."""
    camera, image = counted(binary_camera()), counted(binary_image())
    text_camera, text_image = b"1 PINHOLE 20 20 50 51 10 10\n", b"1 1 0 0 0 0 0 0 1 a.png\n\n"
    yield "cameras empty", "bin", b"", image, "cut off at byte 0"
    yield "camera cut", "bin", camera[:-3], image, "cut off"
    yield "2^64 cameras", "bin", counted(binary_camera(), 2**64 - 1), image, "states 18446744073709551615 cameras"
    yield "camera model 57", "bin", counted(binary_camera(kind=57)), image, "unknown camera model 57"
    yield "camera of no size", "bin", counted(binary_camera(width=0)), image, "picture of 0x20"
    yield "camera of NaN", "bin", counted(binary_camera(parameters=(math.nan, 5, 1, 1))), image, "not a finite number"
    yield "no images", "bin", camera, counted(b"", 0), "no image is posed"
    yield "2^60 images", "bin", camera, counted(binary_image(), 1 << 60), "states 1152921504606846976 images"
    yield "2^62 points", "bin", camera, counted(binary_image(n_points=1 << 62)), "cut off"
    yield "camera id", "bin", camera, counted(binary_image(camera=8)), "camera id 8 is not in"
    yield "quaternion of 0", "bin", camera, counted(binary_image(w=0.0)), "not a rotation"
    yield "name leaves", "bin", camera, counted(binary_image(name=b"../../x.png")), "leaves the data set's folder"
    yield "no name", "bin", camera, counted(binary_image(name=b"")), "image has no name"
    yield "camera of words", "txt", b"1 PINHOLE forty 20 50 51 10 10\n", text_image, "must be CAMERA_ID MODEL"
    yield "too few parameters", "txt", b"1 PINHOLE 20 20 50 51 10\n", text_image, "has 4 parameters, not 3"
    yield "points cut", "txt", text_camera, text_image[:-1] + b"1 2 -1 3\n", "must hold the points"
    yield "binary in a text", "txt", text_camera, b"\xee" * 300, "must be IMAGE_ID"


def numpy_file(rows, header=None):
    numbers = [1.0, 0, 0, 0, 20, 0, 1, 0, 0, 20, 0, 0, 1, 4, 20, 1, 9] * rows
    text = header or f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 17), }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + struct.pack(f"<{17 * rows}d", *numbers)


def llff_cases():
    yield "empty", b"", "no .npy file"
    yield "cut in its header", numpy_file(1)[:20], "ends within its header"
    yield "cut in its numbers", numpy_file(1)[:-8], "another size"
    yield "another count", numpy_file(2), "lists 2 poses, and there"
    yield "objects", numpy_file(1, "{'descr': '|O', 'fortran_order': False, 'shape': (1, 17), }"), "float64"
    yield "not finite", numpy_file(1)[:-17 * 8] + struct.pack("<17d", *[math.nan] * 17), "not finite"


def cases(model, picture):
    for name, content, words in transforms_cases():
        yield f"transforms: {name}", {"a.png": png(20, 20), "transforms.json": content}, "check {}", BAD_DATA, words
    for name, content, words in picture_cases(png(20, 20)):
        yield f"picture: {name}", {"a.png": content, "transforms.json": scene()}, "check {}", BAD_DATA, words
    for name, content, words in exif_cases():
        command = f"pose {{}} --out {{}}/new --colmap {FAKE_COLMAP}"
        yield f"EXIF: {name}", {"a.jpg": content}, command, BAD_DATA, words
    for name, ending, cameras, images, words in colmap_cases():
        files = {"images/a.png": png(20, 20), f"sparse/0/cameras.{ending}": cameras,
                 f"sparse/0/images.{ending}": images}
        yield f"COLMAP: {name}", files, "check {}", BAD_DATA, words
    for name, content, words in llff_cases():
        yield f"LLFF: {name}", {"images/a.png": png(20, 20), "poses_bounds.npy": content}, "check {}", BAD_DATA, words
    for name, content, words in model_cases(model):
        yield f"model: {name}", {"m": content}, "inspect {}/m", BAD_DATA, words
    for name, content, words in camera_cases():
        command = "render {}/m --camera {}/camera.json --out {}/new"
        yield f"cameras: {name}", {"m": model, "camera.json": content}, command, BAD_DATA, words
