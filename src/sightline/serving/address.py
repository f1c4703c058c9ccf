"""The place where the server listens: taken first, so that a wrong one is said before any model is loaded."""

import errno
import ipaddress
import socket

from sightline.errors import RefusedError, SightlineError
from sightline.serving.settings import ServingSettings

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def bind(settings: ServingSettings) -> socket.socket:
    """Return a socket bound to the address, or say in one sentence why there is none.

    Refuses to be reached from other machines without a key, unless that is said to be meant.
    """
    family, address = resolved(settings)
    if not is_loopback(address[0]) and not settings.keys and not settings.allow_unauthenticated:
        raise RefusedError(
            f"with --host {settings.host} every machine that reaches this one could use the model: give a key with "
            "--api-key, or say --allow-unauthenticated if that is meant"
        )
    # With the protocol named, asyncio sends small pieces at once; without it, each would wait 40 ms for the one before.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(1)  # two sockets can be bound to one port, as long as neither listens
    except OSError as error:
        taken.close()
        raise SightlineError(why(error, settings)) from None
    return taken


def resolved(settings: ServingSettings) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the address of the host; where a name has several, the older kind, which every client tries."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE if settings.host else 0
        )
    except (OSError, UnicodeError):
        raise RefusedError(
            f"--host {settings.host}: there is no such host; leave it out for this machine alone"
        ) from None
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def why(error: OSError, settings: ServingSettings) -> str:
    """Return why the address cannot be had, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {settings.port} is in use: end the program that has it, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {settings.port} may not be used by you: choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {settings.host} is no address of this machine: leave it out for this machine alone"
    return f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}"


def url_of(taken: socket.socket) -> str:
    """Return what to type into a browser on this machine."""
    host, port = taken.getsockname()[:2]
    host = WILDCARDS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
