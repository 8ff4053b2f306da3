"""The README's picture, drawn by the report's own figure in a browser: `python benchmarks/picture.py`.

Needs the test extra and Debian's chromium and chromium-driver, or others of that name.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from urllib.parse import unquote

from plotly.offline import get_plotlyjs
from selenium import webdriver

from recbole_asarrec.experiments.records import read
from recbole_asarrec.report.figures import families, noise_curves
from recbole_asarrec.report.study import study

HERE = Path(__file__).parent
RESULTS = HERE / "results/amazon-beauty"
METHODS = ("none", "cl4srec", "random_matrix", "asar")
PICTURE = HERE.parent / "docs/noise.svg"
SIZE = {"format": "svg", "width": 900, "height": 350}
FLAGS = ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking")
DRAW = "Plotly.toImage(arguments[0], arguments[1]).then(arguments[2])"


def main() -> None:
    """Draw HR@10 and NDCG@10 against the share of noise, by both recipes (plain: dotted)."""
    found = study([record for record in read(RESULTS) if record.spec.augmentation in METHODS])
    specs = {}
    for family in families(found):
        figure = noise_curves(found, family, ("hit@10", "ndcg@10"))
        if figure is not None:
            specs[next(iter(family.values())).recipe] = figure.specs["all_items"]
    spec = specs["robust"]
    for recipe, one in specs.items():
        for line in one["data"]:
            line["name"] = line["legendgroup"] = f"{line['name']}, {recipe}"
            line["line"]["dash"] = "dot" if recipe == "plain" else "solid"
    spec["data"] = [*specs["plain"]["data"], *spec["data"]]
    spec["layout"]["font"] = {"family": "sans-serif", "size": 14}
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as folder:
        for flag in (*FLAGS, f"user-data-dir={folder}/profile"):
            options.add_argument(f"--{flag}")
        page = Path(folder, "page.html")
        page.write_text(f"<meta charset='utf-8'><script>{get_plotlyjs()}</script>", encoding="utf-8")
        browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            browser.get(page.as_uri())
            address = browser.execute_async_script(DRAW, spec, SIZE)
        finally:
            browser.quit()
    PICTURE.write_text(unquote(address.partition(",")[2]), encoding="utf-8")


if __name__ == "__main__":
    main()
