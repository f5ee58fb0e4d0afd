#!/usr/bin/env python3
"""Checks that every include points along the arrows of docs/inside/design.md.

A folder's CMakeLists.txt states what it may include as nerf_may_include(word...): folders of this
repository ("common", "engine/base") and libraries (LIBRARIES below). std and the folder itself are
always allowed. No header of client/, server/, worker/ and common/ brings in a header of HEAVY,
directly or through headers of ours, but for those that declare a class of it.

What folders may include has no circle. The engine has at most MOST_ROOMS rooms, in the order of
engine/CMakeLists.txt, none of which may include a later one, and no folder of more than MOST_FILES
files. The web page's modules import each other in no circle, types included, and none of
PAGE_FLOORS imports one of a later floor. Prints each wrong include and folder, and exits 1.
"""
import pathlib
import re
import sys

ROOTS = ["common", "engine", "server", "worker", "client"]
LIBRARIES = [  # word, pattern of the include path
    ("absl", r"absl/"), ("fmt", r"fmt/"), ("spdlog", r"spdlog/"), ("libcrypto", r"openssl/"),
    ("grpc", r"grpc(pp)?/"), ("services", r".*\.grpc\.pb\.h"),
    ("proto", r"(nerf/(v1|internal)/|google/)"), ("json", r"nlohmann/"),
    ("libpng", r"png\.h"), ("turbojpeg", r"turbojpeg\.h"), ("utf8proc", r"utf8proc\.h"),
    ("heif", r"libheif/"), ("webp", r"webp/"), ("zlib", r"zlib\.h"),
    ("zstd", r"zstd\.h"), ("highway", r"hwy/"),
    ("sqlite", r"sqlite3\.h"), ("seccomp", r"seccomp\.h"), ("jose", r"(jose/|jansson\.h)"),
    ("prometheus", r"prometheus/"), ("cli11", r"CLI/"), ("boost", r"boost/"),
    ("cuda", r"(cuda|nvml)"), ("torch", r"(torch|ATen|c10)/"), ("dlopen", r"dlfcn\.h"),
    ("gloo", r"gloo/"), ("libpq", r"libpq-fe\.h"), ("curl", r"curl/"),
    ("meshoptimizer", r"meshoptimizer\.h"), ("nanovdb", r"nanovdb/"),
]
# Compile seconds each: CLI11 3, generated services 3, json.hpp 2.
HEAVY = re.compile(r"CLI/|nlohmann/json\.hpp|.*\.grpc\.pb\.h")
MAY_BE_HEAVY = re.compile(r"server/rpc/\w+/\w+_service\.h")  # the services themselves
MOST_ROOMS, MOST_FILES = 8, 40
PAGE_FLOORS = ["gen", "lib", "parts", "pages"]
IMPORT = re.compile(r'^\s*(?:import|export)\b[^;]*?["\'](\.[^"\']+)["\']', re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)


def allowances(source):
    """Folder -> set of words, for every folder whose CMakeLists.txt states one."""
    result = {}
    for root in ROOTS:
        for cmake in (source / root).rglob("CMakeLists.txt"):
            stated = re.search(r"nerf_may_include\(([^)]*)\)", cmake.read_text())
            if stated:
                result[cmake.parent.relative_to(source).as_posix()] = set(stated.group(1).split())
    return result


def home(path, folders):
    """The innermost folder with an allowance that holds the path."""
    for parent in pathlib.PurePosixPath(path).parents:
        if parent.as_posix() in folders:
            return parent.as_posix()
    return None


def word_for(path, folders):
    """What an include needs: a folder, a library, or None for std."""
    if path.split("/")[0] in ROOTS:
        return home(path, folders) or path
    for word, pattern in LIBRARIES:
        if re.match(pattern, path):
            return word
    return None


def heavy_includes(source, name, seen):
    """(header of ours, heavy header) for all that `name` brings in and is not in `seen`."""
    for _, path in INCLUDE.findall((source / name).read_text()):
        if HEAVY.match(path):
            yield name, path
        elif path not in seen and path.split("/")[0] in ROOTS and (source / path).is_file():
            seen.add(path)
            yield from heavy_includes(source, path, seen)


