"""RecBole finds the plugin by its own means; what it is built on is checked by name."""

import importlib.util
import re
import subprocess
import sys
import textwrap

import pytest
import torch
from helpers import ROOT, SMALL

import recbole_asarrec
from recbole_asarrec.compat import patching
from recbole_asarrec.compat.patching import RecBoleChanged
from recbole_asarrec.errors import UserError


def test_recbole_is_the_one_the_hooks_are_made_for():
    """The contract: fails, naming the hook, when a RecBole release moves one."""
    patching.check()


@pytest.mark.parametrize("target", patching.hooks)
def test_a_moved_hook_is_refused_by_name(target, monkeypatch):
    owner, name = patching.locate(target)
    monkeypatch.setitem(patching.originals, target, lambda changed: None)
    with pytest.raises(RecBoleChanged, match=f"{target} takes"):
        patching.check()
    monkeypatch.delitem(patching.originals, target)
    monkeypatch.delattr(owner, name)
    with pytest.raises(RecBoleChanged, match=f"{target} is gone"):
        patching.check()


def test_a_line_that_a_mend_needs_is_missed_by_name(monkeypatch):
    target = "recbole.data.dataset.dataset:Dataset._fill_nan"
    monkeypatch.setitem(patching.originals, target, lambda self: None)
    with pytest.raises(RecBoleChanged, match="_fill_nan has no line 'feat"):
        patching.check()


def test_recboles_own_functions_find_the_plugin(toy):
    from recbole.config import Config
    from recbole.data import create_dataset
    from recbole.utils import get_model, get_trainer

    config = Config(model="AsarSASRec", dataset="toy", config_dict=dict(SMALL))
    assert get_model("AsarSASRec") is recbole_asarrec.AsarSASRec
    assert get_trainer(config["MODEL_TYPE"], "AsarSASRec") is recbole_asarrec.AsarTrainer
    assert isinstance(create_dataset(config), recbole_asarrec.AsarDataset)
    assert config["contrastive_weight"] == 0.1 and config["n_layers"] == 1  # the plugin's, the user's
    assert config["inner_size"] == 32 and config["hidden_act"] == "gelu"  # the user's, the backbone's


def test_a_model_class_works_where_a_name_does(toy):
    from recbole.config import Config

    config = Config(model=recbole_asarrec.AsarSASRec, dataset="toy", config_dict=dict(SMALL))
    assert config["model"] == "AsarSASRec"


def test_objective_function_finds_the_plugin(toy):
    from recbole.quick_start import objective_function

    result = objective_function({**SMALL, "model": "AsarSASRec", "dataset": "toy"}, saved=False)
    assert result["model"] == "AsarSASRec" and "ndcg@10" in result["test_result"]


@pytest.mark.parametrize("model", ["SASRec", "GRU4Rec", "BPR"])
def test_stock_models_go_on_working(toy, model):
    from recbole.quick_start import run_recbole

    keys = {
        "epochs": 1,
        "show_progress": False,
        "state": "ERROR",
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "made_up_key": 1,  # RecBole lets them pass for its own models, and so do we
    }
    if model != "BPR":
        keys["train_neg_sample_args"] = None
    assert "ndcg@10" in run_recbole(model=model, dataset="toy", config_dict=keys)["test_result"]


def test_stock_defaults_are_stock(toy):
    """The plugin's defaults may not leak into RecBole's own models."""
    from recbole.config import Config

    config = Config(model="SASRec", dataset="toy", config_dict={"train_neg_sample_args": None})
    assert config["metrics"] == ["Recall", "MRR", "NDCG", "Hit", "Precision"] and config["topk"] == [10]
    assert "contrastive_weight" not in config


def test_anomaly_mode_is_off_unless_asked_for(toy):
    """RecBole's sine.py switches it on for the whole process, at a third of the speed."""
    from recbole.config import Config

    assert not torch.is_anomaly_enabled()
    try:
        Config(model="AsarSASRec", dataset="toy", config_dict={**SMALL, "detect_anomaly": True})
        assert torch.is_anomaly_enabled()
    finally:
        torch.autograd.set_detect_anomaly(False)


def run_python(code, folder):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=folder, capture_output=True, text=True, timeout=300
    )


def test_a_user_who_switched_anomaly_mode_on_keeps_it(tmp_path):
    done = run_python(
        """
        import torch
        torch.autograd.set_detect_anomaly(True)
        import recbole_asarrec
        print("on" if torch.is_anomaly_enabled() else "off")
        """,
        tmp_path,
    )
    assert done.stdout.strip() == "on", done.stderr


def test_functions_imported_from_recbole_before_the_plugin_work(toy):
    """An old script adds one line, perhaps below its other imports."""
    done = run_python(
        f"""
        import sys, types
        try:
            import ray.tune
        except Exception:  # as a user without a working ray would have to
            for name in [n for n in sys.modules if n.split(".")[0] == "ray"]: del sys.modules[name]
            sys.modules["ray"] = types.ModuleType("ray"); sys.modules["ray"].tune = types.ModuleType("tune")
        from recbole.quick_start import run_recbole
        from recbole.utils import get_model
        import torch
        import recbole_asarrec
        assert not torch.is_anomaly_enabled()
        print(get_model("AsarSASRec").__name__)
        run_recbole(model="AsarSASRec", dataset="toy", config_dict={SMALL!r})
        """,
        toy,
    )
    assert done.returncode == 0 and "AsarSASRec" in done.stdout, done.stderr[-2000:]


