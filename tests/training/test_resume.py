"""A run that is killed and gone on with ends exactly as one that was not."""

import os
import signal
import struct
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import torch
from helpers import SMALL
from recbole.quick_start import run_recbole

from recbole_asarrec import CheckpointError
from recbole_asarrec.training import checkpoint
from recbole_asarrec.training.run_state import RunFile

LONG = {**SMALL, "epochs": 6, "stopping_step": 2}


class Killed(BaseException):
    """Stands for SIGKILL where a real one would cost a process."""


def train(folder, model="AsarSASRec", **keys):
    attention = ("inner_size", "n_layers", "n_heads") if "GRU" in model else ()
    common = {key: value for key, value in LONG.items() if key not in attention}
    result = run_recbole(
        model=model, dataset="toy", config_dict={**common, "checkpoint_dir": str(folder), **keys}
    )
    (weights,) = Path(folder).glob("*.pth")
    return result, checkpoint.read(weights)


def killed_in(monkeypatch, trainer_class, epoch, batch):
    """Make training die in the given batch of the given epoch."""
    original = trainer_class._check_nan
    seen = {"calls": 0}
    batches = {}

    def train_epoch(self, train_data, epoch_idx, *args, **kwargs):
        seen["calls"], batches["epoch"] = 0, epoch_idx
        return inner(self, train_data, epoch_idx, *args, **kwargs)

    def check(self, loss):
        seen["calls"] += 1
        if batches["epoch"] == epoch and seen["calls"] == batch:
            raise Killed
        return original(self, loss)

    inner = trainer_class._train_epoch
    monkeypatch.setattr(trainer_class, "_train_epoch", train_epoch)
    monkeypatch.setattr(trainer_class, "_check_nan", check)


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        ("AsarSASRec", {}),
        ("AsarSASRec", {"training": "all_positions", "augmentation": "cl4srec"}),
        ("AsarSASRec", {"augmentation": "s3rec", "loss_type": "BPR"}),
        ("AsarGRU4Rec", {"augmentation": "random_matrix", "batching": "random"}),
        ("SASRec", {"train_neg_sample_args": None}),
        ("GRU4Rec", {"loss_type": "BPR", "learner": "adagrad"}),
    ],
)
def test_killed_twice_ends_as_if_never(toy, monkeypatch, model, keys):
    """Generators, optimiser, samplers, both players and the early-stopping count all have to come back."""
    from recbole.trainer import Trainer

    whole, weights = train(toy / "whole", model, **keys)
    for epoch, batch in ((1, 2), (3, 1)):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_in(patch, Trainer, epoch, batch)
            train(toy / "broken", model, resume=True, **keys)
    resumed, restored = train(toy / "broken", model, resume=True, **keys)
    assert resumed == whole
    assert restored["epoch"] == weights["epoch"] and restored["cur_step"] == weights["cur_step"]
    same(restored["state_dict"], weights["state_dict"])


def test_a_real_kill(toy):
    """SIGKILL leaves no chance to tidy up; the same command resumes."""
    script = toy / "train.py"
    script.write_text(
        textwrap.dedent(f"""
            import os, signal, sys
            import recbole_asarrec
            from recbole.quick_start import run_recbole
            from recbole.trainer import Trainer

            save = Trainer._save_checkpoint
            def die(self, epoch, **kwargs):
                save(self, epoch, **kwargs)
                if epoch == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
            Trainer._save_checkpoint = die
            sys.argv = sys.argv[:1]
            run_recbole(model="AsarSASRec", dataset="toy",
                        config_dict={{**{LONG!r}, "checkpoint_dir": "broken"}})
        """)
    )
    died = subprocess.run([sys.executable, str(script)], cwd=toy, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2000:]
    whole, weights = train(toy / "whole")
    resumed, restored = train(toy / "broken", resume=True)
    assert resumed == whole
    same(restored["state_dict"], weights["state_dict"])


