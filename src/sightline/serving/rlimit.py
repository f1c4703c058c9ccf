"""The limit of open files, and so of connections, of a process."""


def raise_open_file_limit(wanted: int) -> None:
    """Raise the soft limit of open files to `wanted`, as far as the hard limit allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )
