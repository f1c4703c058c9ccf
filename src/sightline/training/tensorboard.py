"""Metrics of a run as TensorBoard events (an extra): train/…, validation/…, and sample texts.

Written in addition to metrics.jsonl; nothing is read back from here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sightline.errors import SightlineError
from sightline.training.formatting import VALIDATION_PREFIX, Sample
from sightline.training.optional import import_optional
from sightline.training.state import Metric


class TensorBoardWriter:
    """Writes events into a folder, flushing each, so that curves grow during the run.

    A resumed run gives its first step as `purge_step`: events of that step and later ones are then hidden.
    """

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        import_optional("tensorboard", extra="tensorboard", purpose="writing TensorBoard events")
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        try:
            self._writer = SummaryWriter(str(folder), purge_step=purge_step)
        except OSError as error:
            raise self._failure(error) from error

    def append(self, record: Mapping[str, Metric], samples: Sequence[Sample] = ()) -> None:
        """Write the numbers of a training or validation record, and its samples."""
        step = int(record["step"] or 0)
        group = "validation" if any(name.startswith(VALIDATION_PREFIX) for name in record) else "train"
        try:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(f"{group}/{name.removeprefix(VALIDATION_PREFIX)}", value, step)
            if samples:
                self._writer.add_text("validation/samples", format_samples(samples), step)
            self._writer.flush()
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Flush and close the file."""
        self._writer.close()

    def _failure(self, error: OSError) -> SightlineError:
        return SightlineError(f"could not write TensorBoard events into {self.folder}: {error.strerror or error}")


def format_samples(samples: Sequence[Sample]) -> str:
    """Return samples as Markdown code blocks, so that nothing in them is taken for markup."""
    blocks = ("\n".join(f"    {label:<9}  {text}" for label, text in sample.parts()) for sample in samples)
    return "\n\n---\n\n".join(blocks)
