"""Compiles what is timed without the interpreter in between; needs Cython and a C compiler, as installing does."""

import importlib.util
import sys
import sysconfig
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    """The module that bench/`name`.pyx makes, compiled with the options of setup.py."""
    setuptools, cython = import_module("setuptools"), import_module("Cython.Build")  # only this needs them, untyped
    with tempfile.TemporaryDirectory() as folder:
        extension = setuptools.Extension(name, [str(ROOT / "bench" / f"{name}.pyx")], extra_compile_args=["-O2"])
        made = cython.cythonize(
            [extension],
            include_path=[str(ROOT / "pyx")],
            build_dir=folder,
            compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False},
            quiet=True,
        )
        build = setuptools.Distribution({"name": name, "ext_modules": made}).get_command_obj("build_ext")
        build.build_lib = build.build_temp = folder
        build.ensure_finalized()
        build.run()
        path = Path(folder) / (name + sysconfig.get_config_var("EXT_SUFFIX"))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
        return module
