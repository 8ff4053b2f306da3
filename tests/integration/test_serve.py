"""The example service: a real server on loopback, good and bad requests, and SIGTERM under load."""

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time

import pytest
from serving.made_folder import write

from benchmarks.serving import APP, Load, as_text, make_bodies, put_load, serving
from recbole_asarrec.serving import Recommender

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to handle")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("served") / "out")


@pytest.fixture(scope="module")
def service(folder):
    with serving(folder) as running:
        yield running


def ask(service, method="POST", path="/recommend", body=b"", **headers):
    connection = service.connect()
    connection.request(method, path, body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content)


def query(**keys):
    return json.dumps({"histories": [["i3"]], **keys}).encode()


def test_it_answers_as_the_recommender_does(service, folder):
    """Tokens may be numbers in JSON; unknown ones are counted and skipped."""
    histories = [["i3", "i4"], ["moon", "i7", 5], [], ["moon"]]
    status, answer = ask(service, body=query(histories=histories, k=7))
    expected = Recommender(folder).recommend([["i3", "i4"], ["i7"], [], []], k=7, exclude_history=True)
    assert status == 200 and [one["unknown_items"] for one in answer["recommendations"]] == [0, 2, 0, 1]
    for one, right in zip(answer["recommendations"], expected, strict=True):
        assert one["items"] == right.items and one["scores"] == pytest.approx(right.scores)
    _, answer = ask(service, body=query(k=50, exclude_history=False))
    assert "i3" in answer["recommendations"][0]["items"]


def test_its_health_names_the_model(service):
    assert ask(service, "GET", "/health") == (
        200,
        {"status": "ok", "model": "Sum", "dataset": "made up", "num_items": 50},
    )


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 422, "The body must be a JSON object such as"),
        (b"nothing", 422, "The body is not JSON"),
        (b"[]", 422, "The body must be a JSON object such as"),
        (b"[" * 100_000, 400, "The body cannot be read as JSON"),
        (b'"\xff"', 400, "The body cannot be read as JSON"),
        (b"{}", 422, "histories: field required."),
        (query(histories=[]), 422, "histories: list should have at least 1 item"),
        (query(histories="i3"), 422, "histories: input should be a valid list."),
        (query(histories=["i3"]), 422, "histories[0]: input should be a valid list."),
        (query(histories=[["i3", True]]), 422, "histories[0][1]: an item is a text or a whole number."),
        (query(histories=[["i3", 1.5]]), 422, "histories[0][1]: an item is a text or a whole number."),
        (query(histories=[["x" * 513]]), 422, "histories[0][0]: an item has at most 512 characters."),
        (query(histories=[["i3"]] * 257), 422, "histories: list should have at most 256 items"),
        (query(histories=[["i3"] * 1001]), 422, "histories[0]: list should have at most 1000 items"),
        (query(k=0), 422, "k: input should be greater than or equal to 1."),
        (query(k=101), 422, "k: input should be less than or equal to 100."),
        (query(k="10"), 422, "k: input should be a valid integer."),
        (query(exclude_history="yes"), 422, "exclude_history: input should be a valid boolean."),
        (query(n=5), 422, "n: extra inputs are not permitted."),
        (b" " * (2 << 20) + b"{}", 413, "The body has more than 2 MiB; send fewer histories."),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_input_gets_a_sentence(service, body, status, says):
    found, answer = ask(service, body=body)
    assert found == status and list(answer) == ["error"] and answer["error"].startswith(says)
    assert ask(service, body=query())[0] == 200


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/recommend", 405), ("GET", "/x", 404)])
def test_other_addresses_name_the_right_ones(service, method, path, status):
    found, answer = ask(service, method, path)
    assert found == status and "use POST /recommend or GET /health" in answer["error"]


