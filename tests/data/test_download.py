"""A download is whole and where it belongs, or there is nothing; a real server on this machine serves it."""

import io
import os
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError

import pytest
from helpers import ROOT, SMALL
from recbole.config import Config
from recbole.data import create_dataset
from recbole.data.dataset.dataset import Dataset
from recbole.quick_start import run_recbole

from recbole_asarrec.data import download as module
from recbole_asarrec.data.download import download
from recbole_asarrec.errors import DataError
from recbole_asarrec.prepare.paper import PUBLISHED

RUN = ROOT / "run_recbole.py"
ROWS = [f"u{user}\ti{(user + place) % 30}\t5\t{place}" for user in range(30) for place in range(8)]
INTER = "\n".join(["user_id:token\titem_id:token\trating:float\ttimestamp:float", *ROWS]) + "\n"


class Answer(NamedTuple):
    """What the server sends for a path."""

    body: bytes = b""
    code: int = 200
    length: str = "true"  # the Content-Length header; "" leaves it out
    delay: float = 0


@pytest.fixture
def serve():
    """Start a server with these answers by path; its address."""
    servers = []

    def start(answers: Mapping[str, Answer]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                answer = answers[self.path.strip("/")]
                time.sleep(answer.delay)
                self.send_response(answer.code)
                length = str(len(answer.body)) if answer.length == "true" else answer.length
                if length:
                    self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def archive(members: Mapping[str, str], links: Mapping[str, str] = {}) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
        for name, target in links.items():
            link = zipfile.ZipInfo(name)
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            file.writestr(link, target)
    return content.getvalue()


def everything_under(folder: Path) -> list:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


WHOLE = archive({"Remote.inter": INTER, "Remote.item": "item_id:token\n"})


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_papers_names_find_recboles_downloads(workplace, name):
    dataset = Dataset.__new__(Dataset)
    dataset.dataset_name, dataset.dataset_path, dataset.config = name, name, Config("AsarSASRec", name)
    url = dataset._get_download_url("url")
    assert url.startswith("https://recbole.s3-accelerate.amazonaws.com/ProcessedDatasets/")
    expected = {"amazon-games": "Amazon2018/Amazon_Video_Games.zip", "mind": "mind_large_train.zip"}
    assert url.endswith(expected.get(name, ".zip"))
    dataset.dataset_name = "nowhere"
    assert dataset._get_download_url("url", allow_none=True) is None


def test_a_paper_name_downloads_and_trains_in_one_step(workplace, monkeypatch, serve):
    """Stock RecBole 1.2.1 ends every single-process download in a barrier without a process group."""
    url = serve({"Remote.zip": Answer(WHOLE)}) + "/Remote.zip"
    monkeypatch.setattr(Dataset, "_get_download_url", lambda self, name, allow_none=False: url)
    result = run_recbole(model="AsarSASRec", dataset="amazon-games", config_dict=dict(SMALL))
    assert "ndcg@10" in result["test_result"]
    *downloaded, neighbours = everything_under(workplace / "dataset")
    assert downloaded == [
        "amazon-games",
        "amazon-games/amazon-games.inter",
        "amazon-games/amazon-games.item",
    ]
    assert neighbours.startswith("amazon-games/amazon-games.neighbours-")  # counted by the training
    assert (workplace / "dataset/amazon-games/amazon-games.inter").read_text() == INTER
    assert stat.S_IMODE(os.stat("dataset/amazon-games").st_mode) & 0o500 == 0o500


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(b"", code=404), "HTTP Error 404"),
        (Answer(b"<html>please log in</html>"), "cut off or no zip file"),
        (Answer(WHOLE[: len(WHOLE) // 2]), "cut off or no zip file"),
        (Answer(WHOLE[:50], length=str(len(WHOLE))), "cut off or no zip file"),
        (Answer(WHOLE.replace(WHOLE[60:64], b"oops", 1)), "damaged|invalid|Error -3"),
        (Answer(WHOLE, length=""), "failed"),
        (Answer(WHOLE, length="many"), "failed"),
        (Answer(archive({"Other.inter": INTER})), "holds Other.inter and no mine.inter"),
        (
            Answer(archive({"Remote.inter": INTER, "../evil.inter": "x"})),
            "outside its folder: '../evil.inter'",
        ),
        (Answer(archive({"Remote.inter": INTER, "..\\evil.inter": "x"})), "outside its folder"),
        (Answer(archive({"Remote.inter": INTER, "/evil.inter": "x"})), "outside its folder"),
        (Answer(archive({"Remote.inter": INTER, "a/../../evil": "x"})), "outside its folder"),
        (Answer(archive({"Remote.inter": INTER}, {"Remote.item": "/etc/passwd"})), "outside its folder"),
    ],
)
def test_a_broken_download_leaves_nothing(workplace, serve, answer, says):
    url = serve({"Remote.zip": answer}) + "/Remote.zip"
    with pytest.raises(
        DataError, match=f"'mine' is not in .*dataset/mine' and .*({says}).*prepare mine --from"
    ):
        download("mine", url, "dataset/mine")
    assert everything_under(workplace) in ([], ["dataset"])


def test_no_server_names_the_folder_and_the_command(workplace, monkeypatch):
    def offline(url):
        raise URLError("no route to host")

    monkeypatch.setattr("recbole.utils.url.ur.urlopen", offline)
    config = Config("AsarSASRec", "amazon-games", config_dict={"data_path": "my data"})
    with pytest.raises(DataError) as error:
        create_dataset(config)
    assert f"is not in '{workplace / 'my data' / 'amazon-games'}'" in str(error.value)
    assert "no route to host" in str(error.value)
    assert str(error.value).endswith("prepare amazon-games --from FILE --data_path 'my data'")
    assert everything_under(workplace) == []


def test_a_silent_server_is_not_waited_for_for_ever(workplace, serve, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.2)
    url = serve({"Remote.zip": Answer(WHOLE, delay=5)}) + "/Remote.zip"
    with pytest.raises(DataError, match="timed out"):
        download("mine", url, "dataset/mine")


def test_more_than_the_disk_holds_is_not_unpacked(workplace, serve, monkeypatch):
    usage = module.shutil.disk_usage(workplace)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage._replace(free=100))
    with pytest.raises(DataError, match="room for 100"):
        download("mine", serve({"Remote.zip": Answer(WHOLE)}) + "/Remote.zip", "dataset/mine")
    assert everything_under(workplace) == ["dataset"]


