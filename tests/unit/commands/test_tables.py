"""Tables: rows of what strangers say, laid out for a terminal and for a pipe."""

import re

import pytest

from gdsvc.commands.documents import Capacity, Key, Location, Pool, PoolList, Router, RouterList, Source
from gdsvc.commands.tables import (
    MOST_RICH_ROWS,
    Table,
    fitting,
    layout,
    plain,
    pool_table,
    router_table,
    styled,
    summary,
)

STYLE = re.compile(r"\x1b\[[0-9;]*m")
MOCKER = Pool(Key("ohio", "dynamo", "mocker-1"))
FULL = Pool(
    Key("oregon", "dynamo", "qwen"),
    Location("us-west-2"),
    "Qwen/Qwen3-0.6B",
    ("http://10.0.0.7:8000", "http://10.0.0.8:8000", "http://10.0.0.9:8000"),
    Capacity(64),
    ("10.0.0.1", "10.0.0.2"),
)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that rich reads."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_pipe_gets_aligned_columns_without_trailing_blanks() -> None:
    assert plain(pool_table([MOCKER, FULL])) == (
        "POOL                  MODEL            REGION     FRONTENDS                CAPACITY  RELAYS\n"
        "ohio/dynamo/mocker-1  -                -          -                        -         0\n"
        "oregon/dynamo/qwen    Qwen/Qwen3-0.6B  us-west-2  http://10.0.0.7:8000 +2  64        2\n"
    )


def test_no_pools_are_heads_alone() -> None:
    assert plain(pool_table([])) == "POOL  MODEL  REGION  FRONTENDS  CAPACITY  RELAYS\n"


def test_routers_have_an_id_and_a_url() -> None:
    routers = RouterList(complete=True, routers=(Router("ohio-0", "http://[fd00::1]:8000"),))
    assert plain(router_table(routers)) == "ROUTER  URL\nohio-0  http://[fd00::1]:8000\n"


def test_wide_letters_and_combining_marks_keep_the_columns_aligned() -> None:
    table = Table(("A", "B"), [("模型", "x"), ("e\u0301", "x"), ("abcd", "x")])
    assert plain(table) == "A     B\n模型  x\ne\u0301     x\nabcd  x\n"


def test_a_terminal_gets_the_same_words_in_colour() -> None:
    text = styled(pool_table([MOCKER, FULL]), 120)
    assert "\x1b[" in text
    for word in ("POOL", "ohio/dynamo/mocker-1", "Qwen/Qwen3-0.6B", "us-west-2", "http://10.0.0.7:8000 +2", "64"):
        assert word in STYLE.sub("", text)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    codes = {code for match in STYLE.findall(styled(pool_table([FULL]), 120)) for code in match[2:-1].split(";")}
    assert codes.isdisjoint(str(colour) for colour in range(30, 50))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_table_never_exceeds_the_terminal(width: int) -> None:
    long = Pool(Key("s" * 100, "n" * 100, "d" * 100), Location("r" * 100), "m" * 150, ("http://" + "h" * 150,))
    lines = STYLE.sub("", styled(pool_table([long, FULL]), width)).splitlines()
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()).count("m") >= 150


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_long_names_and_regions_crowd_no_column_out(width: int) -> None:
    long = Pool(Key("ohio", "dynamo", "d" * 200), Location("r" * 200), "m" * 30, ("http://10.0.0.7:8000",))
    lines = STYLE.sub("", styled(fitting(pool_table([long]), width), width)).splitlines()
    assert max(map(len, lines)) <= width
    column = lines[0].index("FRO")
    assert "".join(line[column : column + 20].strip() for line in lines).endswith("http://10.0.0.7:8000")


def test_a_narrow_terminal_goes_without_the_numbers_rather_than_fold() -> None:
    table = pool_table([MOCKER, FULL])
    natural = max(map(len, plain(table).splitlines()))
    assert fitting(table, 200) == table
    assert fitting(table, natural + 2) == table
    assert fitting(table, 88).heads == ("POOL", "MODEL", "REGION", "FRONTENDS", "CAPACITY")
    assert fitting(table, 40).heads == ("POOL", "MODEL", "REGION", "FRONTENDS")
    assert [len(row) for row in fitting(table, 40).rows] == [4, 4]


HOSTILE = "\x1b]0;owned\x07[bold red]x[/bold red] :bomb: \u202e\n\r\x9b2J"


@pytest.mark.parametrize("width", [None, 800])
def test_hostile_texts_are_shown_harmlessly(width: int | None) -> None:
    pool = Pool(Key(HOSTILE, HOSTILE, HOSTILE), Location(HOSTILE), HOSTILE, (HOSTILE,), None, (HOSTILE,))
    text = STYLE.sub("", layout(pool_table([pool]), width))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "".join(text.split()).count("[boldred]x[/boldred]:bomb:") >= 2  # model and region, as they are: no markup
    assert len(plain(pool_table([pool])).splitlines()) == 2


def test_hostile_routers_are_shown_harmlessly() -> None:
    routers = RouterList(complete=True, routers=(Router(HOSTILE, HOSTILE),))
    for width in (None, 300):
        text = STYLE.sub("", layout(router_table(routers), width))
        assert all(character.isprintable() or character == "\n" for character in text)


def test_a_very_long_table_is_laid_out_plainly_on_a_terminal_too() -> None:
    table = pool_table([MOCKER] * (MOST_RICH_ROWS + 1))
    assert layout(table, 80) == plain(table)


# ----------------------------------------------------------------------------------------------------- summary


def test_the_summary_says_how_many_and_whether_that_is_all() -> None:
    assert summary(PoolList(complete=True, pools=())) == "0 pools; the list is complete"
    assert summary(PoolList(complete=True, pools=(MOCKER,))) == "1 pool; the list is complete"
    assert summary(RouterList(complete=True, routers=())) == "0 routers; the list is complete"


def test_the_summary_of_an_incomplete_list_says_what_is_waited_for() -> None:
    waiting = (Source("registrations", complete=False), Source("slices", complete=True))
    said = summary(PoolList(complete=False, pools=(MOCKER, FULL), sources=waiting))
    assert said == ("2 pools; the list is not complete yet (waiting for registrations): some that live may be missing")
