"""Which URLs are bare base URLs: scheme, host, optional port, nothing else."""

import pytest

from gdsvc.errors import Invalid
from gdsvc.model import PoolKey, PoolRegistration, base_url_fault

KEY = PoolKey("a", "b", "c")
RIGHT_URLS = [
    "http://a",
    "https://a",
    "HTTP://A.Example/",
    "http://a/",
    "http://a:1",
    "http://a:80/",
    "http://a:65535",
    "http://a_b.svc.cluster.local:8000",
    "http://10.0.0.1",
    "http://255.255.255.255:8000",
    "http://1a",
    "http://1.2.3.x",
    "http://[::1]",
    "http://[::]:65535/",
    "https://[2001:db8::1]:8443",
    "http://[::ffff:10.0.0.1]:80",
    "http://xn--bcher-kva.example",
]
WRONG_URLS = [
    ("", "bare base URL"),
    ("a", "bare base URL"),
    ("//a", "bare base URL"),
    ("ftp://a", "bare base URL"),
    ("http:/a", "bare base URL"),
    ("http://", "bare base URL"),
    ("http:///", "bare base URL"),
    ("http://:80", "bare base URL"),
    ("http://a:", "bare base URL"),
    ("http://a:x", "bare base URL"),
    ("http://a:-1", "bare base URL"),
    ("http://a:0", "port from 1 to 65535"),
    ("http://a:65536", "port from 1 to 65535"),
    ("http://a:99999", "port from 1 to 65535"),
    ("http://a:100000", "bare base URL"),
    ("http://a:\u0661", "bare base URL"),
    ("http://a/b", "bare base URL"),
    ("http://a//", "bare base URL"),
    ("http://a?", "bare base URL"),
    ("http://a/?q=1", "bare base URL"),
    ("http://a#", "bare base URL"),
    ("http://a/#f", "bare base URL"),
    ("http://u@a", "bare base URL"),
    ("http://u:p@a", "bare base URL"),
    (" http://a", "bare base URL"),
    ("http://a ", "bare base URL"),
    ("http://a\n", "bare base URL"),
    ("http://a b", "bare base URL"),
    ("http://a\0", "bare base URL"),
    ("http://a\\b", "bare base URL"),
    ("http://%61", "bare base URL"),
    ("http://-a", "bare base URL"),
    ("http://.a", "bare base URL"),
    ("http://::1", "bare base URL"),
    ("http://[]", "bare base URL"),
    ("http://[::1", "bare base URL"),
    ("http://[[::1]]", "bare base URL"),
    ("http://[::1%25eth0]", "bare base URL"),
    ("http://[v1.a]", "bare base URL"),
    ("http://[:]", "valid IP address"),
    ("http://[1:2]", "valid IP address"),
    ("http://[::1::]", "valid IP address"),
    ("http://[10.0.0.1]", "valid IP address"),
    ("http://256.0.0.1", "valid IP address"),
    ("http://10.0.0", "valid IP address"),
    ("http://10.0.0.1.", "valid IP address"),
    ("http://010.0.0.1", "valid IP address"),
    ("http://2130706433", "valid IP address"),
]


@pytest.mark.parametrize("url", RIGHT_URLS)
def test_a_bare_base_url_is_a_frontend(url: str) -> None:
    assert base_url_fault(url) is None
    assert PoolRegistration(KEY, frontends=(url,)).frontends == (url,)


@pytest.mark.parametrize(("url", "piece"), WRONG_URLS)
def test_anything_more_or_less_than_a_base_url_is_no_frontend(url: str, piece: str) -> None:
    with pytest.raises(Invalid) as caught:
        PoolRegistration(KEY, frontends=("http://a", url))
    assert caught.value.field == "frontends[1]"
    assert piece in caught.value.expectation
