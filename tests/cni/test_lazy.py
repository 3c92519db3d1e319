"""Packages that load their modules late have every name that they promise, whoever asks first."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

PACKAGES = ("netloom.cni", "netloom.journal", "netloom.kernel", "netloom.kernel.objects")

# Many threads, none of which is the first for long, each in an order of its own; then what they have found.
_AT_ONCE = """
import random, sys, threading
from importlib import import_module
packages = [import_module(name) for name in sys.argv[1:]]
wanted = [(package, name) for package in packages for name in package.__all__]
start, found, failed = threading.Barrier(12), [], []
def resolve(seed):
    order = random.Random(seed).sample(wanted, len(wanted))
    start.wait()
    try:
        found.append({(package.__name__, name): id(getattr(package, name)) for package, name in order})
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=resolve, args=(seed,)) for seed in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed
assert len(found) == 12 and all(one == found[0] for one in found)
"""


def source(package: str) -> ast.Module:
    path = import_module(package).__file__
    assert path is not None
    return ast.parse(Path(path).read_text())


def read_by_type_checkers(package: str) -> dict[str, list[str]]:
    """What stands below `if TYPE_CHECKING:`, by module."""
    [block] = [
        it
        for it in source(package).body
        if isinstance(it, ast.If) and isinstance(it.test, ast.Name) and it.test.id == "TYPE_CHECKING"
    ]
    imports = [it for it in block.body if isinstance(it, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    return {f"{it.module}": sorted(one.name for one in it.names) for it in imports}


def found_late(package: str) -> dict[str, list[str]]:
    """The table that the package gives to `lazily`."""
    [table] = [
        it.args[1]
        for it in ast.walk(source(package))
        if isinstance(it, ast.Call) and isinstance(it.func, ast.Name) and it.func.id == "lazily"
    ]
    return {module: sorted(names) for module, names in ast.literal_eval(table).items()}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_a_package_promises_is_there(package: str) -> None:
    loaded = import_module(package)
    listed = dir(loaded)
    for name in loaded.__all__:
        assert getattr(loaded, name) is getattr(loaded, name)
        assert name in listed


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_and_the_interpreter_find_the_same_names_in_the_same_modules(package: str) -> None:
    late = found_late(package)
    assert read_by_type_checkers(package) == late
    promised = {name for names in late.values() for name in names}
    assert promised <= set(import_module(package).__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_that_of_a_module_which_would_take_its_place(package: str) -> None:
    directory = Path(str(import_module(package).__file__)).parent
    modules = {path.stem for path in directory.iterdir()}
    assert modules.isdisjoint(import_module(package).__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_a_package_does_not_have_is_refused_as_ever(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nonsense'"):
        import_module(package).Nonsense  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
        exec(f"from {package} import Nonsense")


@pytest.mark.parametrize("package", ["netloom.cni", "netloom.kernel", "netloom.kernel.objects"])
def test_a_package_alone_loads_none_of_its_modules(package: str) -> None:
    code = f"import sys, {package}; print(*(it for it in sys.modules if it.startswith('netloom.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    packages = {"netloom.cni", "netloom.cni.lazy", "netloom.kernel", "netloom.kernel.objects"}
    assert set(done.stdout.split()) <= packages


def test_threads_that_ask_at_once_find_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_ONCE, *PACKAGES], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
