"""Pictures of every page of the dashboard, for the README: `python tests/browser/screenshots.py`.

A picture is written only where it differs visibly from the one that is there, so that a fresh run
leaves no changes. Also the server that the browser tests share.
"""

import contextlib
import io
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
]
FOLDER = Path(__file__).parent / "screenshots"
PAGES = {
    "run": "page=run&batch=8",
    "map": "page=map&context=4096",
    "tree": "page=tree&tree_nodes=24",
    "trace": "page=trace&other_trace=smollm2-135m--prompt-lookup--greedy",
    "diffusion": "page=diffusion&threshold=0.5",
    "hardware": "page=hardware&batch=16",
    "pareto": "page=pareto&batch=64",
    "serving": "page=serving&count=60&prompt_tokens=256&output_tokens=64&rate=8",
    "validation": "page=validation",
}
SIZE = (1280, 1400)
PATIENCE_S = float(os.environ.get("ROOFTREE_PATIENCE_S", "300"))
MOST_BYTES = 200 << 10
QUALITY = 80
VISIBLE_LEVELS = 24  # of 255: less is how a glyph's edge may fall
VISIBLE_RATIO = 0.002  # of the picture


def own_words(port):
    """The command that a person types."""
    line = "import sys; from app.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", line, "dashboard", "--port", str(port)]


@contextlib.contextmanager
def served(log, *, words=None):
    """Run the dashboard's server, or another's words, and give its address.

    Args:
        log: file for what it says.
        words: makes the command from a port; the dashboard's by default.
    """
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    command = words(port) if words else own_words(port)
    known = os.pathsep.join(str(Path(path or ".").resolve()) for path in sys.path)
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, "PYTHONPATH": known}
        )
        try:
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health"),
                ):
                    break
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            else:
                raise TimeoutError(f"no server after {PATIENCE_S:g} s: {log.read_text()}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def launched(started):
    """The browser, which may be slow to start beside other work."""
    return started.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=1000 * PATIENCE_S)


def patient(page):
    """A page that waits as long as a slow machine needs."""
    page.set_default_timeout(1000 * PATIENCE_S)
    return page


def picture(page):
    """The page as WebP."""
    from PIL import Image

    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    shot = Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert(
        "RGB"
    )
    out = io.BytesIO()
    shot.save(out, "WEBP", quality=QUALITY, method=6)
    return out.getvalue()


def differs(new, old):
    """Whether two pictures differ in more than how edges fall."""
    import numpy as np
    from PIL import Image

    a, b = (
        np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), dtype=np.int16)
        for each in (new, old)
    )
    return (
        a.shape != b.shape
        or float((abs(a - b).max(axis=2) > VISIBLE_LEVELS).mean()) > VISIBLE_RATIO
    )


def main():
    """Write what changed; 0 if every picture is small enough."""
    from playwright.sync_api import sync_playwright

    from tests.browser.steps import settled, simulated

    FOLDER.mkdir(exist_ok=True)
    log = Path(os.environ.get("TMPDIR", "/tmp")) / "rooftree-screenshots.log"
    with served(log) as address, sync_playwright() as started:
        chromium = launched(started)
        for name, query in PAGES.items():
            page = patient(chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}))
            page.goto(f"{address}/?{query}")
            if name == "serving":
                simulated(page)
            settled(page)
            new, path = picture(page), FOLDER / f"{name}.webp"
            assert len(new) < MOST_BYTES, f"{name}: {len(new)} bytes"
            kept = path.exists() and not differs(new, path.read_bytes())
            if not kept:
                path.write_bytes(new)
            sys.stdout.write(f"{path.name}: {len(new) >> 10} KiB{', as it was' if kept else ''}\n")
            page.close()
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    raise SystemExit(main())
