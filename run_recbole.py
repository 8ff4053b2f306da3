"""RecBole's own command line, with the plugin's models beside RecBole's."""

import argparse
import shlex
import sys

# RecBole can only be imported once recbole_asarrec has mended it
# isort: off
import recbole_asarrec
from recbole_asarrec.failures import run_command
from recbole_asarrec.memory import keep_freed_memory
from recbole.quick_start import run
# isort: on


def refuse_stray(arguments: argparse.Namespace, keys: list) -> None:
    """RecBole passes over what it cannot read; a key that does nothing is worse than an error."""
    names = [key.partition("=")[0] for key in keys]
    for key, name in zip(keys, names):
        if names.count(name) > 1:
            raise recbole_asarrec.ConfigError(f"The argument '{name}' is given more than once.")
        if not key.startswith("--") or key.count("=") != 1 or key.endswith("="):
            raise recbole_asarrec.ConfigError(f"The argument '{key}' must be written as --key=value.")
    if arguments.nproc < 1:
        raise recbole_asarrec.ConfigError(
            f"The argument --nproc must be at least 1, but is {arguments.nproc}."
        )


def go_on() -> str:
    """What to do after a run that was stopped."""
    others = [word for word in sys.argv if not word.startswith("--resume")]
    command = shlex.join(["python", *others, "--resume"])
    return f"All epochs before this one are saved; go on with: {command}"


def main() -> int:
    """Train and test one model; every other --key=value goes into RecBole's configuration."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Any other --key=value sets a configuration key of RecBole or of the plugin.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", "-m", default="AsarSASRec", help="name of a model")
    parser.add_argument("--dataset", "-d", default="ml-100k", help="name of a data set")
    parser.add_argument("--config_files", default=None, help="YAML files, separated by spaces")
    parser.add_argument("--yes", action="store_true", help="download without asking, as --download=yes")
    parser.add_argument("--nproc", type=int, default=1, help="number of processes on this machine")
    parser.add_argument("--ip", default="localhost", help="address of the master node")
    parser.add_argument("--port", type=int, default=5678, help="port of the master node")
    parser.add_argument("--world_size", type=int, default=-1, help="number of processes on all machines")
    parser.add_argument(
        "--group_offset", type=int, default=0, help="global rank of this machine's first process"
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="True",
        choices=("True", "False"),
        help="go on with the unfinished run of this command",
    )
    keep_freed_memory()
    arguments, keys = parser.parse_known_args()
    if arguments.yes:  # RecBole reads the command line again, and every process of several does
        sys.argv = [argument for argument in sys.argv if argument != "--yes"] + ["--download=yes"]

    def train() -> None:
        refuse_stray(arguments, keys)
        run(
            arguments.model,
            arguments.dataset,
            config_file_list=arguments.config_files.split() if arguments.config_files else None,
            config_dict={"resume": arguments.resume == "True"} if arguments.resume else None,
            nproc=arguments.nproc,
            world_size=arguments.world_size,
            ip=arguments.ip,
            port=arguments.port,
            group_offset=arguments.group_offset,
        )

    return run_command(train, go_on)


if __name__ == "__main__":
    sys.exit(main())
