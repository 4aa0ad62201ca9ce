"""Where does a server listen, as far as a URL tells?

The address is taken apart and checked once, so that requests go to it and to nothing else. Leaves
out whether anything answers there (`real_runs.servers.exchange`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from hardware_profiles.errors import InputError

_PORTS = {"http": 80, "https": 443}
_PREFIX = re.compile(r"(/[\w.~%+@:-]+)*", re.ASCII)
_HOST = re.compile(r"[\w.:-]+", re.ASCII)
_LONGEST = 2048


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a server listens.

    Attributes:
        scheme: http or https.
        host: name or address, IPv6 without brackets.
        port: 1..65535.
        prefix: path before every request's own, empty or from its first slash, without one at its
            end.
        api_key: sent with every request as `Authorization: Bearer`, and never shown; empty: none
            is.
    """

    scheme: str
    host: str
    port: int
    prefix: str = ""
    api_key: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str, key: str = "URL") -> Address:
        """The address that a URL names; a `/v1` at its end, which clients of OpenAI's interface
        write, is dropped.

        Args:
            url: such as http://127.0.0.1:8080.
            key: the option or argument that holds it, for messages.

        Raises:
            InputError: another scheme, no host, a port out of range, a user's name, a query or a
                fragment.

        Example:
            >>> str(Address.parse("http://localhost:8000/v1/"))
            'http://localhost:8000'
        """
        wanted = "must be a server's address such as http://127.0.0.1:8080"
        try:
            parts = urlsplit(url if len(url) <= _LONGEST else "")
            port = parts.port
        except ValueError as error:
            raise InputError(f"{wanted} ({error})", key=key, value=url) from None
        host, prefix = parts.hostname or "", parts.path.rstrip("/").removesuffix("/v1")
        if (
            parts.scheme not in _PORTS
            or not _HOST.fullmatch(host)
            or not _PREFIX.fullmatch(prefix)
            or port == 0
        ):
            raise InputError(wanted, key=key, value=url)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise InputError(
                f"{wanted}, without a user's name, a query or a fragment", key=key, value=url
            )
        return cls(scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme], prefix=prefix)

    def with_key_of(self, variable: str | None) -> Address:
        """The address with the key that an environment variable holds, so that it stands in no list
        of processes.

        Args:
            variable: its name; None: no key.

        Raises:
            InputError: it is not set, or holds what no header can.
        """
        if variable is None:
            return self
        key = os.environ.get(variable, "").strip()
        if not re.fullmatch(r"[!-~]{1,4096}", key):
            raise InputError(
                "must name an environment variable that holds a key",
                key="key_env",
                value=variable,
            )
        return replace(self, api_key=key)

    @property
    def authority(self) -> str:
        """Host and port as requests and messages write them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"
