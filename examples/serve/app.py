"""Recommendations over HTTP from a folder that ``recbole-asarrec export`` wrote: ``python app.py FOLDER``.

``GET /health`` says whether to send requests here, ``POST /recommend`` takes a batch of histories. Bad input
gets a 4xx with one sentence under ``error``. After SIGTERM every request is still answered for ``--drain``
seconds, each with ``Connection: close`` and ``/health`` with 503, so that clients and load balancers move on;
then the server finishes what is in flight and exits with 0.
"""

from __future__ import annotations

import os
import sys

# a request runs on one thread, and as many at once as there are cores
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# serving needs no RecBole; where it is installed, this keeps Python from loading it, and torch with it
sys.modules.setdefault("recbole", None)  # type: ignore[arg-type]

import argparse
import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from types import FrameType
from typing import Annotated, Any

import anyio
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

from recbole_asarrec.serving import Recommender, UserError

MAX_HISTORIES = 256  # of a request
MAX_ITEMS = 1000  # of a history
MAX_TOKEN = 512  # characters of an item
MAX_K = 100
MAX_BODY = 2 << 20  # bytes of a request
MAX_WAITING = 256  # requests; more are told to try again

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def _token(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("an item is a text or a whole number")
    if len(token := str(value)) > MAX_TOKEN:
        raise ValueError(f"an item has at most {MAX_TOKEN} characters")
    return token


Item = Annotated[str, BeforeValidator(_token)]
History = Annotated[list[Item], Field(max_length=MAX_ITEMS)]


class Query(BaseModel):
    """The body of ``/recommend``; histories are lists of item tokens, oldest first."""

    model_config = ConfigDict(extra="forbid")
    histories: Annotated[list[History], Field(min_length=1, max_length=MAX_HISTORIES)]
    k: Annotated[int, Field(strict=True, ge=1, le=MAX_K)] = 10
    exclude_history: Annotated[bool, Field(strict=True)] = True


class State:
    """What the server knows of itself."""

    draining = False
    waiting = 0


class Guard:
    """ASGI middleware: a limit on the body, and ``Connection: close`` once the server is draining."""

    def __init__(self, app: Any, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                raise HTTPException(
                    413, f"The body has more than {MAX_BODY >> 20} MiB; send fewer histories."
                )
            return message

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and (self._state.draining or size > MAX_BODY):
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
            await send(message)

        await self._app(scope, limited, closing)


def make_app(model: Recommender, state: State) -> FastAPI:
    """The application over an opened model."""
    app = FastAPI(title="recbole-asarrec", version=str(model.info["versions"]["recbole_asarrec"]))
    app.add_middleware(Guard, state=state)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = anyio.CapacityLimiter(usable)
    about = {key: model.info[key] for key in ("model", "dataset", "num_items")}

    @app.get("/health")
    async def health() -> JSONResponse:
        status = "draining" if state.draining else "ok"
        return JSONResponse({"status": status, **about}, 503 if state.draining else 200)

    @app.post("/recommend")
    async def recommend(query: Query) -> JSONResponse:
        if state.waiting >= MAX_WAITING:
            raise HTTPException(503, "The server is busy; try again in a second.", {"Retry-After": "1"})
        state.waiting += 1
        try:
            answer = await anyio.to_thread.run_sync(_recommend, model, query, limiter=cores)
        finally:
            state.waiting -= 1
        return JSONResponse({"recommendations": answer})

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": _sentence(error.errors()[0])}, 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        said = {
            400: "The body cannot be read as JSON in UTF-8.",
            404: f"There is nothing at {request.url.path}; use POST /recommend or GET /health.",
            405: f"{request.url.path} does not take {request.method}; use POST /recommend or GET /health.",
        }
        return JSONResponse(
            {"error": said.get(error.status_code, error.detail)}, error.status_code, error.headers
        )

    return app


def _recommend(model: Recommender, query: Query) -> list[dict[str, Any]]:
    known = [[item for item in history if item in model] for history in query.histories]
    best = model.recommend(known, query.k, query.exclude_history)
    unknown = [len(history) - len(kept) for history, kept in zip(query.histories, known)]
    return [
        {"items": one.items, "scores": one.scores, "unknown_items": count}
        for one, count in zip(best, unknown)
    ]


def _sentence(error: Any) -> str:
    """One sentence for the first thing that pydantic found wrong."""
    if error["type"] == "json_invalid":
        return f"The body is not JSON: {error['ctx']['error']}."
    if error["loc"] == ("body",):
        return 'The body must be a JSON object such as {"histories": [["item", "item"]], "k": 10}.'
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"][1:])
    what = str(error["msg"]).removeprefix("Value error, ")
    return f"{where.lstrip('.')}: {what[0].lower()}{what[1:]}."


class Server(uvicorn.Server):
    """Uvicorn's, with a time to drain between SIGTERM and the end."""

    def __init__(self, config: uvicorn.Config, state: State, drain: float) -> None:
        super().__init__(config)
        self._state, self._drain = state, drain

    async def serve(self, sockets: list[Any] | None = None) -> None:
        """Run until a signal ends it."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM drains first; a second one, or Ctrl-C, finishes what is in flight and ends."""
        if sig != signal.SIGTERM or self._state.draining:
            self.should_exit = True
            return
        self._state.draining = True
        self._loop.call_soon_threadsafe(self._loop.call_later, self._drain, self._end)

    def _end(self) -> None:
        self.should_exit = True


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="what recbole-asarrec export wrote")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
    parser.add_argument("--ann", action="store_true", help="approximate search, after export --ann")
    parser.add_argument(
        "--drain", type=float, default=2.0, help="seconds between SIGTERM and the end (default: 2)"
    )
    arguments = parser.parse_args(argv)
    try:
        model = Recommender(arguments.folder, search="ann" if arguments.ann else "exact", threads=1)
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    logging.getLogger("recbole_asarrec.serving").setLevel(logging.ERROR)  # answers count unknown items
    state = State()
    config = uvicorn.Config(
        make_app(model, state), arguments.host, arguments.port, access_log=False, timeout_graceful_shutdown=30
    )
    Server(config, state, arguments.drain).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
