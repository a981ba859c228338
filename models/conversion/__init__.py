"""Turns a safetensors folder into one GGUF file, once, for llama.cpp. Needs no torch.

The story is in `convert.py`: read the folder, derive the tokenizer's kind, prove it, plan the
tensors, write them one after the other.
"""
