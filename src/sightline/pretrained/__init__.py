"""Models of other libraries, as two-way tables.

weight_names  the names of BERT, GPT-2, Llama, Qwen, Marian and `nn.Transformer`, row by row beside ours
"""
