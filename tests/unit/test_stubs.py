"""Constructors of compiled classes against their stubs: what mypy.stubtest cannot compare, since C hides them."""

import ast
import re
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "pyx/gdsvc").glob("*.pyx"))
_CLASS = re.compile(r"^cdef class (\w+)|^    def (__c?init__)\(self(?:, )?((?:.|\n)*?)\):$", re.M)

Parameters = list[tuple[str, bool]]  # name, and whether it has a default


def _compiled(module: str) -> dict[str, Parameters]:
    """By class, the parameters of `__init__`, or of `__cinit__` where it alone takes any."""
    found: dict[str, Parameters] = {}
    name = ""
    for class_name, method, text in _CLASS.findall((ROOT / f"pyx/gdsvc/{module}.pyx").read_text()):
        name = class_name or name
        if method and (text or method == "__init__"):
            declared = [part.partition("=") for part in re.split(r",\s+", text) if part]
            found[name] = [(left.removesuffix(" not None").split()[-1], bool(equals)) for left, equals, _ in declared]
    return found


def _is_constructor(member: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(member, ast.FunctionDef) and member.name in ("__init__", "__new__")


def _stubbed(module: str) -> dict[str, Parameters]:
    found: dict[str, Parameters] = {}
    for node in ast.parse((ROOT / f"gdsvc/{module}.pyi").read_text()).body:
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(node, ast.ClassDef) and _is_constructor(member):
                names = [argument.arg for argument in member.args.args[1:]]
                required = len(names) - len(member.args.defaults)
                found[node.name] = [(argument, at >= required) for at, argument in enumerate(names)]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_gives_constructors_their_real_parameters(module: str) -> None:
    compiled, stubbed = _compiled(module), _stubbed(module)
    for name, parameters in stubbed.items():
        assert parameters == compiled.get(name, []), name


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_class_that_takes_arguments_has_a_stub_that_says_so(module: str) -> None:
    public = {name for name, parameters in _compiled(module).items() if parameters and not name.startswith("_")}
    assert public <= set(_stubbed(module))
