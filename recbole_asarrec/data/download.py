"""RecBole's downloads: asked for, checked, and put in place whole."""

from __future__ import annotations

import shutil
import socket
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from logging import getLogger
from pathlib import Path, PureWindowsPath

from recbole_asarrec.data.checks import how_to_prepare
from recbole_asarrec.errors import DataError, UserError
from recbole_asarrec.files import atomic_folder

_PATIENCE = 60  # seconds without a byte
# what RecBole's functions and zipfile raise for a server or an archive that misbehaves; no Content-Length at
# all is a TypeError there
_FAILURES = (
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    EOFError,
    HTTPException,
    zipfile.BadZipFile,
    zlib.error,
)


def download(name: str, url: str, folder: str, ask: bool = True) -> None:
    """Fetch one of RecBole's datasets with RecBole's own functions.

    Raises:
        DataError: it was declined or failed; nothing is left behind.
    """
    from recbole.utils.url import download_url, extract_zip, rename_atomic_files

    where = f"The dataset '{name}' is not in '{Path(folder).absolute()}'"
    remedy = how_to_prepare(name, folder)
    try:
        with _patience():
            if ask and not _agreed(url):
                raise DataError(f"{where} and its download was declined; accept it with --yes, or {remedy}")
            with atomic_folder(Path(folder)) as part:
                archive = Path(download_url(url, str(part.parent)))
                check_archive(archive)
                extract_zip(str(archive), str(part))
                rename_atomic_files(str(part), archive.stem, name)
                if not (part / f"{name}.inter").is_file():
                    found = ", ".join(sorted(path.name for path in part.iterdir())[:5]) or "nothing"
                    raise RuntimeError(f"the archive holds {found} and no {name}.inter")
    except UserError:
        raise
    except _FAILURES as error:
        raise DataError(
            f"{where} and its download from {url} failed ({error}); connect to the internet, or {remedy}"
        ) from error
    getLogger().info(f"The dataset '{name}' is in '{folder}'.")


def check_archive(archive: Path) -> None:
    """Refuse an archive that is cut off or damaged, leads out of its folder, or has no room on the disk.

    Raises:
        RuntimeError: saying which.
    """
    if not zipfile.is_zipfile(archive):
        raise RuntimeError("the archive is cut off or no zip file")
    with zipfile.ZipFile(archive) as content:
        members = content.infolist()
        for member in members:
            path = PureWindowsPath(member.filename)  # parted by / and by \\, and begun by a drive
            if path.anchor or ".." in path.parts or stat.S_ISLNK(member.external_attr >> 16):
                raise RuntimeError(f"the archive would write outside its folder: '{member.filename}'")
        size, room = sum(member.file_size for member in members), shutil.disk_usage(archive.parent).free
        if size > room:
            raise RuntimeError(f"unpacked it takes {size:,} bytes and the disk has room for {room:,}")
        if (damaged := content.testzip()) is not None:
            raise RuntimeError(f"'{damaged}' in the archive is damaged")


def _agreed(url: str) -> bool:
    from recbole.utils.url import decide_download

    try:
        return decide_download(url)
    except EOFError:  # there is nobody to ask
        return False


@contextmanager
def _patience() -> Iterator[None]:
    """RecBole waits for a silent server for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
