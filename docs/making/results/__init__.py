"""`make results`: published results, reproduced and beaten on a laptop's processor. One command a row, resumable."""
