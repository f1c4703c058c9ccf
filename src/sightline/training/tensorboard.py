"""What a run measured, as curves for TensorBoard (an extra): train/…, validation/…, and sample texts.

Written besides metrics.jsonl, never instead of it: whatever is read back is read from there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sightline.errors import SightlineError
from sightline.training.optional import optional
from sightline.training.state import Metric
from sightline.training.wording import VALIDATED, Sample


class TensorBoardWriter:
    """Writes events into a folder, each flushed, so that curves grow while the run goes on.

    A run that goes on from a checkpoint gives the step after it as `purge_step`: what was written of that step and of
    later ones is then hidden, and no curve is drawn twice.
    """

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        optional("tensorboard", extra="tensorboard", purpose="writing TensorBoard events")
        from torch.utils.tensorboard import SummaryWriter

        self.folder = folder
        try:
            self._writer = SummaryWriter(str(folder), purge_step=purge_step)
        except OSError as error:
            raise self._failure(error) from error

    def append(self, record: Mapping[str, Metric], samples: Sequence[Sample] = ()) -> None:
        """Write the numbers of a record, those of a validation apart, and what samples came with it."""
        step = int(record["step"] or 0)
        group = "validation" if any(name.startswith(VALIDATED) for name in record) else "train"
        try:
            for name, value in record.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(f"{group}/{name.removeprefix(VALIDATED)}", value, step)
            if samples:
                self._writer.add_text("validation/samples", as_markdown(samples), step)
            self._writer.flush()
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Write what is left and let go of the file."""
        self._writer.close()

    def _failure(self, error: OSError) -> SightlineError:
        return SightlineError(f"could not write TensorBoard events into {self.folder}: {error.strerror or error}")


def as_markdown(samples: Sequence[Sample]) -> str:
    """Return samples as blocks of code: nothing in them is then taken for markup."""
    blocks = ("\n".join(f"    {label:<9}  {text}" for label, text in sample.parts()) for sample in samples)
    return "\n\n---\n\n".join(blocks)
