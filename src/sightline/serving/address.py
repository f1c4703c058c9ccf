"""The address the server listens on: bound first, so that a wrong one fails before any model is loaded."""

import errno
import ipaddress
import socket

from sightline.errors import RefusedError, SightlineError
from sightline.serving.settings import ServingSettings

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def bind(settings: ServingSettings) -> socket.socket:
    """Return a socket bound to the address, or raise an error that says why it cannot be.

    Refuses addresses that other machines can reach without a key, unless that is explicitly allowed.
    """
    family, address = resolve(settings)
    if not is_loopback(address[0]) and not settings.keys and not settings.allow_unauthenticated:
        raise RefusedError(
            f"--host {settings.host} is open to other machines: set a key with --api-key, or allow requests without "
            "one with --allow-unauthenticated"
        )
    # With an explicit protocol asyncio sets TCP_NODELAY; without it, each small chunk would wait 40 ms for the last.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)  # two sockets can be bound to one port, as long as neither listens
    except OSError as error:
        listener.close()
        raise SightlineError(explain(error, settings)) from None
    return listener


def resolve(settings: ServingSettings) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the address of the host; of several, an IPv4 one, which every client tries."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE if settings.host else 0
        )
    except (OSError, UnicodeError):
        raise RefusedError(
            f"--host {settings.host}: host not found; omit --host to listen on this machine only"
        ) from None
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def explain(error: OSError, settings: ServingSettings) -> str:
    """Return why the address cannot be bound, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {settings.port} is in use: stop the program that uses it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {settings.port}: permission denied; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {settings.host} is not an address of this machine: omit --host to listen on this machine only"
    return f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}"


def url_of(listener: socket.socket) -> str:
    """Return the URL of a bound socket for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    host = WILDCARDS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
