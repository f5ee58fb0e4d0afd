#!/usr/bin/python3 -IS
"""Stands in for COLMAP 3.8 in tests: the same commands, files and lines of output, poses on a ring.

Environment:
  FAKE_COLMAP_LOG       file to which each command line is added as a line of JSON
  FAKE_COLMAP_VERSION   "3.8" (default), or "3.12", which has other names for two groups of flags and other lines of progress,
                        or "9.9", which has names for them that nobody knows
  FAKE_COLMAP_FAIL      "COMMAND:HOW": how COMMAND ends. killed, abort, disk_full, no_memory, hang, nothing, damaged,
                        no_points, scribble (over the database), hang_relaxed (of the mapper
                        by relaxed thresholds)
  FAKE_COLMAP_UNPOSED   names that the mapper leaves out, comma-separated
  FAKE_COLMAP_HARD      names that it leaves out unless its thresholds are relaxed
  FAKE_COLMAP_APART     names that it puts into a model of their own
  FAKE_COLMAP_TURNED    the camera only turned between all photographs; "flat": it moved before
                        a wall
"""
import math
import os
import struct
import sys

# json, signal, sqlite3 and time are imported where they are used: a search starts this 15 times,
# and mostly for the text of its help.

VERSION = os.environ.get("FAKE_COLMAP_VERSION", "3.8")
NEW = VERSION == "3.12"
EXTRACTION, MATCHING = {"3.12": ("FeatureExtraction", "FeatureMatching"), "9.9": ("Extraction", "Matching")}.get(
    VERSION, ("SiftExtraction", "SiftMatching"))
FIX_EXISTING = "Mapper.fix_existing_" + ("frames" if NEW else "images")
SNAPSHOTS_EVERY = "Mapper.snapshot_%s_freq" % ("frames" if NEW else "images")
FLAGS = {
    "feature_extractor": ["database_path", "image_path", "image_list_path", "ImageReader.single_camera", "ImageReader.camera_model",
                          EXTRACTION + ".use_gpu", EXTRACTION + ".num_threads", EXTRACTION + ".max_image_size",
                          "SiftExtraction.max_num_features", "SiftExtraction.first_octave",
                          "ImageReader.camera_params", "ImageReader.mask_path"],
    "exhaustive_matcher": ["database_path", MATCHING + ".use_gpu", MATCHING + ".num_threads", "ExhaustiveMatching.block_size"],
    "matches_importer": ["database_path", "match_list_path", "match_type", MATCHING + ".use_gpu", MATCHING + ".num_threads"],
    "mapper": ["database_path", "image_path", "output_path", "Mapper.num_threads", "Mapper.extract_colors", "Mapper.min_num_matches",
               "Mapper.init_min_tri_angle", "Mapper.init_min_num_inliers", "Mapper.abs_pose_min_num_inliers",
               "Mapper.abs_pose_min_inlier_ratio", "Mapper.max_reg_trials",
               "Mapper.ba_refine_focal_length",
               "Mapper.ba_refine_extra_params", FIX_EXISTING,
               "Mapper.max_extra_param", "input_path", "Mapper.snapshot_path",
               SNAPSHOTS_EVERY],
    "point_triangulator": ["database_path", "image_path", "input_path", "output_path"],
    "rig_bundle_adjuster": [
        "input_path", "output_path", "rig_config_path", "estimate_rig_relative_poses",
        "RigBundleAdjustment.refine_relative_poses", "BundleAdjustment.refine_focal_length",
        "BundleAdjustment.refine_extra_params", "BundleAdjustment.max_num_iterations"],
    "bundle_adjuster": ["input_path", "output_path", "BundleAdjustment.refine_principal_point",
                        "BundleAdjustment.max_num_iterations"],
}
MAX_ID = 2147483647


def names_of(variable):
    return [name for name in os.environ.get(variable, "").split(",") if name]


def say(text):
    print(text, flush=True)


def fail(how):
    if how == "killed":
        import signal
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "abort":
        say("F1122 10:00:00 123 context.cc:1] Check failed: something")
        os.abort()
    if how == "no_points":
        say("F1122 10:00:00 123 sfm.cc:1] Check failed: bundle_adjuster.Solve(&reconstruction) ")
        os.abort()
    if how == "disk_full":
        say("SQLite error [database.cc, line 742]: database or disk is full")
        sys.exit(1)
    if how == "no_memory":
        say("terminate called after throwing an instance of 'std::bad_alloc'")
        os.abort()
    if how == "hang":
        say("waiting")
        import time
        time.sleep(600)
    if how == "nothing":
        sys.exit(0)


