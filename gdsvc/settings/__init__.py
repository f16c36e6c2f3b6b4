"""argv and environ -> one frozen Settings, the only reader of environment variables; the flag names live here.

flags holds the table, values the meaning of a text, sources what was set, parse the rules between flags. Those of the
Global Frontend are in frontend_flags and frontend.
"""

from gdsvc.settings.frontend import FrontendSettings, parse_frontend
from gdsvc.settings.parse import (
    ClusterSettings,
    DynamoDbSettings,
    KubernetesSettings,
    Settings,
    TableSettings,
    Usage,
    format_faults,
    parse_serve,
    parse_table,
)

__all__ = [
    "ClusterSettings",
    "DynamoDbSettings",
    "FrontendSettings",
    "KubernetesSettings",
    "Settings",
    "TableSettings",
    "Usage",
    "format_faults",
    "parse_frontend",
    "parse_serve",
    "parse_table",
]
