#!/usr/bin/env python3
"""Tables and the chart of the figures in docs/inside/figures (docs/inside/measured.md has their
conditions). Needs python3 alone.

    scripts/figures.py               names of the tables
    scripts/figures.py tiles         a table on standard output
    scripts/figures.py --chart       writes docs/images/quality.svg from quality.csv
    scripts/figures.py --check       fails if the chart is not that of quality.csv
"""
import csv
import math
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/inside/figures"
CHART = ROOT / "docs/images/quality.svg"

# What a line of the chart shows: its name, color, dash and the rows of quality.csv.
LINES = [
    ("nerfd, H100, three settings", "#1f6fb4", "", ("H100", "nerfd", "three settings")),
    ("the same, rays to 0.1% of light or less", "#1f6fb4", "5 4",
     ("H100", "nerfd", "three settings and min_transmittance")),
    ("nerfd, H100, defaults", "#57a9e2", "", ("H100", "nerfd", "defaults")),
    ("instant-ngp, the same H100", "#d1495b", "", ("H100", "instant-ngp", "")),
    ("nerfd, two cores, Xeon with AMX", "#2e8b57", "", ("Xeon AMX", "nerfd", "")),
    ("nerfd, two cores, Zen 4", "#8a7a2c", "", ("Zen 4", "nerfd", "")),
    ("nerfd, two cores, Zen 5", "#7b4fa3", "", ("Zen 5", "nerfd", "")),
]
SECONDS = (2, 5, 10, 30, 60, 120, 300)
WIDTH, HEIGHT, PANEL_WIDTH, PANEL_HEIGHT, TOP = 940, 440, 400, 270, 44


def rows_of(name):
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            sys.exit(f"{name}.csv:{number}: {len(row)} cells in place of {len(rows[0])}")
    return rows


def names():
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def table(name):
    rows = [[cell.replace("_", " ") for cell in rows_of(name)[0]]] + rows_of(name)[1:]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def is_of(row, key):
    machine, program, settings = key
    named = row["settings"]
    if settings.endswith("min_transmittance"):
        return row["machine"] == machine and named.startswith(settings)
    return row["machine"] == machine and row["program"] == program and settings in ("", named)


def panel(left, scene, low, high, quality):
    """One scene: PSNR over seconds of training, on a logarithmic axis."""
    def x(seconds):
        share = math.log(seconds / SECONDS[0]) / math.log(SECONDS[-1] / SECONDS[0])
        return left + 14 + (PANEL_WIDTH - 28) * share

    def y(psnr):
        return TOP + PANEL_HEIGHT * (high - psnr) / (high - low)

    out = [f'<text x="{left + PANEL_WIDTH / 2:.0f}" y="{TOP - 16}" class="title">{scene}</text>']
    for psnr in range(low, high + 1):
        out.append(f'<path d="M{left} {y(psnr):.1f}h{PANEL_WIDTH}" class="grid"/>'
                   f'<text x="{left - 7}" y="{y(psnr) + 4:.1f}" class="value">{psnr}</text>')
    for seconds in SECONDS:
        out.append(f'<path d="M{x(seconds):.1f} {TOP}v{PANEL_HEIGHT}" class="grid"/>'
                   f'<text x="{x(seconds):.1f}" y="{TOP + PANEL_HEIGHT + 17}" class="tick">'
                   f'{seconds} s</text>')
    for _, color, dash, key in LINES:
        points = sorted((float(row["seconds"]), float(row["psnr_db"]))
                        for row in quality if row["scene"] == scene and is_of(row, key))
        places = [(x(seconds), y(psnr)) for seconds, psnr in points]
        if len(places) > 1:
            path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
            out.append(f'<path d="M{path}" class="line" stroke="{color}" '
                       f'stroke-dasharray="{dash or "none"}"/>')
        for a, b in places:
            out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{color}"/>')
    return out


def chart():
    head, *rest = rows_of("quality")
    quality = [dict(zip(head, row)) for row in rest]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="PSNR over seconds of training">',
        "<style>text{font:13px sans-serif;fill:#222}.title{font-weight:bold;text-anchor:middle}"
        ".value{text-anchor:end}.tick{text-anchor:middle}.grid{stroke:#ddd;fill:none}"
        ".line{fill:none;stroke-width:2.2}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="12" y="{TOP - 16}">PSNR, dB</text>',
    ]
    out += panel(50, "lego_400", 24, 36, quality)
    out += panel(50 + PANEL_WIDTH + 70, "mic_800", 32, 37, quality)
    for number, (name, color, dash, _) in enumerate(LINES):
        left, top = 50 + 310 * (number % 3), TOP + PANEL_HEIGHT + 48 + 22 * (number // 3)
        out.append(f'<path d="M{left} {top - 4}h26" class="line" stroke="{color}" '
                   f'stroke-dasharray="{dash or "none"}"/>'
                   f'<circle cx="{left + 13}" cy="{top - 4}" r="4" fill="{color}"/>'
                   f'<text x="{left + 33}" y="{top}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main(arguments):
    if arguments == ["--chart"]:
        CHART.write_text(chart(), encoding="utf-8")
    elif arguments == ["--check"]:
        for name in names():
            rows_of(name)
        if CHART.read_text(encoding="utf-8") != chart():
            sys.exit(f"{CHART.relative_to(ROOT)} is not that of quality.csv: "
                     "run scripts/figures.py --chart")
    elif not arguments:
        print("\n".join(names()))
    elif len(arguments) == 1 and arguments[0] in names():
        print(table(arguments[0]))
    else:
        sys.exit(__doc__)


signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly before `| head`
main(sys.argv[1:])
