"""Say what a file really is, when it is not what its name says."""

SIGNS = (
    (b"PK\x03\x04", "a zip archive (PyTorch's .pt and .bin are such)"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer: the real file was not downloaded (git lfs pull)"),
    (b"<", "a web page or XML: the download went wrong"),
)
PICKLE_PROTOCOLS = range(2, 6)


def real_kind(beginning: bytes) -> str | None:
    """Return what these first bytes of a file belong to, if it is a known kind that we do not read."""
    if not beginning.strip():
        return "empty" if not beginning else None
    if beginning[0] == 0x80 and len(beginning) > 1 and beginning[1] in PICKLE_PROTOCOLS:
        return "a pickle, which could run anything: it is never opened"
    return next((kind for sign, kind in SIGNS if beginning.startswith(sign)), None)
