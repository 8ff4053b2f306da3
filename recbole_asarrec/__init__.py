"""AsarRec for RecBole: robust sequential recommendation through learned, per-user augmentation.

Importing this package makes RecBole 1.2.1 run on today's packages and makes this package's models, defaults
and datasets known to it::

    import recbole_asarrec
    from recbole.quick_start import run_recbole

    run_recbole(model="AsarSASRec", dataset="ml-100k")
"""

from recbole_asarrec import environment
from recbole_asarrec.version import __version__

if not environment.doctor_is_running():
    with environment.explained():
        from recbole_asarrec import compat

        compat.install()

        # these import RecBole, which has to be patched first
        from recbole_asarrec.data import AsarDataset
        from recbole_asarrec.errors import CheckpointError, ConfigError, DataError, UserError
        from recbole_asarrec.inference import Recommender, recommend
        from recbole_asarrec.models import AsarFMLPRec, AsarGRU4Rec, AsarSASRec, FMLPRec, asar
        from recbole_asarrec.training.trainer import AsarTrainer

        for _model in (AsarSASRec, AsarGRU4Rec, AsarFMLPRec):
            compat.register_model(_model, AsarDataset, AsarTrainer)
        compat.register_model(FMLPRec)

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
