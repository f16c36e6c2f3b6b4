"""Builds pyx/gdsvc/*.pyx into gdsvc.*; everything else is in pyproject.toml.

Cython is imported only while extensions are built, so metadata and sdists need no compiler.
GDSVC_TRACE=1 makes a build for line coverage of the .pyx files: slow, never to be measured.
"""

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
SOURCES = sorted(path.relative_to(ROOT) for path in ROOT.glob("pyx/gdsvc/*.pyx"))
TRACE = os.environ.get("GDSVC_TRACE") == "1"


class BuildCython(build_ext):
    def build_extensions(self):
        from Cython.Build import cythonize
        from Cython.Compiler import Options

        Options.warning_errors = True
        self.extensions = cythonize(
            self.extensions,
            include_path=["pyx"],
            build_dir=None if TRACE else "build/cython",
            compiler_directives={
                "language_level": 3,
                "auto_pickle": False,
                "autotestdict": False,
                "boundscheck": False,
                "wraparound": False,
                "initializedcheck": False,
                "cdivision": True,
                "binding": False,  # plain C methods: a call costs 7 to 10 ns less, of 40 for a renewal
                "embedsignature": True,
                "embedsignature.format": "clinic",  # __text_signature__, which inspect and mypy.stubtest compare
                "linetrace": TRACE,
            },
        )
        for extension in self.extensions:  # cythonize returns copies, which build_ext has not finalised
            extension._needs_stub = False
        super().build_extensions()


setup(
    ext_modules=[
        Extension(
            "gdsvc." + source.stem,
            [source.as_posix()],
            depends=[path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("pyx/gdsvc/*.pxd"))],
            define_macros=[("CYTHON_TRACE_NOGIL", "1"), ("CYTHON_USE_SYS_MONITORING", "0")] if TRACE else [],
            extra_compile_args=["-O2", "-fno-strict-aliasing"],
        )
        for source in SOURCES
    ],
    cmdclass={"build_ext": BuildCython},
)
