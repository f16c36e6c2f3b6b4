"""The quick checks agree with the rules that they shorten, and the bytes with their plain Python."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gdsvc import _wire, model

PLAIN = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=260)
ANY = st.text(max_size=260)
NAMES = st.one_of(PLAIN, ANY)
HOSTS = st.text("ab19.-_:[]/@?#%", max_size=12)
URLS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://", "httpss://", "http:/", "ftp://", ""]),
    HOSTS,
    st.one_of(st.just(""), st.integers(0, 70_000).map(":{}".format), st.sampled_from([":", ":a", ":00080", ":000080"])),
    st.sampled_from(["", "", "/", "//", "?", "\0", " "]),
)


@given(NAMES)
@example("")
@example(" a")
@example("a ")
@example("a\x7f")
@example("a" * 253)
@example("a" * 254)
def test_a_name_that_is_quickly_found_right_is_right(name: str) -> None:
    if _wire.plain_name(name):
        assert model.text_fault(name) is None
    elif name.isascii():
        assert model.text_fault(name) is not None, "the quick check misses only what is not ASCII"


@given(URLS)
@example("http://256.0.0.1")
@example("http://01.0.0.1")
@example("http://1.2.3")
@example("http://1.2.3.4.5")
@example("http://a:65536")
@example("http://a:0")
def test_a_url_that_is_quickly_found_right_is_right(url: str) -> None:
    if _wire.plain_base_url(url):
        assert model.base_url_fault(url) is None


@pytest.mark.parametrize("url", ["http://a", "https://a-b.c1:8000", "http://10.0.0.1", "http://255.0.10.9:65535"])
def test_the_usual_urls_take_the_quick_way(url: str) -> None:
    assert _wire.plain_base_url(url)


class Looked:
    """Stands in for a Struct; tells whether it was looked at closely."""

    def __init__(self, **members: object) -> None:
        self.__dict__.update(members)
        self.closely = False

    def look_closely(self) -> None:
        self.closely = True


@pytest.mark.parametrize("name", ["site_id", "namespace", "dgd_name"])
@pytest.mark.parametrize(("value", "closely"), [("b", False), (" b", True), ("é", True)])
def test_a_key_is_looked_at_closely_where_one_name_is_not_plain(name: str, value: str, closely: bool) -> None:
    key = Looked(**{"site_id": "a", "namespace": "a", "dgd_name": "a", name: value})
    _wire.check_key(key)
    assert key.closely is closely


@pytest.mark.parametrize("name", model.PoolCapacity.__struct_fields__[:-1])
@pytest.mark.parametrize(
    ("count", "closely"), [(None, False), (0, False), (2**63 - 1, False), (2**63, True), (2**64, True), (-1, True)]
)
def test_a_capacity_is_looked_at_closely_where_a_count_is_not_surely_in_range(
    name: str, count: int | None, closely: bool
) -> None:
    capacity = Looked(**{**dict.fromkeys(model.PoolCapacity.__struct_fields__, None), name: count})
    _wire.check_capacity(capacity)
    assert capacity.closely is closely


@pytest.mark.parametrize(
    ("frontends", "closely"), [((), False), (("http://a", "http://b:1"), False), (("http://a", "http://[::1]"), True)]
)
def test_a_registration_is_looked_at_closely_where_a_frontend_is_not_plain(
    frontends: tuple[str, ...], closely: bool
) -> None:
    registration = Looked(frontends=frontends)
    _wire.check_registration(registration)
    assert registration.closely is closely


NAME = st.text(st.sampled_from("\x21ab~é池𝛑\uffff"), min_size=1, max_size=3)
KEYS = st.builds(model.PoolKey, NAME, NAME, NAME)


@given(st.lists(KEYS, max_size=8))
def test_sort_keys_sort_as_keys_do_and_give_them_back(keys: list[model.PoolKey]) -> None:
    assert sorted(keys, key=model.sort_key) == sorted(keys)
    assert [model.key_of(model.sort_key(key)) for key in keys] == keys


@given(KEYS)
def test_the_bytes_of_a_key_are_those_of_its_names(key: model.PoolKey) -> None:
    names = [name.encode() for name in (key.site_id, key.namespace, key.dgd_name)]
    assert _wire.sort_key(key) == b"\0".join(names)
    assert _wire.id_material(key) == b"".join(len(name).to_bytes(8, "big") + name for name in names)


@pytest.mark.parametrize("wrong", [None, b"a", 1, ["a"]])
def test_names_are_strings(wrong: object) -> None:
    for check in (_wire.plain_name, _wire.plain_base_url):
        with pytest.raises(TypeError):
            check(wrong)  # type: ignore[arg-type]
    for make in (_wire.sort_key, _wire.id_material, _wire.check_key):
        with pytest.raises(TypeError):
            make(Looked(site_id="a", namespace=wrong, dgd_name="c"))
