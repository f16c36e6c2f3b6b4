"""Names of pools as people type them: `site/namespace/name`."""

import re
from urllib.parse import unquote_to_bytes

from gdsvc.errors import Invalid
from gdsvc.model import PoolKey

EXPECTED = "expected site/namespace/name"
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def read_key(text: str) -> PoolKey:
    """The key that `text` names; its three names may be percent-encoded, a slash inside one has to be. Raises Invalid.

    The error's `field` is KEY, as the argument is called.
    """
    segments = text.split("/")
    if len(segments) != 3:
        raise Invalid(f"{EXPECTED}: three names with a slash between them, %2F for a slash inside one", "KEY")
    if _STRAY_PERCENT.search(text):
        raise Invalid(f"{EXPECTED}, with %25 for a percent sign inside a name", "KEY")
    try:
        return PoolKey(*(unquote_to_bytes(segment).decode() for segment in segments))
    except UnicodeError:
        raise Invalid(f"{EXPECTED} in UTF-8", "KEY") from None
    except Invalid as fault:
        raise Invalid(f"{EXPECTED}; of the {fault.field}: {fault.expectation}", "KEY") from None