def test_without_ray_everything_but_tuning_works(toy):
    """ray ≤ 2.6.3 does not import beside numpy 2 or setuptools ≥ 81."""
    (toy / "ray").mkdir()
    (toy / "ray" / "__init__.py").write_text("import numpy\nraise AttributeError('np.bool8')")
    done = run_python(
        f"""
        import recbole_asarrec
        from recbole.quick_start import quick_start, run_recbole
        quick_start.tune.report(ndcg=1)
        try:
            quick_start.tune.run
        except ImportError as error:
            print(error)
        try:
            import ray
        except AttributeError as error:
            print("the user's own import says:", error)
        run_recbole(model="AsarSASRec", dataset="toy", config_dict={SMALL!r})
        """,
        toy,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "pip install" in done.stdout and "the user's own import says: np.bool8" in done.stdout


def test_two_processes_may_make_one_folder(tmp_path, monkeypatch):
    """RecBole's ensure_dir looks and then makes; the loser of that race died with FileExistsError."""
    import os

    from recbole.utils import ensure_dir, logger
    from recbole.utils.utils import ensure_dir as same

    (tmp_path / "log").mkdir()
    monkeypatch.setattr(os.path, "exists", lambda path: False)  # as it looked a moment ago
    for make in (ensure_dir, same, logger.ensure_dir):
        make(str(tmp_path / "log"))


def test_a_file_where_recbole_wants_a_folder_is_named(tmp_path):
    """`run_recbole.py … > log` once ended in a traceback: RecBole keeps its logs in a folder `log`."""
    from recbole.utils import ensure_dir

    (tmp_path / "log").touch()
    for folder in ("log", "log/AsarSASRec"):
        with pytest.raises(UserError, match="log' is a file; rename it"):
            ensure_dir(str(tmp_path / folder))


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def test_two_processes_train_one_model(toy):
    """RecBole's `run(…, nproc=2)` insists on CUDA; here it falls back to gloo on the CPU."""
    done = run_python(
        f"""
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import recbole_asarrec
        from recbole.quick_start import run
        result = run("AsarSASRec", "toy", config_dict={SMALL!r}, nproc=2, port="{free_port()}")
        print("NDCG", result["test_result"]["ndcg@10"])
        """,
        toy,
    )
    assert "NDCG" in done.stdout, done.stderr[-2000:]


@pytest.mark.campaign
def test_two_processes_measure_what_one_does(toy):
    """RecBole shows the first process' losses, and weighs metrics by batches instead of users.

    Nothing is learned here, so that all differences are the measuring's; with three rows a batch, one process
    ranks twice as many users as the other.
    """
    keys = {**SMALL, "epochs": 1, "learning_rate": 1e-12, "initializer_range": 1.0}
    keys |= {"augmentation": "none", "recipe": "plain", "state": "INFO"}
    keys |= {"hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0}
    keys |= {"eval_batch_size": 3, "metric_decimal_place": 9}
    done = run_python(
        f"""
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import recbole_asarrec
        from recbole.quick_start import run
        for nproc in (1, 2):
            result = run("AsarSASRec", "toy", config_dict={keys!r}, nproc=nproc, port="{free_port()}")
            print("\\nRESULT", *result["test_result"].values())
        """,
        toy,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (
        [float(value) for value in found.split()] for found in re.findall(r"RESULT (.*)", done.stdout)
    )
    assert len(one) == 4 and two == pytest.approx(one, abs=1e-6)
    one, two = re.findall(r"train loss\D+([\d.]+)", re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr))
    assert float(two) == pytest.approx(float(one), rel=2e-3)


@pytest.mark.campaign
def test_two_processes_whose_clocks_differ_load_one_checkpoint(toy):
    """RecBole names its checkpoint by the clock of each process, and only the first one writes it."""
    (toy / "main.py").write_text(
        textwrap.dedent(
            f"""
            import os
            os.environ["OMP_NUM_THREADS"] = "1"
            import recbole_asarrec
            import recbole.trainer.trainer as trainer
            from recbole.quick_start import run
            trainer.get_local_time = lambda: str(os.getpid())
            if __name__ == "__main__":
                result = run("AsarSASRec", "toy", config_dict={SMALL!r}, nproc=2, port="{free_port()}")
                print("NDCG", result["test_result"]["ndcg@10"])
            """
        )
    )
    done = subprocess.run([sys.executable, "main.py"], cwd=toy, capture_output=True, text=True, timeout=300)
    assert "NDCG" in done.stdout, done.stderr[-2000:]


def test_every_patch_says_why_and_the_docs_list_it():
    """Somebody has to be able to tell which of them a new RecBole release makes needless."""
    kinds = ("Bug", "Compatibility", "Feature", "Messages", "Registration", "Security")
    assert all(known.reason.startswith(kinds) for known in patching.hooks.values())
    spec = importlib.util.spec_from_file_location("patches", ROOT / "docs" / "patches.py")
    patches = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(patches)
    rows = [line for line in patches.patches_md().splitlines() if line.startswith("| `")]
    written = (ROOT / "docs" / "patches.md").read_text(encoding="utf-8").splitlines()
    # the reason of some names the installed pandas
    assert [row.rsplit("|", 2)[0] for row in rows] == [
        line.rsplit("|", 2)[0] for line in written if line.startswith("| `")
    ], "run python docs/patches.py"
