"""A model that starts from a checkpoint: what it keeps, where new items start, and what is refused."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import SMALL, STOCK, build
from recbole.config import Config
from recbole.quick_start import load_data_and_model, run_recbole
from recbole.trainer import Trainer
from recbole.utils import get_trainer

from recbole_asarrec import CheckpointError, ConfigError, Recommender
from recbole_asarrec.__main__ import main
from recbole_asarrec.data.cooccurrence import _WINDOW
from recbole_asarrec.training import checkpoint
from recbole_asarrec.training.warm_start import read_source, take_over, warm_start

ITEMS = 20
QUICK = {**SMALL, "epochs": 1, "augmentation": "none", "recipe": "plain"}


def write(folder, name, sequences):
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user, items in sequences.items():
        lines += [f"{user}\t{item}\t{time}" for time, item in enumerate(items)]
    target = folder / "dataset" / name / f"{name}.inter"
    target.parent.mkdir(parents=True)
    target.write_text("\n".join(lines) + "\n")


def walks(users=40, seed=0):
    rng = np.random.default_rng(seed)
    firsts, lengths = rng.integers(ITEMS, size=users), rng.integers(6, 10, size=users)
    return {
        f"u{user}": [f"a{(first + step) % ITEMS}" for step in range(length)]
        for user, (first, length) in enumerate(zip(firsts, lengths))
    }


def grown():
    """The walks of later: two items have other names, two are new, and some are met by no known item."""
    renamed = {"a3": "b3", "a4": "b4"}
    later = {user: [renamed.get(item, item) for item in items] for user, items in walks(50, seed=1).items()}
    later["u0"][2:2] = ["n0", "n1"]
    later["u1"][1:1] = ["n1"]
    later["among themselves"] = ["x0", "x1", "x2", "x3", "x4"]
    later["at the end"] = ["a0", "a1", "a2", "a5", "late"]  # a test item: training must not see it
    return later


@pytest.fixture
def data(workplace):
    """Two datasets, ``before`` and ``after``, in an empty folder."""
    write(workplace, "before", walks())
    write(workplace, "after", grown())
    return workplace


@pytest.fixture(scope="module")
def trained_before(tmp_path_factory):
    """A checkpoint of ``before`` and the state of the run beside it, made once."""
    folder = tmp_path_factory.mktemp("before")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["pytest"])
        write(folder, "before", walks())
        run_recbole(model="AsarSASRec", dataset="before", config_dict=QUICK)
    return folder / "saved"


@pytest.fixture
def file(trained_before, data):
    """A copy of that checkpoint in the folder of a test."""
    (weights,) = trained_before.glob("*.pth")
    return Path(shutil.copy(weights, data / "old.pth"))


def expected_vectors(state, start, dataset):
    """Item by item and pair by pair, from the tokens: what every item of ``after`` starts with."""
    old = dict(zip(state["item_tokens"], state["state_dict"]["item_embedding.weight"].double()))
    names = [str(token) for token in dataset.field2id_token["item_id"]]
    usual = torch.stack([old[name] for name in names[1:] if name in old]).norm(dim=1).mean()
    found, kinds = {}, dict.fromkeys(("kept", "near", "random"), 0)
    for number, name in enumerate(names[1:], 1):
        if name in old:
            found[name] = old[name]
            kinds["kept"] += 1
            continue
        mean = torch.zeros_like(old["a0"])
        for items in grown().values():
            training = items[:-2]  # leave one out, twice
            for here, item in enumerate(training):
                for there, other in enumerate(training):
                    if item == name and other in old and 0 < abs(here - there) <= _WINDOW:
                        mean += old[other] / abs(here - there)
        kinds["near" if mean.any() else "random"] += 1
        found[name] = mean / mean.norm() * usual if mean.any() else start[number].double()
    return found, kinds


@pytest.mark.parametrize("model", ["AsarSASRec", "SASRec"])
def test_every_item_against_loops(data, model):
    """Kept by token and not by id, placed by training data alone, at random without a neighbour."""
    keys = QUICK if model == "AsarSASRec" else {**SMALL, **STOCK, "epochs": 1}
    run_recbole(model=model, dataset="before", config_dict=keys)
    (file,) = Path("saved").glob("*.pth")
    state = checkpoint.read(file)
    _, (train, _, _), made = build(model, "after", small=keys)
    start = made.item_embedding.weight.detach().clone()
    report = take_over(made, train._dataset, state, str(file))
    wanted, kinds = expected_vectors(state, start, train._dataset)
    after = made.item_embedding.weight.detach().double()
    for number, name in enumerate(train._dataset.field2id_token["item_id"][1:], 1):
        assert torch.allclose(after[number], wanted[name], atol=1e-5), name
    assert kinds == {"kept": ITEMS - 2, "near": 4, "random": 6}
    assert report[1:] == (ITEMS - 2, 4, 6, 2, ())
    for name, weight in made.state_dict().items():
        if name != "item_embedding.weight":
            assert torch.equal(weight, state["state_dict"][name]), name


def test_on_the_same_data_it_is_the_checkpoint(file):
    """Nothing is new: every weight is the checkpoint's, and so is the average that validation uses."""
    keys = {"warm_start": str(file), "ema_decay": 0.9}
    config, (train, _, _), model = build("AsarSASRec", "before", small=QUICK, **keys)
    trainer = get_trainer(config["MODEL_TYPE"], "AsarSASRec")(config, model)
    report = warm_start(trainer, train._dataset)
    assert report is not None and report[1:] == (ITEMS, 0, 0, 0, ())
    state = checkpoint.read(file)["state_dict"]
    average = trainer.ema.state_dict()["average"]
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, state[name]), name
        assert name not in average or torch.equal(average[name], weight), name
    with torch.no_grad():
        model.item_embedding.weight.zero_()
    assert warm_start(trainer, train._dataset) is None, "a second call would undo what was trained"
    assert not model.item_embedding.weight.any()


