"""What README.md says of metrics, errors, flags, paths and events, against the code that they come from."""

import re
from pathlib import Path

from gdsvc import metrics
from gdsvc._meter import RequestMeter
from gdsvc.commands.arguments import help_text
from gdsvc.commands.manual import MANUALS
from gdsvc.http.problems import STATUSES
from gdsvc.http.routes import PATHS
from gdsvc.metrics import Family, ScrapeCollector
from gdsvc.settings.flags import ALL_MODES, SERVE_FLAGS, WITH_REGISTRATIONS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
OF_OTHER_PROGRAMS = {"--config-settings"}


def _rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _exposed() -> dict[str, tuple[str, set[str]]]:
    """Kind and labels by the name under which each of our families is scraped."""
    families = [value for value in vars(metrics).values() if isinstance(value, Family)]
    meter = RequestMeter(["/pools"])
    meter.record(0, "GET", 200, 0.001)
    readings = [(family, 0.0, "x") if family.label else (family, 0.0) for family in families]
    exposed = {}
    for metric in ScrapeCollector([lambda: readings], meter).collect():
        name = metric.name + ("_total" if metric.type == "counter" else "")
        exposed[name] = (metric.type, set(metric.samples[0].labels) - {"le"})
    return exposed


def test_the_metrics_table_has_every_family_with_its_kind_and_labels() -> None:
    table = {row[0].strip("`"): (row[1], set(re.findall(r"`(\w+)`", row[2]))) for row in _rows("Metrics")}
    assert table == _exposed()


def test_every_metric_named_anywhere_exists() -> None:
    assert set(re.findall(r"`(gdsvc_\w+)`", README)) <= set(_exposed())


def test_the_errors_table_has_every_status() -> None:
    assert [int(row[0]) for row in _rows("Errors")] == sorted({status for _, status in STATUSES})


def test_every_flag_named_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) - OF_OTHER_PROGRAMS
    of_commands = {flag for name in MANUALS for flag in re.findall(r"--[a-z][a-z-]+", help_text(name))}
    assert named <= {flag.name for flag in SERVE_FLAGS} | of_commands | {"--help", "--check"}


def test_every_path_named_exists() -> None:
    named = set(re.findall(r"`(?:GET |POST |DELETE |HEAD )?(/[a-z][^`\s?]*)`", README))
    assert named == set(PATHS)


def test_every_event_named_is_logged() -> None:
    section = README.split("\n## Logs\n")[1].split("\n## ")[0]
    sources = "".join(path.read_text() for path in (ROOT / "gdsvc").rglob("*.py"))
    for room, event in re.findall(r"`(service|http|pool)\.([a-z_]+)`", section):
        assert f'"{room}.{event}"' in sources or f'"{event}"' in sources, event


def test_what_is_our_own_choice_is_said_to_be() -> None:
    section = README.split("\n## Not verified against upstream\n")[1].split("\n## ")[0]
    ours = {"--tls-client-ca-path", "--max-pools", "--max-watchers", "--max-body-bytes", "--shutdown-grace-secs"}
    assert ours <= {flag.name for flag in ALL_MODES + WITH_REGISTRATIONS}
    assert all(f"`{name}`" in section for name in ours)
