"""The same models in other libraries, each used as its documentation says, with the same weights where that matters.

huggingface     transformers: Marian, BERT, GPT-2
torch_nn        torch.nn.Transformer
x_transformers  lucidrains' x-transformers
nanogpt         the model of nanoGPT, written from its description
ctranslate2     CTranslate2, in 32 and 8 bits
onnx_runtime    onnxruntime, with graphs exported from our weights
llama_cpp       llama.cpp through xllamacpp
"""