def test_a_finished_run_is_not_trained_again(toy, caplog):
    first, weights = train(toy / "saved", resume=True)
    with caplog.at_level("INFO"):
        LONG_AGAIN, again = train(toy / "saved", resume=True, state="INFO")
    assert first == LONG_AGAIN and "This run is finished" in caplog.text
    same(weights["state_dict"], again["state_dict"])


def test_another_configuration_or_other_data_is_another_run(toy):
    """Going on with somebody else's run would be worse than starting anew."""
    train(toy / "saved", resume=True)
    data = toy / "dataset" / "toy" / "toy.inter"
    run_recbole(
        model="AsarSASRec",
        dataset="toy",
        config_dict={**LONG, "checkpoint_dir": "saved", "resume": True, "learning_rate": 0.01},
    )
    assert len(list((toy / "saved").glob("*.pth"))) == 2
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines[:-40], *lines[-20:]]) + "\n")
    run_recbole(
        model="AsarSASRec", dataset="toy", config_dict={**LONG, "checkpoint_dir": "saved", "resume": True}
    )
    assert len(list((toy / "saved").glob("*.pth"))) == 3


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "gone"])
def test_a_damaged_file_falls_back_to_the_one_before(toy, monkeypatch, caplog, damage):
    from recbole.trainer import Trainer

    whole, weights = train(toy / "whole")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        killed_in(patch, Trainer, 3, 1)
        train(toy / "broken")
    (run,) = (toy / "broken").glob("*.run")
    content = run.read_bytes()
    with zipfile.ZipFile(run) as archive:
        largest = max(archive.infolist(), key=lambda member: member.file_size)
    name, padding = struct.unpack_from("<HH", content, largest.header_offset + 26)
    middle = (
        largest.header_offset + 30 + name + padding + largest.file_size // 2
    )  # no checksum guards padding
    flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
    if damage == "gone":
        run.unlink()
    else:
        run.write_bytes({"cut": content[:middle], "empty": b"", "flipped": flipped}[damage])
    with caplog.at_level("WARNING"):
        resumed, restored = train(toy / "broken", resume=True)
    assert resumed == whole and "The one before" in caplog.text
    same(restored["state_dict"], weights["state_dict"])


def test_two_runs_of_one_second_keep_their_own_files(toy, monkeypatch):
    """RecBole names checkpoints by the second; the later run would overwrite the earlier."""
    monkeypatch.setattr("recbole.trainer.trainer.get_local_time", lambda: "now")
    for seed in (1, 2):
        run_recbole(model="AsarSASRec", dataset="toy", config_dict={**SMALL, "seed": seed})
    assert sorted(path.name for path in Path("saved").glob("*.pth")) == [
        "AsarSASRec-now-2.pth",
        "AsarSASRec-now.pth",
    ]


def test_one_process_at_a_time(tmp_path):
    file, other = RunFile(tmp_path / "a.run"), RunFile(tmp_path / "a.run")
    assert file.claim() and not other.claim()
    file.release()
    assert other.claim()


def test_what_a_kill_left_half_written_goes_when_the_run_is_claimed(tmp_path):
    """Each would stay for ever, as large as the model; what another run writes at the moment stays."""
    left = [tmp_path / name for name in ("a.pth.12ab.part", "a.run.new.34cd.part")]
    others = [tmp_path / name for name in ("a.pth", "a-2.pth.56ef.part")]
    for path in [*left, *others]:
        path.touch()
    file = RunFile(tmp_path / "a.run")
    assert file.claim()
    file.release()
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_a_disk_that_fills_up_keeps_what_was_saved(tmp_path, monkeypatch):
    """What was whole stays whole, nothing half-written stays behind, and the sentence says what to do."""
    checkpoint.write({"config": {}, "state_dict": {}, "mark": 1}, tmp_path / "a.pth")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        CheckpointError, match=r"cannot be written .*No space left.* resume with resume: True"
    ):
        checkpoint.write({"config": {}, "state_dict": {}, "mark": 2}, tmp_path / "a.pth")
    assert checkpoint.read(tmp_path / "a.pth")["mark"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.pth"]
