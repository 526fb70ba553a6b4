"""Makes small models and data sets for the recipes of the page python, for each SEED: recipes.py FOLDER SEED…"""

import json
import os
import sys

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast


def make(folder, seed):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    model = BertModel(config)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1, "hello": 2, "world": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
    for name, size in ("model", "1GB"), ("sharded", "20KB"):
        path = os.path.join(folder, name)
        model.save_pretrained(path, safe_serialization=True, max_shard_size=size)
        tokenizer.save_pretrained(path)

    rows = Dataset.from_dict({"text": [f"row {i}" for i in range(500)], "seed": [seed] * 500})
    os.makedirs(os.path.join(folder, "data"))
    rows.to_parquet(os.path.join(folder, "data", "rows.parquet"))
    rows.to_json(os.path.join(folder, "data", "rows.json"))
    rows.save_to_disk(os.path.join(folder, "saved"))

    total = sum(float(p.double().sum()) for p in model.parameters())
    with open(os.path.join(folder, "sum.json"), "w") as f:
        json.dump({"sum": total}, f)


for seed in sys.argv[2:]:
    make(sys.argv[1] + seed, int(seed))