def circles(folders):
    """What closes a circle, as "a -> b -> a", for each circle that a walk meets."""
    found, done = [], set()

    def walk(folder, path):
        if folder in path:
            found.append(" -> ".join([*path[path.index(folder):], folder]))
        elif folder not in done:
            for word in sorted(folders[folder] & folders.keys()):
                walk(word, [*path, folder])
            done.add(folder)

    for folder in sorted(folders):
        walk(folder, [])
    return found


def wrong_rooms(source, folders):
    """What is wrong with the engine's folders, a line each."""
    cmake = (source / "engine/CMakeLists.txt").read_text()
    rooms = re.findall(r"^add_subdirectory\((\w+)\)", cmake, re.M)
    floor = {f"engine/{room}": i for i, room in enumerate(rooms)}
    if not 0 < len(rooms) <= MOST_ROOMS:
        yield f"engine has {len(rooms)} rooms; at most {MOST_ROOMS}"

    def room_of(folder):
        return "/".join(folder.split("/")[:2])

    for folder in sorted(folders):
        if not folder.startswith("engine/"):
            continue
        if room_of(folder) not in floor:
            yield f"{folder} is in no room that engine/CMakeLists.txt names"
            continue
        for word in sorted(folders[folder]):
            if floor.get(room_of(word), 0) > floor[room_of(folder)]:
                yield f"{folder} may include {word}, which is a room above it"
        files = [file for file in (source / folder).iterdir()
                 if file.is_file() and file.name != "CMakeLists.txt"]
        if len(files) > MOST_FILES:
            yield f"{folder} has {len(files)} files; at most {MOST_FILES}: divide it by subject"


def page_modules(source):
    """Module of web/src and web/viewer -> the modules that it imports."""
    files = {file: file.relative_to(source).as_posix() for folder in ("web/src", "web/viewer")
             for file in sorted((source / folder).rglob("*")) if file.suffix in (".ts", ".svelte")}
    modules = {name: set() for name in files.values()}
    for file, name in files.items():
        for path in IMPORT.findall(file.read_text()):
            target = (file.parent / path).resolve()
            found = files.get(target) or files.get(target.with_name(target.name + ".ts"))
            if found:
                modules[name].add(found)
    return modules


def wrong_imports(modules):
    """What is wrong with the page's imports, a line each."""
    def floor_of(name):
        folder = name.split("/")[2]
        return PAGE_FLOORS.index(folder) if folder in PAGE_FLOORS else len(PAGE_FLOORS)

    for name in sorted(modules):
        for imported in sorted(modules[name]):
            if floor_of(imported) > floor_of(name):
                yield f"{name} imports {imported}, which is on a floor above it"
    yield from (f"a circle: {circle}" for circle in circles(modules))


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    folders = allowances(source)
    wrong, n_files = [f"a circle: {circle}" for circle in circles(folders)], 0
    wrong += wrong_rooms(source, folders)
    modules = page_modules(source)
    wrong += wrong_imports(modules)
    for root in ROOTS:
        for file in sorted((source / root).rglob("*")):
            if file.suffix not in (".h", ".cc", ".cu", ".cuh"):
                continue
            n_files += 1
            name = file.relative_to(source).as_posix()
            own = home(name, folders)
            if own is None:
                wrong.append(f"{name}: its folder's CMakeLists.txt states no nerf_may_include(...)")
                continue
            for _, path in INCLUDE.findall(file.read_text()):
                needed = word_for(path, folders)
                if needed is not None and needed != own and needed not in folders[own]:
                    allowed = ", ".join(sorted(folders[own])) or "std alone"
                    wrong.append(f'{name} includes "{path}": {own} may include {allowed}')
            if file.suffix == ".h" and root != "engine" and not MAY_BE_HEAVY.fullmatch(name):
                for header, path in heavy_includes(source, name, set()):
                    wrong.append(f'{name} brings in "{path}" by {header}: '
                                 "declare what it needs of it")
    print("\n".join(wrong))
    print(f"{n_files} files read, {len(wrong)} wrong includes and folders")
    return 1 if wrong or n_files == 0 or not any(modules.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
