"""The page in a real browser: opened from disk, it asks nobody for anything and shows what the JSON says."""

import json
import shutil

import pytest
from made_runs import NASTY, small_study

from recbole_asarrec.experiments.significance import METRICS
from recbole_asarrec.report.contents import contents
from recbole_asarrec.report.formats import leaderboard_json
from recbole_asarrec.report.page import page

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
wait = pytest.importorskip("selenium.webdriver.support.wait")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (BROWSER and DRIVER),
        reason="needs Chromium and ChromeDriver: apt-get install chromium chromium-driver",
    ),
]
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1200,900"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page's address and the leaderboard beside it."""
    folder = tmp_path_factory.mktemp("report")
    found = contents(small_study())
    (folder / "report.html").write_text(page(found), encoding="utf-8")
    (folder / "leaderboard.json").write_text(leaderboard_json(found.entries), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in [*ARGUMENTS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, report):
    browser.get((report / "report.html").as_uri())
    return browser


def css(browser, selector):
    return browser.find_elements("css selector", selector)


def visible(browser, selector):
    return [one for one in css(browser, selector) if one.is_displayed()]


def scroll_to(browser, element):
    browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", element)


def draw_all(browser):
    """Scroll past every figure; each draws itself when it comes into sight."""
    for place in css(browser, ".plot"):
        scroll_to(browser, place)
        wait.WebDriverWait(browser, 20).until(lambda _, p=place: p.get_attribute("data-drawn"))


def choose(browser, value):
    browser.find_element("css selector", f"label:has(input[value={value}])").click()


def test_nothing_is_asked_of_the_network_and_nothing_goes_wrong(opened):
    draw_all(opened)
    events = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    asked = [one["request"]["url"] for one in sent if one["documentURL"].startswith("file:")]
    assert any(url.endswith("report.html") for url in asked)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked
    assert opened.get_log("browser") == []
    assert len(css(opened, ".plot .main-svg")) > 0 and all(one.text for one in css(opened, "figcaption h3"))


def test_the_pages_numbers_are_the_leaderboards(opened, report):
    """Every cell, at full precision and as it is written, under each protocol."""
    entries = json.loads((report / "leaderboard.json").read_text())["rows"]
    for protocol in ("unseen_items", "all_items"):
        choose(opened, protocol)
        rows = visible(opened, "tr[data-row]")
        wanted = [number for number, entry in enumerate(entries) if entry["protocol"] == protocol]
        assert [int(row.get_attribute("data-row")) for row in rows] == wanted
        for row, number in zip(rows, wanted):
            assert row.find_element("css selector", "th").text == entries[number]["method"]
            cells = row.find_elements("css selector", "td[data-metric]")
            assert [cell.get_attribute("data-metric") for cell in cells] == list(METRICS)
            for cell, metric in zip(cells, METRICS):
                expected = entries[number]["metrics"][metric]
                assert float(cell.get_attribute("data-value")) == expected["mean"]
                shown = f"{expected['mean']:.4f}{expected['marks']} ± {expected['std']:.4f}"
                assert cell.text.replace(" ", "") == shown.replace(" ", "")


def test_the_protocol_switch_redraws_the_figures(opened, report):
    draw_all(opened)
    read = "return document.querySelector('#noise .plot').data.find(d => d.name === 'AsarRec').y[0]"
    entries = json.loads((report / "leaderboard.json").read_text())["rows"]
    for protocol in ("unseen_items", "all_items"):
        choose(opened, protocol)
        (entry,) = (
            one
            for one in entries
            if (one["protocol"], one["method"], one["noise_ratio"]) == (protocol, "AsarRec", 0)
        )
        assert opened.execute_script(read) == entry["metrics"]["hit@10"]["mean"]


def test_tables_sort_by_any_column(opened):
    table = visible(opened, "#tables table")[0]
    scroll_to(opened, table)
    for column, metric in enumerate(METRICS, 1):
        table.find_elements("css selector", "thead button")[column].click()
        cells = table.find_elements("css selector", f"td[data-metric='{metric}']")
        values = [float(cell.get_attribute("data-value")) for cell in cells]
        assert values == sorted(values, reverse=True) and len(values) == 6


def test_the_yaml_of_a_row_opens_and_copies(opened):
    row = visible(opened, "tr.learned")[0]
    scroll_to(opened, row)
    row.find_element("css selector", "button.yaml").click()
    text = opened.find_element("id", "yaml-text").text
    assert "augmentation: asar" in text and "--model=AsarSASRec --dataset=toy" in text
    opened.find_element("id", "yaml-copy").click()
    wait.WebDriverWait(opened, 5).until(lambda b: b.find_element("id", "yaml-copy").text == "Copied")
    opened.find_element("id", "yaml-close").click()
    assert not opened.find_element("id", "yaml").is_displayed()


def chips(run, strip):
    found = run.find_elements("css selector", ".strip")[strip].find_elements("css selector", ".chip")
    return [(chip.text, chip.get_attribute("class").split()[1]) for chip in found]


def test_the_case_explorer_tells_what_happened_to_a_history(opened):
    """Names are text, dropped items stand where they were, clean and noisy stand beside each other."""
    clean, noisy = css(opened, "#case .run")
    image = "<img src=x onerror=alert(2)>"
    assert [text for text, _ in chips(clean, 0)] == [image, "Toy Story (1995)", "i3", "i4", NASTY, "i9", "i8"]
    assert chips(clean, 1) == [
        (image, "kept"),
        ("i3", "moved"),
        ("Toy Story (1995)", "moved"),
        ("i4", "dropped"),
        (NASTY, "kept"),
    ]
    kinds = " ".join(kind for _, kind in chips(clean, 2))
    assert kinds == "kept kept substituted dropped kept inserted kept"
    scores = [one.text for one in clean.find_elements("css selector", ".score")]
    assert scores == ["NDCG 0.8100 ≥ NDCG* 0.7355", "NDCG 0.7000 < NDCG* 0.7355"]
    assert len(noisy.find_elements("css selector", ".chip.noise")) == 3
    assert not clean.find_elements("css selector", ".chip.noise")
    assert opened.find_element("id", "case-user").get_attribute("value") == NASTY

    scroll_to(opened, opened.find_element("id", "case-user"))
    opened.find_element("css selector", "#case-user option[value=u2]").click()
    assert chips(css(opened, "#case .run")[0], 0)[0] == ("i5", "kept")


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_fits_a_phone(opened, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        draw_all(opened)
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
        assert opened.get_log("browser") == []
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
