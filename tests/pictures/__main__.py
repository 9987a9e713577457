"""Takes the pictures of the docs from runs that are over, and refreshes the example run: `make pictures`.

It needs Chromium and makes no run: give it the folders of an accepted, a rejected and a killed one.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gpuproof.comparing import compare_runs, write_history
from gpuproof.report.compare import Judging

IMAGES, EXAMPLE = Path("docs/images"), Path("reports/example")
SIZES = {"": (1280, 800), "-phone": (390, 844)}
MOST_BYTES = 300_000
EXAMPLE_FILES = ("report.html", "junit.xml", "summary.md", "quarantine.json", "metrics.prom", "dispute")
"""Of the example what a reader opens first; its record and tables are megabytes that `make demo` makes anew."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000")


def main() -> None:
    """Take all pictures; a browser that is missing, or a picture that is too large, ends it in plain words."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    for name in ("accepted", "rejected", "undecided"):
        parser.add_argument(name, type=Path, help=f"folder of the {name} run")
    runs = {name: Path(folder).resolve() for name, folder in vars(parser.parse_args()).items()}
    with tempfile.TemporaryDirectory() as scratch:
        for name, page in _pages(runs, Path(scratch)).items():
            for suffix, (width, height) in SIZES.items():
                _take(page, IMAGES / f"report-{name}{suffix}.png", width, height)
    _refresh_example(runs["rejected"])


def _pages(runs: Mapping[str, Path], scratch: Path) -> dict[str, Path]:
    # Copied, the folders bear the names that comparison and history are to show.
    for name, folder in runs.items():
        shutil.copytree(folder, scratch / name)
    compare_runs([scratch / "accepted", scratch / "rejected"], scratch / "comparison", None, Judging())
    write_history(scratch, None)
    pages = {name: scratch / name / "report.html" for name in runs}
    return {**pages, "comparison": scratch / "comparison" / "compare.html", "history": scratch / "index.html"}


def _take(page: Path, picture: Path, width: int, height: int) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"no browser: install one of {', '.join(BROWSERS)}")
    command = [browser, *FLAGS, f"--window-size={width},{height}", f"--screenshot={picture.resolve()}", page.as_uri()]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    _quantize(picture)
    if picture.stat().st_size > MOST_BYTES:
        sys.exit(f"{picture} has {picture.stat().st_size} bytes, more than {MOST_BYTES}")
    sys.stdout.write(f"{picture}: {picture.stat().st_size} bytes" + "\n")


def _quantize(picture: Path) -> None:
    """Reduce to 128 colours where Pillow is there; pictures of text lose nothing by it."""
    try:
        image = importlib.import_module("PIL.Image")
    except ImportError:
        return
    image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)


def _refresh_example(run: Path) -> None:
    shutil.rmtree(EXAMPLE, ignore_errors=True)
    EXAMPLE.mkdir(parents=True)
    for name in EXAMPLE_FILES:
        source = run / name
        if source.is_dir():
            shutil.copytree(source, EXAMPLE / name)
        elif source.exists():
            text = source.read_text(encoding="utf-8")
            # Where the run lay on the machine that made it is nobody's business.
            (EXAMPLE / name).write_text(text.replace(str(run), f"reports/{run.name}"), encoding="utf-8")
    sys.stdout.write(
        f"{EXAMPLE}: {sum(path.stat().st_size for path in EXAMPLE.rglob('*') if path.is_file())} bytes" + "\n"
    )


if __name__ == "__main__":
    main()
