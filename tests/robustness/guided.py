"""One process of coverage-guided fuzzing: a job as JSON in, atheris' own words out."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["recbole_asarrec", "yaml", "json", "csv"]):
    from robustness.fuzz import TARGETS

    from recbole_asarrec.errors import UserError


def main() -> None:
    """Read the job from the first argument and search until its runs are done."""
    job = json.loads(sys.argv[1])
    target = TARGETS[job["target"]]

    def attempt(data: bytes) -> None:
        with contextlib.suppress(UserError):
            target(data)

    found = Path(job["scratch"]) / "corpus"
    found.mkdir()
    known = [job["corpus"]] if Path(job["corpus"]).is_dir() else []
    options = [f"-runs={job['runs']}", f"-seed={job['seed'] + 1}", "-max_len=4096", "-verbosity=1"]
    atheris.Setup([sys.argv[0], *options, str(found), *known], attempt)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
