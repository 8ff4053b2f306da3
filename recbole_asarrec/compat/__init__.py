"""Every monkey patch of RecBole.

Importing :mod:`recbole_asarrec` installs the hooks, once.
"""

from recbole_asarrec.compat import (
    config,
    data,
    evaluation,
    models,
    processes,
    quick_start,
    resume,
    stability,
    training,
)
from recbole_asarrec.compat.config import plain_value, properties_folder, read_properties, restore_config
from recbole_asarrec.compat.models import model_names, register_model
from recbole_asarrec.compat.patching import RecBoleChanged, check, hooks, install

__all__ = [
    "RecBoleChanged",
    "check",
    "config",
    "data",
    "evaluation",
    "hooks",
    "install",
    "model_names",
    "models",
    "plain_value",
    "processes",
    "properties_folder",
    "quick_start",
    "read_properties",
    "register_model",
    "restore_config",
    "resume",
    "stability",
    "training",
]
