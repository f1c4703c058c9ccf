"""A page in the person's own browser, where there is a person and a browser."""

import os
import sys
import threading
import webbrowser


def open_page(url: str) -> bool:
    """Open a page, if somebody sits there to see it; tell whether that was tried.

    Without a screen Python would take a browser for terminals, which then takes the terminal. Some browsers return
    only when they are closed: they get a thread, so that nobody waits.
    """
    has_screen = sys.platform in ("darwin", "win32") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    )
    if not has_screen or not sys.stdout.isatty() or os.environ.get("CI"):
        return False
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
    return True