def database(path):
    import sqlite3
    connection = sqlite3.connect(path)
    connection.executescript("""
      PRAGMA synchronous = OFF;
      CREATE TABLE IF NOT EXISTS images (image_id INTEGER PRIMARY KEY, name TEXT, camera_id INTEGER);
      CREATE TABLE IF NOT EXISTS keypoints (image_id INTEGER PRIMARY KEY, rows INTEGER);
      CREATE TABLE IF NOT EXISTS two_view_geometries (pair_id INTEGER PRIMARY KEY, rows INTEGER);""")
    return connection


def times(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def turned(step):
    """COLMAP's blob of the homography of a camera of focal length 60 that turns by some steps, or
    moves by them before a wall."""
    if os.environ["FAKE_COLMAP_TURNED"] == "flat":
        motion = [[1, 0, 0.2 * step], [0, 1, 0], [0, 0, 1]]
    else:
        c, s = math.cos(math.radians(3 * step)), math.sin(math.radians(3 * step))
        motion = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
    to_pixels = [[60, 0, 32], [0, 60, 24], [0, 0, 1]]
    to_rays = [[1 / 60, 0, -32 / 60], [0, 1 / 60, -24 / 60], [0, 0, 1]]
    rows = times(to_pixels, times(motion, to_rays))
    return struct.pack("<9d", *[value for row in rows for value in row])


def note_turns(connection):
    if connection.execute("SELECT 1 FROM pragma_table_info('two_view_geometries') "
                          "WHERE name = 'config'").fetchone():
        return
    connection.executescript("""
      ALTER TABLE two_view_geometries ADD COLUMN config INTEGER;
      ALTER TABLE two_view_geometries ADD COLUMN H BLOB;
      CREATE TABLE cameras (camera_id INTEGER PRIMARY KEY, width INTEGER, height INTEGER,
                            params BLOB, prior_focal_length INTEGER);""")
    for camera, in connection.execute("SELECT DISTINCT camera_id FROM images").fetchall():
        connection.execute("INSERT INTO cameras VALUES (?, 64, 48, ?, 0)",
                           (camera, struct.pack("<3d", 77, 32, 24)))
    for pair, in connection.execute("SELECT pair_id FROM two_view_geometries").fetchall():
        step = pair % MAX_ID - pair // MAX_ID
        connection.execute("UPDATE two_view_geometries SET config = 6, H = ? WHERE pair_id = ?",
                           (turned(step), pair))
    connection.commit()


def extract(flags):
    names = open(flags["image_list_path"]).read().split()
    connection = database(flags["database_path"])
    camera = connection.execute("SELECT COALESCE(MAX(camera_id), 0) + 1 FROM images").fetchone()[0]
    for i, name in enumerate(names):
        assert os.path.exists(os.path.join(flags["image_path"], name)), name
        say("Processed file [%d/%d]\n  Name:            %s" % (i + 1, len(names), name))
        row = connection.execute("INSERT INTO images (name, camera_id) VALUES (?, ?)", (name, camera))
        connection.execute("INSERT INTO keypoints VALUES (?, ?)", (row.lastrowid, 1000))
    connection.commit()


def match(flags, pairs):
    connection = database(flags["database_path"])
    ids = {name: number for number, name in connection.execute("SELECT image_id, name FROM images")}
    if pairs is None:
        names = sorted(ids)
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1:]]
    apart = set(names_of("FAKE_COLMAP_APART"))
    alone = set(names_of("FAKE_COLMAP_UNPOSED"))
    say("%s block [1/1, 1/1] in 0.100s" % ("Processing" if NEW else "Matching"))
    for a, b in pairs:
        if a in alone or b in alone or (a in apart) != (b in apart):
            continue
        low, high = sorted((ids[a], ids[b]))
        connection.execute("INSERT OR REPLACE INTO two_view_geometries (pair_id, rows) "
                           "VALUES (?, ?)", (low * MAX_ID + high, 100))
    connection.commit()
    if os.environ.get("FAKE_COLMAP_TURNED"):
        note_turns(connection)


def write_model(folder, names, cameras):
    """Cameras on a ring of radius 4 that look at the origin; points on a ball, all seen by all."""
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/cameras.bin", "wb") as file:
        file.write(struct.pack("<Q", len(cameras)))
        for camera in cameras:
            file.write(struct.pack("<iiQQ8d", camera, 4, 64, 48, 60, 60, 32, 24, 0, 0, 0, 0))
    points = [(math.cos(i), math.sin(i * 1.7), math.sin(i)) for i in range(200)]
    with open(folder + "/images.bin", "wb") as file:
        file.write(struct.pack("<Q", len(names)))
        for i, (name, camera) in enumerate(names):
            angle = 2 * math.pi * i / len(names)  # about the world's y, which points down
            file.write(struct.pack("<i7di", i + 1, math.cos(angle / 2), 0, math.sin(angle / 2), 0, 0, 0, 4, camera))
            file.write(name.encode() + b"\0" + struct.pack("<Q", 0))
    with open(folder + "/points3D.bin", "wb") as file:
        file.write(struct.pack("<Q", len(points)))
        for i, point in enumerate(points):
            file.write(struct.pack("<Q3d3BdQ", i + 1, *point, 200, 100, 50, 0.5, len(names)))
            for j in range(len(names)):
                file.write(struct.pack("<ii", j + 1, i))


def turn(w, x, y, z):
    return [[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]]


def go_on(flags):
    """Adds the photographs of the database that a model lacks, unturned, the k-th of them at
    (k, 0, -3); then halves the model and shifts it by (1, 2, 3), as COLMAP does to its models."""
    shift = (1, 2, 3)
    folder, out = flags["input_path"], flags["output_path"]
    images = [line.split() for line in open(folder + "/images.txt")
              if line.strip() and line[0] != "#"]
    cameras = open(folder + "/cameras.txt").read()
    there = {words[9] for words in images}
    known = {line.split()[0] for line in cameras.split("\n")
             if line.strip() and line[0] != "#"}
    left_out = set(names_of("FAKE_COLMAP_UNPOSED"))
    rows = database(flags["database_path"]).execute(
        "SELECT image_id, camera_id, name FROM images ORDER BY name").fetchall()
    added = [row for row in rows if row[2] not in there | left_out]
    with open(out + "/images.txt", "w") as file:
        for words in images:
            matrix = turn(*map(float, words[1:5]))
            t = [float(words[5 + i]) / 2 - sum(matrix[i][j] * shift[j] for j in range(3))
                 for i in range(3)]
            file.write(" ".join(words[:5] + ["%.17g" % value for value in t] + words[8:]) + "\n\n")
        for k, (image, camera, name) in enumerate(added):
            say("Registering image #%d (%d)" % (image, len(images) + k + 1))
            t = [-(k / 2 + 1), -2, -(-3 / 2 + 3)]
            file.write("%d 1 0 0 0 %g %g %g %d %s\n\n" % (image, *t, camera, name))
            if str(camera) not in known:
                known.add(str(camera))
                cameras += "%d SIMPLE_RADIAL 64 48 61 32 24 0.01\n" % camera
    with open(out + "/cameras.txt", "w") as file:
        file.write(cameras)
    with open(folder + "/points3D.txt") as source, open(out + "/points3D.txt", "w") as file:
        for line in source:
            words = line.split()
            at = [float(words[1 + i]) / 2 + shift[i] for i in range(3)]
            tracks = "".join(" %d 0" % image for image, _, _ in added)
            file.write("%s %g %g %g %s%s\n" % (words[0], *at, " ".join(words[4:]), tracks))


def map_cameras(flags):
    if "input_path" in flags:
        assert flags[FIX_EXISTING] == "1"
        return go_on(flags)
    connection = database(flags["database_path"])
    rows = connection.execute("SELECT name, camera_id FROM images ORDER BY name").fetchall()
    left_out = set(names_of("FAKE_COLMAP_UNPOSED"))
    if "Mapper.abs_pose_min_num_inliers" not in flags:
        left_out |= set(names_of("FAKE_COLMAP_HARD"))
    apart = set(names_of("FAKE_COLMAP_APART"))
    models = [[row for row in rows if row[0] in apart], [row for row in rows if row[0] not in left_out | apart]]
    models = [model for model in models if model]  # the larger one last, as model 1
    if not models:
        say("ERROR: failed to create sparse model")
        sys.exit(1)
    for i, model in enumerate(models):
        for j in range(len(model)):
            say(("Registering image #%d (num_reg_frames=%d)" if NEW else "Registering image #%d (%d)") % (j + 1, j + 1))
            say("  => Image sees 100 / 1000 points")
            if (j + 1) % int(flags.get(SNAPSHOTS_EVERY, MAX_ID)) == 0:
                write_model("%s/%d%d" % (flags["Mapper.snapshot_path"], i, j), model[:j + 1],
                            sorted({camera for _, camera in model}))
        write_model("%s/%d" % (flags["output_path"], i), model, sorted({camera for _, camera in model}))


def triangulate(flags):
    """The same poses, in text, and a point that all images show."""
    for file in ("cameras.txt", "images.txt"):
        with open(flags["input_path"] + "/" + file) as source:
            text = source.read()
        with open(flags["output_path"] + "/" + file, "w") as target:
            target.write(text)
    ids = [line.split()[0] for line in text.split("\n")
           if len(line.split()) > 9 and line[0] != "#"]
    with open(flags["output_path"] + "/points3D.txt", "w") as target:
        for i in range(50):
            track = " ".join(number + " 0" for number in ids)
            target.write("%d %g 0 2 9 9 9 0.5 %s\n" % (i + 1, 0.01 * i, track))


def copy_text(flags):
    for file in ("cameras.txt", "images.txt", "points3D.txt"):
        with open(flags["input_path"] + "/" + file) as source:
            text = source.read()
        with open(flags["output_path"] + "/" + file, "w") as target:
            target.write(text)


def refine(flags):
    for file in ("cameras.bin", "images.bin", "points3D.bin"):
        with open(flags["input_path"] + "/" + file, "rb") as source, open(flags["output_path"] + "/" + file, "wb") as target:
            target.write(source.read())
    say("   0  1.2e+04    0.0e+00\n   1  1.1e+04    1.0e+02")


def main():
    if len(sys.argv) < 2 or sys.argv[1] == "-h":
        say("COLMAP %s -- Structure-from-Motion and Multi-View Stereo\n              (Commit Unknown)" % VERSION)
        return
    command, arguments = sys.argv[1], sys.argv[2:]
    if arguments == ["-h"]:
        say("COLMAP %s\n\n  -h [ --help ]" % VERSION)
        for flag in FLAGS[command]:
            say("  --%s arg (=1)" % flag)
        return
    if os.environ.get("FAKE_COLMAP_LOG"):
        with open(os.environ["FAKE_COLMAP_LOG"], "a") as file:
            file.write('["%s"]\n' % '", "'.join(sys.argv[1:]))
    flags = {}
    for flag, value in zip(arguments[::2], arguments[1::2]):
        if flag[2:] not in FLAGS[command]:
            say("ERROR: unrecognised option '%s'" % flag)
            sys.exit(1)
        flags[flag[2:]] = value
    failing, _, how = os.environ.get("FAKE_COLMAP_FAIL", "").partition(":")
    if failing == command:
        fail("hang" if how == "hang_relaxed" and "Mapper.max_reg_trials" in flags else how)
    if command == "feature_extractor":
        if flags[EXTRACTION + ".use_gpu"] != "0":
            fail("abort")
        extract(flags)
    elif command == "exhaustive_matcher":
        match(flags, None)
    elif command == "matches_importer":
        match(flags, [line.split() for line in open(flags["match_list_path"])])
    elif command == "mapper":
        map_cameras(flags)
        if failing == command and how == "damaged":
            for folder in os.listdir(flags["output_path"]):
                with open(os.path.join(flags["output_path"], folder, "images.bin"), "r+b") as file:
                    file.truncate(20)
    elif command == "bundle_adjuster":
        refine(flags)
    elif command == "point_triangulator":
        triangulate(flags)
    elif command == "rig_bundle_adjuster":
        import json
        assert json.load(open(flags["rig_config_path"]))
        copy_text(flags)
    if failing == command and how == "scribble":
        with open(flags["database_path"], "r+b") as file:
            file.write(b"\0" * 4096)


if __name__ == "__main__":
    main()
