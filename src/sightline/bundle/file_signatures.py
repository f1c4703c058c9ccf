"""Recognize files of other formats by their first bytes."""

SIGNATURES = (
    (b"PK\x03\x04", "a zip archive (such as PyTorch's .pt and .bin)"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer: the real file was not downloaded (git lfs pull)"),
    (b"<", "a web page or XML: the download failed"),
)
PICKLE_PROTOCOLS = range(2, 6)


def sniff(beginning: bytes) -> str | None:
    """Return the format of a file by its first bytes, if it is a known one that we do not read."""
    if not beginning.strip():
        return "empty" if not beginning else None
    if beginning[0] == 0x80 and len(beginning) > 1 and beginning[1] in PICKLE_PROTOCOLS:
        return "a pickle, which can execute arbitrary code: it is never opened"
    return next((kind for signature, kind in SIGNATURES if beginning.startswith(signature)), None)
