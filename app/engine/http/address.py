"""Where a server is, and with which key it is spoken to."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from pathlib import Path
from typing import Final

import httpx

from app.engine.server_settings import KEY_VARIABLE, ServerSettings
from app.errors import SettingsError

MAX_KEY_BYTES: Final = 4096
"""An API key has some hundred bytes at most; a longer file is another file."""

_HIGHEST_PORT: Final = 65535


def base_url(text: str) -> httpx.URL:
    """The base URL of `text`: base path kept, no trailing slash; "host:port" means http.

    Raises SettingsError for what is no http or https address, and for one that carries a user name, a password, a
    query or a fragment: addresses are stored with a run, secrets never are.
    """
    text = text.strip()
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL as error:
        raise SettingsError("This is no address of a server.", _ADDRESS_HINT) from error
    if url.userinfo:
        raise SettingsError(
            "The server's address holds a user name or a password.",
            f"Leave it out, and give the key in {KEY_VARIABLE} or in a key file.",
        )
    no_host = not url.host or ("%" in url.host and ":" not in url.host)  # httpx quotes what cannot stand in a name
    if url.scheme not in ("http", "https") or no_host or (url.port or 1) > _HIGHEST_PORT:
        raise SettingsError(f"{text!r} is no address of a server.", _ADDRESS_HINT)
    if url.query or url.fragment:
        raise SettingsError(f"The server's address {text!r} has a query or a fragment.", _ADDRESS_HINT)
    return url.copy_with(path=url.path.rstrip("/"))


def read_key(url: httpx.URL, settings: ServerSettings) -> str:
    """The API key from the key file, else from the environment; "" where there is none.

    Raises SettingsError where the file is missing, no plain file, readable by others or no key, and where the key would
    go over plain HTTP to a public address.
    """
    source = f"The key file {settings.key_file}" if settings.key_file else f"The environment variable {KEY_VARIABLE}"
    key = _file_content(settings.key_file) if settings.key_file else os.environ.get(KEY_VARIABLE, "").strip()
    if key and not all(" " < letter <= "~" for letter in key):
        raise SettingsError(f"{source} holds no key: a key is one line of ASCII without spaces.")
    if key and url.scheme == "http" and not settings.allow_insecure and _is_public(url.host):
        raise SettingsError(
            f"{url.host} is a public address without TLS while a key is set: anyone on the way could read the key.",
            f"Use https, unset {KEY_VARIABLE}, or allow it with --allow-insecure.",
        )
    return key


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine by its spelling; no name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _file_content(path: Path) -> str:
    # Opened first and asked then, so that what is judged is what is read; a pipe must not make us wait.
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise SettingsError(f"The key file {path} cannot be read: {error.strerror}.") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SettingsError(f"The key file {path} is no plain file.")
        if os.name == "posix" and status.st_mode & 0o077:
            raise SettingsError(f"Others can read the key file {path}.", f"Run: chmod 600 {path}")
        content = os.read(descriptor, MAX_KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    text = content.decode("ascii", errors="replace").strip()
    if not text or len(content) > MAX_KEY_BYTES:
        raise SettingsError(f"The key file {path} holds no key.", "It must hold the key alone, on one line.")
    return text


def _is_public(host: str) -> bool:
    """Whether one of the host's addresses is reachable from the internet; a name that nobody knows counts as such."""
    if is_loopback(host):
        return False
    try:
        found = {str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return True
    return any(_is_global(ipaddress.ip_address(address)) for address in found)


def _is_global(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_global


_ADDRESS_HINT: Final = "Give it like http://127.0.0.1:8080 or https://host/base/path."