@pytest.mark.parametrize("said", ["n", "", None], ids=["no", "nothing", "nobody there"])
def test_more_than_a_gigabyte_is_asked_for(workplace, serve, monkeypatch, said):
    def answer(_):
        if said is None:
            raise EOFError
        return said

    monkeypatch.setattr("builtins.input", answer)
    url = serve({"Remote.zip": Answer(length=str(2 << 30))}) + "/Remote.zip"
    with pytest.raises(DataError, match="was declined; accept it with --yes.*prepare mine --from FILE"):
        download("mine", url, "dataset/mine")
    assert everything_under(workplace) == []


def test_yes_never_asks(workplace, serve, monkeypatch):
    """The server claims two gigabytes, which would be asked for, and then sends an archive of a few bytes."""
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("asked"))
    url = serve({"Remote.zip": Answer(WHOLE, length=str(2 << 30))}) + "/Remote.zip"
    monkeypatch.setattr(Dataset, "_get_download_url", lambda self, name, allow_none=False: url)
    create_dataset(Config("AsarSASRec", "mine", config_dict={"download": "yes"}))
    assert everything_under(workplace / "dataset") == ["mine", "mine/mine.inter", "mine/mine.item"]


def test_yes_on_the_command_line(workplace):
    done = subprocess.run(
        [sys.executable, str(RUN), "--yes", "--dataset=nowhere"], capture_output=True, text=True, timeout=120
    )
    assert (
        done.returncode == 2 and "Traceback" not in done.stderr and "--yes" not in done.stdout + done.stderr
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: There is no dataset 'nowhere'") and last.endswith(
        "prepare nowhere --from FILE"
    )


def test_a_second_process_that_was_faster_wins(workplace, serve):
    """Both have the same files: the later one replaces them in place and nobody fails."""
    (workplace / "dataset" / "mine").mkdir(parents=True)
    (workplace / "dataset" / "mine" / "mine.inter").write_text("the other's")
    download("mine", serve({"Remote.zip": Answer(WHOLE)}) + "/Remote.zip", "dataset/mine")
    assert (workplace / "dataset" / "mine" / "mine.inter").read_text() == INTER
