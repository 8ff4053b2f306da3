"""AsarRec for RecBole: robust sequential recommendation through learned, per-user augmentation.

Importing this package makes RecBole 1.2.1 run on today's packages and makes the plugin's models, defaults
and data sets known to it::

    import recbole_asarrec
    from recbole.quick_start import run_recbole

    run_recbole(model="AsarSASRec", dataset="ml-100k")
"""

from recbole_asarrec import hooks
from recbole_asarrec.version import __version__

hooks.install()

# these import RecBole, which has to be mended first
from recbole_asarrec.data import AsarDataset  # noqa: E402
from recbole_asarrec.errors import CheckpointError, ConfigError, DataError, UserError  # noqa: E402
from recbole_asarrec.models import AsarFMLPRec, AsarGRU4Rec, AsarSASRec, FMLPRec, asar  # noqa: E402
from recbole_asarrec.recommend import Recommender, recommend  # noqa: E402
from recbole_asarrec.trainer import AsarTrainer  # noqa: E402

for _model in (AsarSASRec, AsarGRU4Rec, AsarFMLPRec):
    hooks.register_model(_model, AsarDataset, AsarTrainer)
hooks.register_model(FMLPRec)

__all__ = [
    "AsarDataset",
    "AsarFMLPRec",
    "AsarGRU4Rec",
    "AsarSASRec",
    "AsarTrainer",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "FMLPRec",
    "Recommender",
    "UserError",
    "__version__",
    "asar",
    "recommend",
]
