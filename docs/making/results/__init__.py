"""`make results`: published results, reproduced and beaten on a laptop CPU. One command per row, resumable."""
