"""The distributions, built once for all packaging tests: sdist from a copy of the sources, wheel from the sdist."""

import sys
import tarfile
from pathlib import Path

import pytest

from tests.packaging.venvs import Venv, copy_of_sources, run


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .tar.gz."""
    sources = copy_of_sources(tmp_path_factory.mktemp("sources") / "gdsvc")
    target = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--outdir", target, cwd=sources)
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="session")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the sdist unpacks to."""
    target = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    (top,) = target.iterdir()
    return top


@pytest.fixture(scope="session")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .whl, made from the sdist and nothing else."""
    target = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", target, cwd=unpacked)
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """A new environment with the wheel and what it requires."""
    venv = Venv(tmp_path_factory.mktemp("installed") / "venv")
    venv.install(wheel, cwd=venv.path)
    return venv
