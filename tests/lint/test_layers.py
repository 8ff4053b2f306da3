"""Dependencies point one way: a subpackage imports only those that stand before it."""

import ast

from helpers import ROOT

PACKAGE = ROOT / "recbole_asarrec"
# from what everybody may use to what nobody imports; a module at the top level counts as one
ORDER = (
    *("version", "errors", "shell", "files", "environment", "serving", "exit_codes"),
    *("config", "data", "prepare", "kernels", "augment", "losses", "recipe", "models", "training"),
    *("compat", "inference", "export", "experiments", "report", "cli", "__main__", "__init__"),
)


def layer_of(module):
    first = module.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_layers(module):
    """Layers that a module imports, with the line."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            here = (node.module or "") == "recbole_asarrec"
            names = [f"recbole_asarrec.{one.name}" for one in node.names] if here else [node.module or ""]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "recbole_asarrec" and rest.split(".")[0] in ORDER:
                yield rest.split(".")[0], node.lineno


def test_every_layer_stands_in_the_order():
    layers = {layer_of(module) for module in PACKAGE.rglob("*.py")}
    assert layers == set(ORDER)


def test_no_layer_imports_one_that_stands_after_it():
    upward = [
        f"{module.relative_to(PACKAGE)}:{line} imports {layer}"
        for module in PACKAGE.rglob("*.py")
        for layer, line in imported_layers(module)
        if ORDER.index(layer) > ORDER.index(layer_of(module))
    ]
    assert not upward, "\n".join(upward)


def test_it_sees_an_upward_edge(tmp_path):
    """A checker that finds nothing must be shown to find something."""
    module = tmp_path / "module.py"
    module.write_text(
        "def f():\n    from recbole_asarrec import cli\n    import recbole_asarrec.report.page\n"
    )
    assert list(imported_layers(module)) == [("cli", 2), ("report", 3)]
