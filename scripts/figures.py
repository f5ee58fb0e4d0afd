#!/usr/bin/env python3
"""Tables and the chart of the figures in docs/inside/figures (docs/inside/measured.md has their
conditions). Needs python3 alone.

    scripts/figures.py               names of the tables
    scripts/figures.py tiles         a table on standard output
    scripts/figures.py --chart       writes docs/images/quality.svg from budgets.csv
    scripts/figures.py --check       fails if the chart is not that of budgets.csv
"""
import csv
import math
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/inside/figures"
CHART = ROOT / "docs/images/quality.svg"

# What a line of the chart shows: its name, color and scene, of the rows of budgets.csv with the
# default settings.
LINES = [
    ("mic, 100 pictures of 200x200", "#2e8b57", "mic_200"),
    ("lego, 100 pictures of 200x200", "#1f6fb4", "lego_200"),
]
SAMPLES = (5, 10, 20, 40, 80, 160)  # for each pixel
LOW, HIGH = 31, 40  # dB
WIDTH, HEIGHT, LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT = 640, 370, 50, 44, 570, 250


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


def chart():
    """PSNR over the length of the training, on a logarithmic axis."""
    head, *rest = rows_of("budgets")
    budgets = [dict(zip(head, row)) for row in rest]

    def x(samples):
        share = math.log(samples / SAMPLES[0]) / math.log(SAMPLES[-1] / SAMPLES[0])
        return LEFT + 14 + (PANEL_WIDTH - 28) * share

    def y(psnr):
        return TOP + PANEL_HEIGHT * (HIGH - psnr) / (HIGH - LOW)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="PSNR over the length of a training">',
        "<style>text{font:13px sans-serif;fill:#222}.value{text-anchor:end}"
        ".tick{text-anchor:middle}.grid{stroke:#ddd;fill:none}"
        ".line{fill:none;stroke-width:2.2}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="12" y="{TOP - 16}">PSNR, dB</text>',
    ]
    for psnr in range(LOW, HIGH + 1):
        out.append(f'<path d="M{LEFT} {y(psnr):.1f}h{PANEL_WIDTH}" class="grid"/>'
                   f'<text x="{LEFT - 7}" y="{y(psnr) + 4:.1f}" class="value">{psnr}</text>')
    for samples in SAMPLES:
        out.append(f'<path d="M{x(samples):.1f} {TOP}v{PANEL_HEIGHT}" class="grid"/>'
                   f'<text x="{x(samples):.1f}" y="{TOP + PANEL_HEIGHT + 17}" class="tick">'
                   f'{samples}</text>')
    out.append(f'<text x="{LEFT + PANEL_WIDTH / 2:.0f}" y="{TOP + PANEL_HEIGHT + 36}" class="tick">'
               'samples for each pixel</text>')
    for number, (name, color, scene) in enumerate(LINES):
        points = sorted((float(row["samples_per_pixel"]), float(row["psnr_db"])) for row in budgets
                        if row["scene"] == scene and row["settings"] == "defaults")
        places = [(x(samples), y(psnr)) for samples, psnr in points]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        out.append(f'<path d="M{path}" class="line" stroke="{color}"/>')
        for a, b in places:
            out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{color}"/>')
        left, top = LEFT + 270 * number, TOP + PANEL_HEIGHT + 62
        out.append(f'<path d="M{left} {top - 4}h26" class="line" stroke="{color}"/>'
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
            sys.exit(f"{CHART.relative_to(ROOT)} is not that of budgets.csv: "
                     "run scripts/figures.py --chart")
    elif not arguments:
        print("\n".join(names()))
    elif len(arguments) == 1 and arguments[0] in names():
        print(table(arguments[0]))
    else:
        sys.exit(__doc__)


signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly before `| head`
main(sys.argv[1:])
