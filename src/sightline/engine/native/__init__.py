"""The native engine: decoding in one C file, int8 or fp32, compiled on first use; none of it needs torch.

transformer.c  the model, the cache, greedy and beam search
compiler       finds or compiles the library
library        its functions, for ctypes
weights        a config and tensors, or a model folder, as what the library takes
model          `NativeModel` and `NativeState`: every array is checked before C is reached
search         whole searches over many texts in one call
native_engine  `NativeEngine`: the same as an `Engine`, for searches of `sightline.decoding`; this one imports torch
"""