def typed(**keys):
    return [f"--{name}={value}" for name, value in {**QUICK, **keys}.items() if value is not None]


def test_the_command_says_how_many_of_each(file, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["run_recbole.py"])
    assert main(["train", "--dataset=after", "--from", str(file), *typed(state="INFO")]) == 0
    out = capfd.readouterr().out
    assert (
        f"Warm start from {file}: 18 items kept, 4 new by co-occurrence, 6 new at random, 2 dropped\n" in out
    )
    (weights,) = Path("saved").glob("*.pth")
    (best,) = Recommender(weights).stream([["a0", "n1", "b3"]], k=3, unknown="refuse")
    assert len(best.items) == 3


def test_what_does_not_fit_starts_anew_and_is_named(file):
    """Shorter histories need other positions; everything else is taken over."""
    _, (train, _, _), model = build(dataset="after", small=QUICK, MAX_ITEM_LIST_LENGTH=30)
    start = model.position_embedding.weight.detach().clone()
    report = take_over(model, train._dataset, checkpoint.read(file), str(file))
    assert report.unfit == ("position_embedding.weight ((50, 16) there, (30, 16) here)",)
    assert torch.equal(model.position_embedding.weight, start)


class Killed(BaseException):
    """Stands for SIGKILL where a real one would cost a process."""


def test_an_interrupted_warm_start_resumes_to_the_bit(file, monkeypatch):
    """The resumed run continues from its own epoch, not from the checkpoint again."""
    keys = {**QUICK, "epochs": 3, "warm_start": str(file)}

    def train(folder, **more):
        run_recbole(
            model="AsarSASRec", dataset="after", config_dict={**keys, "checkpoint_dir": folder, **more}
        )
        (file,) = Path(folder).glob("*.pth")
        return checkpoint.read(file)["state_dict"]

    whole = train("whole")
    begins = Trainer._train_epoch

    def dies(self, train_data, epoch_idx, *args, **kwargs):
        if epoch_idx == 1:
            raise Killed
        return begins(self, train_data, epoch_idx, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Trainer, "_train_epoch", dies)
        train("broken", resume=True)
    resumed = train("broken", resume=True)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_training_a_loaded_model_does_not_go_back(file):
    """A checkpoint of a warm-started run names where that one started; its own weights are newer."""
    state = checkpoint.read(file)
    checkpoint.write({**state, "config": {**state["config"], "warm_start": "long gone.pth"}}, file)
    config, model, _, train, _, _ = load_data_and_model(str(file))
    assert config["warm_start"] is None
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    assert warm_start(trainer, train._dataset) is None


def _text(file):
    file.write_text("no checkpoint")


def _nameless(file):
    state = checkpoint.read(file)
    checkpoint.write({**state, "item_tokens": None}, file)


def _strangers(file):
    state = checkpoint.read(file)
    checkpoint.write({**state, "item_tokens": [f"z{n}" for n in range(len(state["item_tokens"]))]}, file)


@pytest.mark.parametrize(
    ("spoil", "keys", "says"),
    [
        (
            None,
            {"model": "AsarFMLPRec", "n_heads": None},
            "is of AsarSASRec, not of AsarFMLPRec; use --model=AsarSASRec",
        ),
        (
            None,
            {"hidden_size": 8},
            "has item vectors of size 16, and this AsarSASRec of size 8",
        ),
        (_text, {}, "is not a whole checkpoint"),
        (_nameless, {}, "does not name its items"),
        (_strangers, {}, "have no item in common"),
        (Path.unlink, {}, "does not exist; name a .pth file"),
        ("", {}, "The key 'warm_start' must be None or a .pth file"),
    ],
)
def test_mistakes_get_one_sentence(file, monkeypatch, capfd, spoil, keys, says):
    if callable(spoil):
        spoil(file)
    monkeypatch.setattr(sys, "argv", ["run_recbole.py"])
    name = file if callable(spoil) or spoil is None else spoil
    assert main(["train", "--dataset=after", f"--from={name}", *typed(**keys)]) == 2
    error = capfd.readouterr().err
    assert says in error and "Traceback" not in error and error.count("Error: ") == 1


def test_the_state_of_an_unfinished_run_is_no_start(trained_before, data):
    """It is resumed, not started from: it holds no best weights."""
    (state,) = trained_before.glob("*.run")
    config = Config("AsarSASRec", "after", config_dict={**QUICK, "warm_start": str(state)})
    with pytest.raises(CheckpointError, match="finish that run with --resume, or start from its .pth"):
        read_source(config)


def test_models_without_sequences_are_refused(data):
    config = Config("BPR", "after", config_dict={"warm_start": "old.pth", "state": "ERROR"})
    with pytest.raises(ConfigError, match="warm_start is for sequential models, and BPR is none"):
        read_source(config)
