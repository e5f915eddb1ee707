"""gguf_convert.py LLAMA_CPP MODEL OUT - a release checkpoint as GGUF, by llama.cpp's own converter.

It keeps the experts' MXFP4 and turns FP8 into Q8_0, as it does for the full model. The vocabulary
is left out: the converter knows tokenizers by name, and the forward pass needs none.
"""
import sys
from pathlib import Path

source, model, out = sys.argv[1:4]
sys.path[:0] = [f"{source}/gguf-py", source]

import gguf  # noqa: E402
from conversion.deepseek import DeepseekV4Model  # noqa: E402


class Bare(DeepseekV4Model):
    model_arch = DeepseekV4Model.model_arch

    def set_vocab(self):
        self._set_vocab_none()
        self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])


Bare(Path(model), gguf.LlamaFileType.ALL_F32, Path(out)).write()
