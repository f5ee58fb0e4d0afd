#!/usr/bin/env python3
"""Refuses what no compiler does: long commit subjects and lines, references to nothing, and names
of kinds of jobs outside of their folder.

    tests/check_text.py ROOT [COMMIT]

- Subjects: of the commits after COMMIT, at most 72 characters.
- Lines: at most 100 columns; of sources, CMake files, scripts/, docker/ and documents. Of other
  programs in Python and shell only those that came after COMMIT. Not checked: the page (web/,
  examples/typescript), data (YAML, JSON, CSV) and foreign files.
- Excepted are rows of a document's table, raw strings of C++, and a line in which a URL, or a word
  that is too long for any line, reaches beyond column 100.
- References: links of documents to files and headings, docs/... in any file, and names of sources
  in documents. A page of docs/ has at most 150 lines, and README links to it.
- Scripts: one that begins with #! can be executed.
- Kinds of jobs: of server/queue, only kinds/ names one (JobKind::kPose). Elsewhere a trait or
  function of KindPolicy answers.
"""
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

SINCE = "4008ca83f4856f9b546586c8182731026dc73c59"
MOST_SUBJECT, MOST_COLUMNS, MOST_PAGE = 72, 100, 150
FOREIGN = ("third_party/", "web/", "examples/typescript/")
CHECKED = re.compile(
    r"\.(cc|h|cu|cuh|inc|proto|cmake|md)$|(^|/)CMakeLists\.txt$|^(scripts|docker|\.ci)/"
    r"|^tests/[^/]+\.(py|sh)$")
DATA = re.compile(r"\.(ya?ml|json|csv)$")
DOCUMENT = re.compile(r"\bdocs/[\w/.-]*\w\.(?:md|png|svg|csv)\b")
SOURCE_NAME = re.compile(
    r"(?<![\w.*/<-])(?:\.\./)*([a-z0-9_/-]+\.(?:cc|h|cu|cuh|py|sh|proto|inc))\b")
QUEUE, KINDS = "server/queue/", "server/queue/kinds/"
NAMES_A_KIND = {QUEUE + "jobs/job_kind.h"}  # the enumerators, and which is meant without a name
KIND = re.compile(r"\bJobKind::k[A-Z]|\busing enum JobKind\b")

root = Path(sys.argv[1])
since = sys.argv[2] if len(sys.argv) > 2 else SINCE
faults = []


def git(*arguments):
    return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True,
                          text=True, encoding="utf-8", errors="replace").stdout


def text_of(name):
    try:
        return (root / name).read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return ""  # a picture, or a file that this working tree has deleted


def is_too_long(name, line):
    if len(line) <= MOST_COLUMNS or name.endswith(".md") and line.startswith("|"):
        return False
    if name.endswith(".cc") and 'R"(' in line:
        return False
    for word in re.finditer(r"\S+", line):
        if word.end() > MOST_COLUMNS and word.start() <= MOST_COLUMNS:
            is_alone = len(word[0]) + len(line) - len(line.lstrip()) > MOST_COLUMNS
            return not ("://" in word[0] or is_alone)
    return True


def check_subjects():
    for line in git("log", "--format=%h %s", f"{since}..HEAD").splitlines():
        commit, subject = line.split(" ", 1)
        if len(subject) > MOST_SUBJECT:
            faults.append(f"commit {commit}: subject of {len(subject)} characters: {subject}")


def check_added_lines():
    name, number = "", 0
    for line in git("diff", "-U0", "-M", since, "--", "*.py", "*.sh",
                    "tests/bench/gpu_report").splitlines():
        if line.startswith("+++ "):
            name = line[len("+++ b/"):]
        elif line.startswith("@@"):
            number = int(re.search(r"\+(\d+)", line)[1]) - 1
        elif line.startswith("+"):
            number += 1
            if not name.startswith(FOREIGN) and is_too_long(name, line[1:]):
                faults.append(f"{name}:{number}: {len(line) - 1} columns")


def check_lines(name):
    if name.startswith(FOREIGN) or DATA.search(name) or not CHECKED.search(name):
        return
    for number, line in enumerate(text_of(name).splitlines(), 1):
        if is_too_long(name, line):
            faults.append(f"{name}:{number}: {len(line)} columns")


def check_kinds(name):
    if not name.startswith(QUEUE) or name.startswith(KINDS) or name in NAMES_A_KIND:
        return
    for number, line in enumerate(text_of(name).splitlines(), 1):
        if KIND.search(line):
            faults.append(f"{name}:{number}: names a kind of job, which only {KINDS} may")


def headings_of(name):
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", text_of(name), re.MULTILINE)]


def resolve(name, target):
    parts = []
    for part in (PurePosixPath(name).parent / target).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def check_links(name, names, folders):
    text = re.sub(r"^```.*?^```", "", text_of(name), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = resolve(name, path) if path else name
        if file not in names and file not in folders:
            faults.append(f"{name}: no file {target}")
        elif anchor and anchor not in headings_of(file):
            faults.append(f"{name}: no heading {target}")
    for source in SOURCE_NAME.findall(text):
        if not any(each == source or each.endswith("/" + source) for each in names):
            faults.append(f"{name}: no source {source}")


def check_mentions(name, names):
    for document in DOCUMENT.findall(text_of(name)):
        if document not in names:
            faults.append(f"{name}: no document {document}")


def main():
    try:
        names = set(git("ls-files").splitlines())
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"SKIPPED: git lists no files: {error}")
        sys.exit(77)
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name in sorted(names):
        check_lines(name)
        check_kinds(name)
        if text_of(name).startswith("#!") and not os.access(root / name, os.X_OK):
            faults.append(f"{name}: begins with #! and cannot be executed")
        if not name.startswith("third_party/"):
            check_mentions(name, names)
        if name.endswith(".md") and not name.startswith("third_party/"):
            check_links(name, names, folders)
        if name.startswith("docs/") and name.endswith(".md"):
            length = len(text_of(name).splitlines())
            if length > MOST_PAGE:
                faults.append(f"{name}: {length} lines, at most {MOST_PAGE} are wanted")
            if f"]({name})" not in text_of("README.md"):
                faults.append(f"README.md: no link to {name}")
    try:
        check_subjects()
        check_added_lines()
    except subprocess.CalledProcessError:
        print(f"SKIPPED: subjects and added lines: this copy does not have commit {since}")
    if faults:
        sys.exit("\n".join(dict.fromkeys(faults)))


main()
