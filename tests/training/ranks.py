"""Two processes that train together, as torchrun would start them."""

import os
import traceback
from collections.abc import Callable

import pytest
import torch


def run_two_ranks(work: Callable[[int], object]) -> None:
    """Let two processes do the work, each with the index of its rank; both must succeed."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # a port of its own
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2"}
    together["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    children = []
    for index in range(2):
        children.append(os.fork())
        if children[-1] == 0:
            try:
                with pytest.MonkeyPatch.context() as patch:
                    for name, value in {**together, "RANK": str(index)}.items():
                        patch.setenv(name, value)
                    work(index)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
