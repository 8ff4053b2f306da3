"""``recbole-asarrec export``: a saved model as a folder for NumPy and ONNX Runtime."""

from __future__ import annotations

import argparse
from pathlib import Path

from recbole_asarrec.export import export_checkpoint
from recbole_asarrec.export.index import ENOUGH

DESCRIPTION = (
    "Writes encoder.onnx (histories of item ids to user vectors), items.npy (item vectors), items.txt (item "
    "tokens) and model.json (settings, metrics, versions, checksums). recbole_asarrec.serving.Recommender "
    "opens the folder with NumPy and ONNX Runtime alone, without torch and RecBole. The model's scores must "
    "be inner products of the encoded history and the item embeddings; the scores of the exported model are "
    "compared with them."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``export``."""
    parser.description = DESCRIPTION
    parser.add_argument("checkpoint", type=Path, help="a .pth file that training saved")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--ann",
        action="store_true",
        help="add an index for approximate search and measure its recall (FAISS)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an exported model that exists")
    parser.add_argument(
        "--trust-checkpoint", action="store_true", help="load a checkpoint that runs code when opened"
    )


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    made = export_checkpoint(
        arguments.checkpoint,
        arguments.output,
        ann=arguments.ann,
        overwrite=arguments.overwrite,
        trust_checkpoint=arguments.trust_checkpoint,
    )
    info = made.info
    print(
        f"{info['model']} on {info['dataset']}: {info['num_items']:,} items, vectors of {info['dim']}, "
        f"histories of up to {info['max_length']} items"
    )
    verified = info["verified"]
    print(
        f"ONNX Runtime's scores are torch's on {verified['histories']} random histories: "
        f"they differ by {verified['largest_difference']:.1g} at most"
    )
    if "index" in info:
        recall, width = info["index"]["recall"], info["index"]["ef_search"]
        print(
            f"Index: recall@{recall['k']} {recall['value']:.4f} on {recall['queries']:,} random histories "
            f"(ef_search {width})"
        )
        if recall["value"] < ENOUGH:
            print(f"The recall stays below {ENOUGH}: exact search may be the better choice for this model.")
    print(f"Exported: {arguments.output} ({made.size / 2**20:.1f} MiB)")
