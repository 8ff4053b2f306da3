"""AsarRec for RecBole: robust sequential recommendation through learned, per-user augmentation.

Importing this package makes RecBole 1.2.1 run on today's packages and makes this package's models, defaults
and datasets known to it::

    import recbole_asarrec
    from recbole.quick_start import run_recbole

    run_recbole(model="AsarSASRec", dataset="ml-100k")

Where RecBole is not installed, :mod:`recbole_asarrec.serving` still works: it opens exported models with
NumPy and ONNX Runtime alone. Everything else then says what to install.
"""

import sys
from typing import Any

from recbole_asarrec import environment
from recbole_asarrec.version import __version__

if environment.doctor_is_running():
    pass  # starts whatever is broken
elif not environment.recbole_is_installed():
    sys.meta_path.append(environment.MissingRecBole())
else:
    with environment.explained():
        from recbole_asarrec import compat

        compat.install()

        # these import RecBole, which has to be patched first
        from recbole_asarrec.data import AsarDataset
        from recbole_asarrec.errors import CheckpointError, ConfigError, DataError, ExportError, UserError
        from recbole_asarrec.inference import Recommender, recommend
        from recbole_asarrec.models import AsarFMLPRec, AsarGRU4Rec, AsarSASRec, FMLPRec, asar
        from recbole_asarrec.training.trainer import AsarTrainer

        for _model in (AsarSASRec, AsarGRU4Rec, AsarFMLPRec):
            compat.register_model(_model, AsarDataset, AsarTrainer)
        compat.register_model(FMLPRec)


def __getattr__(name: str) -> Any:
    """Reached for names that are not there: without RecBole, most of this package's own."""
    if name in __all__:
        raise ImportError(
            f"recbole_asarrec.{name} needs RecBole, which is not installed (recbole_asarrec.serving works "
            f"without). Run: {environment.INSTALL_RECBOLE}"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AsarDataset",
    "AsarFMLPRec",
    "AsarGRU4Rec",
    "AsarSASRec",
    "AsarTrainer",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "ExportError",
    "FMLPRec",
    "Recommender",
    "UserError",
    "__version__",
    "asar",
    "recommend",
]
