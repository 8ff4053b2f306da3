"""What has to be installed before this package can be imported, checked with the standard library alone.

RecBole 1.2.1 asks for packages that do not install on Python 3.12 and later (ray 2.6.3), although its code
runs without them. So this package requires what RecBole really imports, and RecBole itself is installed
without its own requirements.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

RECBOLE = "1.2.1"
INSTALL_RECBOLE = f"pip install --no-deps recbole=={RECBOLE}"

# what RecBole and this package import, by module: (package, oldest release that works)
REQUIRED = {
    "torch": ("torch", "2.6"),
    "numpy": ("numpy", "1.22"),
    "pandas": ("pandas", "1.5"),
    "scipy": ("scipy", "1.8"),
    "sklearn": ("scikit-learn", "1.0"),
    "yaml": ("pyyaml", "5.4"),
    "tqdm": ("tqdm", "4.48"),
    "colorlog": ("colorlog", "4.7"),
    "colorama": ("colorama", "0.4"),
    "tensorboard": ("tensorboard", "2.5"),
    "texttable": ("texttable", "0.9"),
    "psutil": ("psutil", "5.9"),
    "thop": ("thop", "0.1.1"),
    "filelock": ("filelock", "3.24"),
}


class Problem(NamedTuple):
    """Something that is broken, and the command that repairs it."""

    what: str
    command: str


def installed(package: str) -> str | None:
    """The installed version of a package, ``None`` where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)[:3]]


def package_problems() -> list[Problem]:
    """Required packages that are missing, too old or do not import."""
    problems = []
    for module, (package, oldest) in REQUIRED.items():
        command = f'pip install --upgrade "{package}>={oldest}"'
        found = installed(package)
        if found is not None and _numbers(found) < _numbers(oldest):
            problems.append(Problem(f"{package} {found} is too old; {oldest} is needed.", command))
            continue
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = package if error.name == module else f"{error.name}, which {package} needs,"
            problems.append(Problem(f"{missing} is not installed.", command))
        except Exception as error:  # a broken package can raise anything
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            problems.append(
                Problem(
                    f"{package} is installed but does not import ({reason}).", f"{command} --force-reinstall"
                )
            )
    return problems


def recbole_problems() -> list[Problem]:
    """Whether RecBole is there, in the release this package is made for."""
    found = installed("recbole")
    if found is None or importlib.util.find_spec("recbole") is None:
        return [Problem("RecBole is not installed.", INSTALL_RECBOLE)]
    if found != RECBOLE:
        return [
            Problem(f"RecBole {found} is installed, but this package is made for {RECBOLE}.", INSTALL_RECBOLE)
        ]
    return []


@contextmanager
def explained() -> Iterator[None]:
    """Turn an import that fails for want of a package into one that says what to type."""
    try:
        yield
    except Exception as error:
        problems = package_problems() + recbole_problems()
        if not problems:
            raise
        what = " ".join(problem.what for problem in problems)
        command = " && ".join(dict.fromkeys(problem.command for problem in problems))
        raise ImportError(f"{what} Run: {command}") from error


def recbole_is_installed() -> bool:
    """Whether RecBole can be found; it is not imported."""
    return importlib.util.find_spec("recbole") is not None


class MissingRecBole:
    """The last finder of ``sys.meta_path`` where RecBole is not installed: importing it says what to type."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Called for modules that no other finder has found."""
        if name == "recbole":
            raise ModuleNotFoundError(f"RecBole is not installed. Run: {INSTALL_RECBOLE}", name=name)


def doctor_is_running() -> bool:
    """Whether this process is the doctor's command, which has to start whatever is broken."""
    command = [re.split(r"[\\/]", word)[-1].removesuffix(".exe") for word in sys.orig_argv[-2:]]
    return command in (["recbole_asarrec", "doctor"], ["recbole-asarrec", "doctor"])
