"""Who may import which compiled module: import-linter cannot see them, so the sources are read."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

REACHED_FROM = {  # compiled module -> modules that may import it; a name that ends in a dot stands for a room
    "_listed": {"_pool_index", "backends."},
    "_lease_heap": {"_listed", "_pool_index"},
    "_list_parts": {"_pool_index"},
    "_chunks": {"_reply"},
    "_reply": {"_line", "_exchange", "frontend.upstream."},
    "_line": {"_stock", "_exchange", "frontend.upstream."},
    "_request": {"_exchange", "frontend.upstream."},
    "_stock": {"_exchange", "frontend.upstream."},
    "_exchange": {"_passage", "frontend.upstream."},
    "_meter": {"metrics", "http.app", "cli"},
    "_model_name": {"frontend.model_name"},
    "_heads": {"_passage", "frontend."},
    "_passage": {"frontend.forwarding"},
    "_arriving": {"_passage", "frontend.bodies"},
    "_histogram": {"_passage", "frontend."},
    "_in_flight": {"_picker", "_passage", "frontend."},
    "_picker": {"frontend."},
    "_pool_index": {"backends.", "frontend.selection"},
    "_wire": {"model"},
}
ONLY_THESE_OUTSIDE = {
    "httptools",
    "sys",
    "types",
    "xxhash",
    "cython",
    "cpython",
    "libc",
    "posix",
}  # of what compiled modules may import


def _imports(path: Path) -> set[str]:
    """Every name after `import`, `cimport` or `from`, and every `gdsvc._name`, in dotted form."""
    code = re.sub(r'"""[\s\S]*?"""|#.*', "", path.read_text())
    found = set(re.findall(r"^\s*(?:c?import|from)\s+([\w.]+)", code, re.M))
    for names in re.findall(r"^\s*from\s+gdsvc\s+c?import\s+(.+)$", code, re.M):
        found |= {"gdsvc." + name.split(" as ")[0].strip(" ()") for name in names.split(",")}
    return found | set(re.findall(r"gdsvc\._[a-z]\w*", code))


def _by_module() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for room, pattern in (("gdsvc", "*.py"), ("pyx/gdsvc", "*.p[yx][xd]")):
        for path in (ROOT / room).rglob(pattern):
            module = ".".join(path.relative_to(ROOT / room).with_suffix("").parts)
            found.setdefault(module, set()).update(_imports(path))
    return found


def _may(module: str, allowed: set[str]) -> bool:
    return any(module == name or (name.endswith(".") and module.startswith(name)) for name in allowed)


def test_every_compiled_module_says_from_where_it_is_reached() -> None:
    assert {path.stem for path in (ROOT / "pyx/gdsvc").glob("*.pyx")} <= set(REACHED_FROM)


def test_compiled_modules_are_reached_only_from_where_they_belong() -> None:
    for module, imported in _by_module().items():
        for compiled, allowed in REACHED_FROM.items():
            if f"gdsvc.{compiled}" in imported and module != compiled:
                assert _may(module, allowed), f"gdsvc.{module} imports gdsvc.{compiled}"


def test_compiled_modules_import_nothing_of_the_package_but_each_other() -> None:
    ours = {f"gdsvc.{name}" for name in REACHED_FROM}
    for module, imported in _by_module().items():
        if module in REACHED_FROM:
            outside = {name.split(".")[0] for name in imported - ours - {"gdsvc"}}
            assert outside <= ONLY_THESE_OUTSIDE, module


def test_the_sources_were_read() -> None:
    found = _by_module()
    assert "gdsvc._lease_heap" in found["_pool_index"]
    assert "gdsvc._pool_index" in found["backends.registered"]
