"""sdist and wheel: what they hold, and that an installed wheel works where no source and no Cython is."""

import shutil
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packaging.venvs import ROOT, Venv, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

COMPILED = sorted(path.stem for path in (ROOT / "pyx/gdsvc").glob("*.pyx"))
READ_THE_SOURCES = ("test_imports.py", "test_stubs.py", "test_readme.py")  # which an installed package does not have


@pytest.fixture(scope="module")
def in_sdist(sdist: Path) -> set[str]:
    """Names of its files, below its one directory."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def test_the_sdist_holds_all_that_is_built_tested_and_read(in_sdist: set[str]) -> None:
    rooms = {"gdsvc": "*.py*", "pyx/gdsvc": "*.p[yx][xd]", "tests": "*.py", "bench": "*.py", "deploy": "*"}
    wanted = {"pyproject.toml", "setup.py", "README.md", "CHANGELOG.md", "LICENSE", "gdsvc/py.typed", ".ci/run"}
    for room, pattern in rooms.items():
        for path in (ROOT / room).rglob(pattern):
            if path.is_file() and path.suffix != ".pyc":
                wanted.add(path.relative_to(ROOT).as_posix())
    assert wanted <= in_sdist, wanted - in_sdist


def test_the_sdist_holds_nothing_that_was_built(in_sdist: set[str]) -> None:
    built = (".c", ".so", ".pyc", ".html")
    made = [name for name in in_sdist if name.endswith(built) or name.startswith("build/")]
    assert not [name for name in made if not name.startswith("gdsvc/http/ui/")]  # a page is a source


def test_the_wheel_holds_every_compiled_module_its_stub_and_no_source_of_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for module in COMPILED:
        assert f"gdsvc/{module}.pyi" in names
        assert [name for name in names if name.startswith(f"gdsvc/{module}.cpython-") and name.endswith(".so")]
    assert "gdsvc/py.typed" in names
    assert {f"gdsvc/http/ui/{path.name}" for path in (ROOT / "gdsvc/http/ui").iterdir()} <= set(names)
    assert not [name for name in names if name.endswith((".pyx", ".pxd", ".c"))]
    assert {name.split("/")[0] for name in names} == {"gdsvc", f"gdsvc-{version('gdsvc')}.dist-info"}
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_the_installed_scripts_work_from_another_directory_without_cython(installed: Venv, tmp_path: Path) -> None:
    assert "cython" not in installed.packages()
    assert run(installed.program("gdsvc"), "--version", cwd=tmp_path) == f"gdsvc {version('gdsvc')}\n"
    assert "usage: gdsvc serve" in run(installed.program("gdsvc"), "serve", "--help", cwd=tmp_path)
    assert "usage: global-discovery-service" in run(
        installed.program("global-discovery-service"), "--help", cwd=tmp_path
    )


def test_the_installed_wheel_passes_the_unit_tests(
    wheel: Path, unpacked: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    venv = Venv(tmp_path_factory.mktemp("tested") / "venv")
    place = tmp_path_factory.mktemp("tests-alone")
    for name in ("pyproject.toml", ".dockerignore", "README.md", "LICENSE", "setup.py"):
        shutil.copy(unpacked / name, place)
    for name in ("tests", "bench", "deploy", "pyx"):
        shutil.copytree(unpacked / name, place / name)
    (place / "gdsvc").mkdir()  # named in .dockerignore; empty, so that only the installed package can be imported
    venv.install(f"{wheel}[test]", cwd=place)
    origin = venv.python("import gdsvc._pool_index as m; print(m.__file__)", cwd=venv.path)
    assert origin.startswith(str(venv.path))
    ignored = [f"--ignore=tests/unit/{name}" for name in READ_THE_SOURCES]
    told = run(venv.program("pytest"), "-q", "tests/unit", *ignored, "-o", "pythonpath=.", cwd=place)
    assert " passed" in told


def test_metadata_is_made_without_cython(unpacked: Path, tmp_path: Path) -> None:
    venv = Venv(tmp_path / "venv")
    venv.install("setuptools>=77", cwd=tmp_path)
    assert "cython" not in venv.packages()
    sources = shutil.copytree(unpacked, tmp_path / "sources")
    code = "import sys, setuptools.build_meta as m; print(m.prepare_metadata_for_build_wheel(sys.argv[1]))"
    venv.python(code, tmp_path, cwd=sources)
    metadata = (tmp_path / f"gdsvc-{version('gdsvc')}.dist-info" / "METADATA").read_text()
    assert f"Version: {version('gdsvc')}" in metadata
