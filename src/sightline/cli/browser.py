"""Open a page in the user's browser, if there is a user and a browser."""

import os
import sys
import threading
import webbrowser


def open_page(url: str) -> bool:
    """Open a page if a user is there to see it; return whether that was tried.

    Without a display, Python would start a text browser, which takes over the terminal. Some browsers return only when
    they are closed, so they run in a thread.
    """
    has_display = sys.platform in ("darwin", "win32") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    )
    if not has_display or not sys.stdout.isatty() or os.environ.get("CI"):
        return False
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
    return True
