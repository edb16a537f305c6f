#!/usr/bin/env python3
"""Makes docs/picture/demo.svg from a real run of `tombola demo --exit`.

    docs/picture/make.py                           builds the binary and runs it
    docs/picture/make.py --binary target/release/tombola
"""

import argparse
import subprocess
import sys
from html import escape
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
FONT_PX, LINE_PX, CHAR_PX, MARGIN_PX = 13, 17, 7.8, 16
COLUMNS = 100
# Where the bar of an hour begins, after its label.
LABEL = len("  11-28 18:00  ")
# Colours of a dark terminal: ground, text, headings, prompt and verdict.
GROUND, TEXT, BOLD, GREEN = "#1e2127", "#c8ccd4", "#ffffff", "#8fce6a"
HEADINGS = ("What ", "Who hit", "Prizes released", "Where every", "An envelope")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the program to run [default: cargo run --release]")
    parser.add_argument("--users", default="300", help="users who draw")
    parser.add_argument("--output", type=Path, default=HERE / "demo.svg", help="the file to make")
    return parser.parse_args()


def run_demo(binary, users):
    program = [binary] if binary else ["cargo", "run", "--quiet", "--release", "--"]
    # A port of the system's choice, so that a server that runs already is left alone.
    command = [*program, "demo", "--exit", "--users", users, "--listen", "127.0.0.1:0"]
    run = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"error: {' '.join(command)} ended with {run.returncode}")
    return run.stdout


def shown(output):
    """The lines of the picture: the report on the campaign, without the envelope after it."""
    lines = []
    for line in output.rstrip().splitlines():
        if line.startswith("An envelope"):
            break
        while len(line) > COLUMNS and " " in line[:COLUMNS]:
            end = line.rindex(" ", 0, COLUMNS)
            lines.append(line[:end])
            line = line[end + 1 :]
        lines.append(line)
    while lines and not lines[-1].strip():
        lines.pop()
    return without_repeats(lines)


def without_repeats(lines):
    """Hours with the same bar as their neighbours, more than three in a row, become one line."""
    kept = []
    for _, group in groupby(lines, key=lambda line: line[LABEL:] or line):
        group = list(group)
        is_bar = set(group[0][LABEL:]) & {"▓", "█"}
        if is_bar and len(group) > 3:
            group = [group[0], f"  ⋮            {len(group) - 2} hours like these", group[-1]]
        kept.extend(group)
    return kept


def colour(line):
    if line.startswith(("$", "nothing vanished")):
        return GREEN
    return BOLD if line.startswith(HEADINGS) else TEXT


def svg(lines):
    width = round(2 * MARGIN_PX + COLUMNS * CHAR_PX)
    height = 2 * MARGIN_PX + len(lines) * LINE_PX
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-label="Output of tombola demo --exit">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\','
        f' monospace" font-size="{FONT_PX}" xml:space="preserve">',
    ]
    for row, line in enumerate(lines):
        if line.strip():
            y = MARGIN_PX + (row + 1) * LINE_PX - 4
            # The length is fixed, so that columns align in whatever font there is.
            length = round(len(line) * CHAR_PX, 1)
            parts.append(
                f'<text x="{MARGIN_PX}" y="{y}" textLength="{length}"'
                f' lengthAdjust="spacingAndGlyphs" fill="{colour(line)}">{escape(line)}</text>'
            )
    return "\n".join([*parts, "</g>", "</svg>", ""])


def main():
    given = arguments()
    lines = ["$ tombola demo --exit", "", *shown(run_demo(given.binary, given.users))]
    given.output.write_text(svg(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