def test_a_body_without_a_length_is_limited_too(service):
    connection = service.connect()
    pieces = iter([b" " * (1 << 20)] * 3)
    connection.request(
        "POST", "/recommend", pieces, {"Content-Type": "application/json"}, encode_chunked=True
    )
    assert connection.getresponse().status == 413
    connection.close()


def test_more_than_it_can_take_is_told_to_try_again(folder, monkeypatch):
    """In this process, because it would take hundreds of slow clients."""
    spec = importlib.util.spec_from_file_location("serve_app", APP)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "serve_app", module)  # where pydantic looks annotations up
    spec.loader.exec_module(module)
    state, sent = module.State(), []
    state.waiting = module.MAX_WAITING

    async def receive():
        return {"type": "http.request", "body": query(), "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        **{
            "type": "http",
            "method": "POST",
            "path": "/recommend",
            "query_string": b"",
            "http_version": "1.1",
        },
        **{"headers": [(b"content-type", b"application/json")], "scheme": "http", "server": ("x", 1)},
    }
    asyncio.run(module.make_app(Recommender(folder), state)(scope, receive, send))
    assert sent[0]["status"] == 503 and (b"retry-after", b"1") in sent[0]["headers"]
    assert b"busy" in sent[1]["body"] and state.waiting == module.MAX_WAITING


def test_a_folder_that_cannot_be_served_ends_with_a_sentence(tmp_path):
    done = subprocess.run([sys.executable, APP, tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("Error: ") and "model.json" in done.stderr


def test_nothing_is_lost_on_sigterm(folder):
    """Under load from kept connections: every request is answered, every client is told to go elsewhere, and
    a request whose body is still on its way when the draining ends is answered too."""
    with serving(folder, "--drain", "2") as service:
        slow = service.connect()
        body = query()
        slow.putrequest("POST", "/recommend")
        slow.putheader("Content-Type", "application/json")
        slow.putheader("Content-Length", str(len(body)))
        slow.endheaders(body[:5])
        bodies = make_bodies([f"i{n}" for n in range(50)], 4)
        load = put_load(service, bodies, clients=4, requests=400, limit=60, half_way=service.terminate)
        assert load.lost == 0 and load.refused == 0 and load.closed == 4
        assert 200 <= len(load.seconds) < 400
        status, answer = ask(service, "GET", "/health")
        assert status == 503 and answer["status"] == "draining"
        with pytest.raises(OSError):  # after the draining nobody is let in any more
            for _ in range(600):
                ask(service, "GET", "/health")
                time.sleep(0.05)
        slow.send(body[5:])
        assert slow.getresponse().status == 200
        slow.close()
        assert service.wait() == 0 and "Traceback" not in "".join(service.said)


def test_the_load_test_would_notice_a_loss(folder):
    """The count of zero above is worth something only if a server that is killed loses requests."""
    with serving(folder) as service:
        bodies = make_bodies(["i1"], 1)
        load = put_load(service, bodies, clients=4, requests=200, limit=30, half_way=service.process.kill)
    assert load.lost == 4 and load.closed == 0


def test_the_load_test_is_bounded_and_its_table_right(service):
    bodies = make_bodies(["i1", "i2"], 3, count=2)
    assert len(json.loads(bodies[0])["histories"]) == 3
    assert len(put_load(service, bodies, clients=3, requests=20, limit=30).seconds) == 20
    assert put_load(service, bodies, clients=2, requests=10**9, limit=0.2).duration < 5
    row = Load([0.001] * 98 + [0.1] * 2, 4.0, refused=1, lost=0, closed=0).summary()
    assert row["p50_ms"] == 1.0 and row["p99_ms"] == 100.0 and row["requests_per_s"] == 25.0
    end = {"answered": 9, "lost": 1}
    table = as_text([{"num_items": 50, "search": "exact", "batches": {"2": row}, "on_sigterm": end}])
    assert "| 50 | exact | 2 | 1.0 | 100.0 | 25 | 50 | 1 of 10 |" in table
